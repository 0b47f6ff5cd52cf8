"""The result of :func:`rematopt.explain`."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rematopt.explanation.peak import Peak
from rematopt.front import Front
from rematopt.graph import Graph
from rematopt.reserved import Reserved
from rematopt.schedule import Schedule
from rematopt.solver.bounds import Floor
from rematopt.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from rematopt.plot_timeline import Curve


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation:
    """Where the memory of a training step goes, and what less costs.

    Parameters
    ----------
    graph : Graph
        The step.
    device : str
        Where it was profiled; empty if unknown.
    schedule : Schedule
        The schedule that is explained; the one that runs every op once if none was given.
    unplanned : Schedule
        The one that runs every op once.
    peak : Peak
        The moment of the peak.
    floor : Floor
        The op that needs most by itself: no limit below it is feasible.
    front : Front
        Schedules from the smallest limit to the unplanned peak; without points if none were asked for.
    advice : tuple of str
        What to do, the most important first.
    reserved : Reserved or None
        What CUDA's caching allocator takes from the device for the schedule; None for profiles of a CPU.
    """

    graph: Graph
    device: str
    schedule: Schedule
    unplanned: Schedule
    peak: Peak
    floor: Floor
    front: Front
    advice: tuple[str, ...]
    reserved: Reserved | None = None

    def __repr__(self) -> str:
        return f"Explanation(peak {format_bytes(self.peak.bytes)} at {self.peak.place})"

    @property
    def smallest_limit_bytes(self) -> int | None:
        """Smallest limit for which a schedule is known, where it was searched for."""
        return self.front.schedules[0].peak_bytes if self.front.schedules else None

    @property
    def next_saving(self) -> Schedule | None:
        """The first schedule below the present peak, which costs least of those."""
        below = [s for s in self.front.schedules if s.peak_bytes < self.peak.bytes]
        return below[-1] if below else None

    def modules(self) -> pd.DataFrame:
        """Tabulate retained and recomputed bytes and seconds by module (see :mod:`rematopt.explanation.modules`)."""
        from rematopt.explanation.modules import module_costs

        return module_costs(self.graph, self.schedule.steps, self.unplanned.steps)

    def record(self) -> dict[str, Any]:
        """Return everything as one record: what ``--json`` prints."""
        from rematopt.records import front_records

        return {
            "model": self.graph.signature.model,
            "device": self.device,
            "timing": self.graph.timing,
            "peak": asdict(self.peak),
            "static_bytes_by_kind": asdict(self.graph.static),
            "unplanned_peak_bytes": self.unplanned.peak_bytes,
            "smallest_limit_bytes": self.smallest_limit_bytes,
            "reserved": None if self.reserved is None else asdict(self.reserved),
            "floor_bytes": self.floor.bytes,
            "floor_cause": self.floor.explain(self.graph),
            "limits": front_records(self.graph, self.front),
            "modules": self.modules().to_dict(orient="records"),
            "advice": list(self.advice),
        }

    def plot(self, path: str | os.PathLike[str] | None = None, *, measured: Curve | None = None) -> Figure:
        """Draw what is resident over the step.

        Parameters
        ----------
        path : path, optional
            Where to save the picture; the suffix decides on the format.
        measured : Curve, optional
            A measured step to draw beside the prediction.

        Raises
        ------
        InvalidInputError
            If the suffix is no picture format.
        ArtefactError
            If the file cannot be written.
        """
        from rematopt.plot_style import finish
        from rematopt.plot_timeline import plot_timeline

        return finish(plot_timeline(self.graph, self.schedule, measured=measured), path)
