"""The schedule of one training step: what the solver writes and the executor replays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from rematopt.graph import Graph, Signature
from rematopt.units import format_bytes


class Compute(msgspec.Struct, frozen=True, tag="compute", array_like=True):
    """Run op ``op``; its outputs are alive afterwards."""

    op: int


class Free(msgspec.Struct, frozen=True, tag="free", array_like=True):
    """Drop data ``data``."""

    data: int


Step = Compute | Free


class Status(StrEnum):
    """What is known of a schedule when the solver stops."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    TIME_LIMIT = "time_limit"


@dataclass(frozen=True, kw_only=True, repr=False)
class Schedule:
    """The steps of a training step in order, with what was predicted and proved about them.

    Parameters
    ----------
    steps : tuple of Compute or Free
        The whole step, forward and backward.
    forward_end : int
        Index of the first step that belongs to the backward pass.
    peak_bytes : int
        Largest resident bytes, static memory included (see :func:`rematopt.simulator.simulate`).
    seconds : float
        Sum of the times of all computed ops.
    limit_bytes : int or None
        Memory limit that was asked for; None for a schedule that ignores limits.
    strategy : str
        Name of the strategy that found it.
    status : Status
        OPTIMAL if proved cheapest under the limit for the given order of ops, else FEASIBLE.
    bound_seconds : float
        No schedule of this problem takes less.
    solve_seconds : float
        Wall time spent solving.
    unplanned_peak_bytes, unplanned_seconds : int, float
        The same step without rematerialization.
    smallest_limit_bytes : int or None
        Smallest limit known to be feasible, where it was worked out.
    fingerprint : str
        Fingerprint of the graph it was made for.
    structure : str
        Hash of that graph without sizes.
    data_bytes : tuple of int
        Size of each data of that graph.
    signature : Signature
        What that graph was captured from.
    ops : tuple of str
        One line for every op of the graph, to say what differs from another one.
    timing : str
        How the times were obtained (see :class:`rematopt.graph.Graph`).
    """

    steps: tuple[Step, ...]
    forward_end: int
    peak_bytes: int
    seconds: float
    limit_bytes: int | None
    strategy: str
    status: Status
    bound_seconds: float
    solve_seconds: float
    unplanned_peak_bytes: int
    unplanned_seconds: float
    smallest_limit_bytes: int | None = None
    fingerprint: str = ""
    structure: str = ""
    data_bytes: tuple[int, ...] = ()
    signature: Signature = Signature()
    ops: tuple[str, ...] = ()
    timing: str = ""

    def __repr__(self) -> str:
        limit = "no limit" if self.limit_bytes is None else f"limit {format_bytes(self.limit_bytes)}"
        return (
            f"Schedule({self.strategy}, {self.status}: peak {format_bytes(self.peak_bytes)}, {limit}, "
            f"{self.overhead:+.2%} time, gap {self.gap:.2%})"
        )

    def covers(self, graph: Graph) -> bool:
        """Whether the steps hold for ``graph`` and need no more memory there.

        True for the graph it was made for, and for a call with the same structure in which no data is
        larger (a smaller last batch).
        """
        if graph.fingerprint == self.fingerprint:
            return True
        return graph.structure == self.structure and all(
            mine <= planned for mine, planned in zip((d.bytes for d in graph.data), self.data_bytes, strict=True)
        )

    @property
    def overhead(self) -> float:
        """Extra time as a fraction of the unplanned step."""
        return self.seconds / self.unplanned_seconds - 1 if self.unplanned_seconds else 0.0

    @property
    def gap(self) -> float:
        """Distance to the bound as a fraction of this step's time."""
        return max(0.0, 1 - self.bound_seconds / self.seconds) if self.seconds else 0.0

    @property
    def runs(self) -> Iterator[int]:
        """The ops in the order in which they run, recomputations included."""
        return (step.op for step in self.steps if isinstance(step, Compute))

    @property
    def recomputed(self) -> int:
        """Number of op runs beyond the first of each op."""
        runs = list(self.runs)
        return len(runs) - len(set(runs))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule to a JSON file.

        Raises
        ------
        ArtefactError
            If the file cannot be written.
        """
        from rematopt.artefacts import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schedule:
        """Read a schedule that :meth:`save` wrote.

        Raises
        ------
        ArtefactError
            If the file is missing, damaged or holds something else.
        """
        from rematopt.artefacts import load

        return load(path, Schedule)
