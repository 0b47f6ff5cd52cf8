"""The Pareto front of memory against time: one solve a limit, made consistent over the limits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rematopt.errors import InfeasibleLimitError, InvalidInputError
from rematopt.graph import Graph
from rematopt.profile import Profile
from rematopt.progress import counted
from rematopt.schedule import Schedule, Status
from rematopt.solver import solve
from rematopt.units import SMALLEST, AboveSmallest, read_limit

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from rematopt.comparison import Comparison

BASELINES = ("store-all", "recompute-all", "chen-sqrt")
"""Strategies that a front is compared with; they take no limit and give one point each."""

_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Point:
    """What was found for one limit.

    Parameters
    ----------
    limit_bytes : int
        The limit on the peak.
    schedule : Schedule or None
        The cheapest schedule known to fit it; None if there is none.
    """

    limit_bytes: int
    schedule: Schedule | None


@dataclass(frozen=True, kw_only=True)
class Front:
    """Cheapest schedules by rising memory limit, and baselines to compare them with.

    Parameters
    ----------
    points : tuple of Point
        One entry a limit, in rising order; seconds never rise with the limit.
    baselines : tuple of Schedule
        What the strategies of :data:`BASELINES` give.
    """

    points: tuple[Point, ...]
    baselines: tuple[Schedule, ...] = ()

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules found, by rising limit."""
        return tuple(point.schedule for point in self.points if point.schedule is not None)

    def to_frame(self) -> pd.DataFrame:
        """Return a row a limit: peak, time, overhead, status, bound, gap, time to solve, strategy.

        A limit without a schedule has the status ``infeasible`` and no values.
        """
        import pandas as pd

        columns = ["peak_bytes", "seconds", "overhead", "status", "bound_seconds", "gap", "solve_seconds", "strategy"]
        rows = [
            {"limit_bytes": point.limit_bytes}
            | (
                {name: getattr(point.schedule, name) for name in columns}
                if point.schedule
                else {"status": Status.INFEASIBLE}
            )
            for point in self.points
        ]
        frame = pd.DataFrame(rows, columns=["limit_bytes", *columns])
        return frame.astype({"peak_bytes": "Int64", "status": "str"})

    def plot(
        self, path: str | os.PathLike[str] | None = None, *, measured: Sequence[Comparison] = (), title: str = ""
    ) -> Figure:
        """Draw the front with its bound and the baselines (see :func:`rematopt.plot_front.plot_front`).

        Parameters
        ----------
        path : path, optional
            Where to save the picture; the suffix decides on the format.
        measured : sequence of Comparison
            Measured runs to draw beside the predictions.
        title : str
            Title of the picture; by default what it shows.

        Raises
        ------
        ArtefactError
            If the file cannot be written.
        """
        from rematopt.plot_front import plot_front
        from rematopt.plot_style import finish

        return finish(plot_front(self, measured=measured, title=title), path)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``pareto.csv`` and ``schedule-LIMIT.json`` for each limit into a folder, which is made if missing.

        Raises
        ------
        ArtefactError
            If a file cannot be written.
        """
        from rematopt.artefacts import make_folder, write_atomically

        target = make_folder(folder)
        write_atomically(target / "pareto.csv", self.to_frame().to_csv(index=False).encode())
        for schedule in self.schedules:
            schedule.save(target / f"schedule-{schedule.limit_bytes}.json")


def pareto(
    profile: Profile | Graph,
    limits: int | Iterable[int | float | str] = 12,
    *,
    strategy: str = "auto",
    time_limit: float = 30.0,
    gap: float = 0.01,
    jobs: int = -1,
    progress: bool | None = None,
) -> Front:
    """Solve a sweep of memory limits.

    Each schedule is the cheapest one found for *any* of the limits that fits its own, and each bound the
    largest one proved for any limit from its own on, so that no curve can bend the wrong way: a lower
    limit never gives a shorter step or a higher peak.

    Parameters
    ----------
    profile : Profile or Graph
        What to solve for.
    limits : int or iterable
        A number of limits, spread evenly from the smallest feasible one to the unplanned peak; or the
        limits themselves, each written as for :func:`rematopt.solve`.
    strategy, gap : str, float
        As for :func:`rematopt.solve`.
    time_limit : float
        Seconds for each limit.
    jobs : int
        Limits solved at the same time, each in a process of its own; -1 for one a CPU.
    progress : bool, optional
        Whether to show a bar on stderr; by default if that is a terminal.

    Raises
    ------
    InvalidInputError
        If a limit cannot be read, there are none, fewer than two are to be spread, or ``jobs`` is 0.
    """
    from joblib import Parallel, delayed

    if jobs == 0:
        raise InvalidInputError("jobs=0: give the number of limits to solve at the same time, or -1 for one a CPU")
    graph = profile.graph if isinstance(profile, Profile) else profile
    sweep = _Sweep(graph=graph, strategy=strategy, time_limit=time_limit, gap=gap)
    baselines = tuple(without_limit(graph, name) for name in BASELINES)
    unplanned_peak_bytes = baselines[0].peak_bytes
    wanted = set(_limits(limits, sweep, unplanned_peak_bytes))
    parallel = Parallel(n_jobs=min(jobs, len(wanted)) if jobs > 0 else jobs, return_as="generator_unordered")
    found = parallel(delayed(sweep.point)(limit) for limit in sorted(wanted))
    points = list(counted(found, total=len(wanted), label="solving", show=progress))
    return Front(points=consistent(points), baselines=baselines)


def consistent(points: Iterable[Point]) -> tuple[Point, ...]:
    """Order points by limit and let each use the schedules and bounds of the others.

    Each gets the cheapest schedule that fits it, of equally cheap ones that with the smallest peak; so
    neither time nor peak bends the wrong way along the limits. A bound holds for every lower limit, too.
    """
    ordered = sorted(points, key=lambda point: point.limit_bytes)
    found = [point.schedule for point in ordered if point.schedule is not None]
    schedules = [_cheapest(found, point) for point in ordered]
    bound = 0.0
    for i in reversed(range(len(schedules))):
        if (own := schedules[i]) is not None:
            bound = max(bound, own.bound_seconds)
            proved = own.seconds <= bound * (1 + _TOLERANCE)
            status = Status.OPTIMAL if proved else own.status
            schedules[i] = replace(own, bound_seconds=min(bound, own.seconds), status=status)
    pairs = zip(ordered, schedules, strict=True)
    return tuple(Point(limit_bytes=point.limit_bytes, schedule=schedule) for point, schedule in pairs)


def _cheapest(found: Sequence[Schedule], point: Point) -> Schedule | None:
    """Return the cheapest schedule that fits the point, as a schedule for its limit."""
    fitting = [schedule for schedule in found if schedule.peak_bytes <= point.limit_bytes]
    own = point.schedule
    best = min(fitting, key=lambda schedule: (schedule.seconds, schedule.peak_bytes), default=None)
    if best is None or best is own:
        return own
    bound = own.bound_seconds if own is not None else best.unplanned_seconds
    return replace(best, limit_bytes=point.limit_bytes, bound_seconds=min(bound, best.seconds), status=Status.FEASIBLE)


@dataclass(frozen=True, kw_only=True)
class _Sweep:
    """What is common to the solves of one front; sent to the worker processes."""

    graph: Graph
    strategy: str
    time_limit: float
    gap: float

    def solve(self, limit: int | str) -> Schedule:
        return solve(self.graph, limit, strategy=self.strategy, time_limit=self.time_limit, gap=self.gap)

    def point(self, limit: int) -> Point:
        try:
            return Point(limit_bytes=limit, schedule=self.solve(limit))
        except InfeasibleLimitError:
            return Point(limit_bytes=limit, schedule=None)


def _limits(limits: int | Iterable[int | float | str], sweep: _Sweep, unplanned_peak_bytes: int) -> list[int]:
    """Turn the limits as asked for into bytes; the smallest feasible one is worked out only where it is needed."""
    if isinstance(limits, int):
        if limits < 2:
            raise InvalidInputError(f"limits={limits}: give 2 or more to spread, or a list of memory limits")
        read: list[int | AboveSmallest] = [AboveSmallest(k / (limits - 1)) for k in range(limits)]
    else:
        read = [read_limit(limit, unplanned_peak_bytes=unplanned_peak_bytes) for limit in limits]
    if not read:
        raise InvalidInputError("limits is empty; give at least one memory limit, or their number")
    if all(isinstance(limit, int) for limit in read):
        return [limit for limit in read if isinstance(limit, int)]
    ends = {
        "smallest_limit_bytes": sweep.solve(SMALLEST).peak_bytes,
        "unplanned_peak_bytes": unplanned_peak_bytes,
    }
    return [limit.in_bytes(**ends) if isinstance(limit, AboveSmallest) else limit for limit in read]


def without_limit(graph: Graph, strategy: str) -> Schedule:
    """Return what a strategy gives where memory does not matter."""
    everything = graph.static.total + sum(data.bytes for data in graph.data)
    # Twice as much, since an op that runs again may allocate what is alive already.
    enough = 2 * everything + max((op.workspace_bytes for op in graph.ops), default=0) + 1
    return replace(solve(graph, enough, strategy=strategy), limit_bytes=None)
