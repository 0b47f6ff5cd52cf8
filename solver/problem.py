"""What every strategy is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rematopt.graph import Graph
from rematopt.schedule import Schedule, Status


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Find the cheapest schedule of a graph under a memory limit.

    Parameters
    ----------
    graph : Graph
        Ops in the order in which they run for the first time.
    limit_bytes : int
        Limit on the peak, static bytes included.
    """

    graph: Graph
    limit_bytes: int


@dataclass(frozen=True, kw_only=True)
class SolveResult:
    """What a strategy found.

    Parameters
    ----------
    schedule : Schedule or None
        The best schedule under the limit; None if none was found.
    status : Status
        OPTIMAL (proved), FEASIBLE (a schedule without a proof), INFEASIBLE (proved that none exists)
        or TIME_LIMIT (time ran out without a schedule).
    objective : float
        Seconds of the schedule; infinity without one.
    bound : float
        No schedule of the problem takes fewer seconds.
    seconds : float
        Wall time of the solve.
    """

    schedule: Schedule | None
    status: Status
    objective: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Distance of objective and bound as a fraction of the step's time."""
        if self.schedule is None:
            return float("inf")
        return self.schedule.gap


class Strategy(Protocol):
    """A way to find schedules."""

    name: str

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Solve ``problem`` within ``time_limit`` seconds of wall time."""
        ...
