"""``auto``: a schedule at once, then a better one and a bound for as long as it is worth it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rematopt.schedule import Schedule, Status
from rematopt.solver.bounds import peak_floor, seconds_bound
from rematopt.solver.milp import Milp
from rematopt.solver.neighbourhood import LocalSearch, improve
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.progress import Progress, Report
from rematopt.solver.registry import create
from rematopt.solver.result import RELATIVE_TOLERANCE, result_from_runs
from rematopt.solver.stages import staged

QUICK = ("store-all", "greedy", "recompute-all")
"""Heuristics that give a first schedule, in the order in which they are tried."""

SMALL_UP_TO = 6_000
"""Most places to recompute for which the exact model may prove an optimum in time; beyond, a
relaxation of it that keeps runs integral still improves the bound."""


@dataclass
class _Best:
    """The best schedule and the best bound so far."""

    problem: Problem
    gap: float
    report: Report | None
    started: float = field(default_factory=time.perf_counter)
    schedule: Schedule | None = None
    bound: float = 0.0
    infeasible: bool = False

    def __post_init__(self) -> None:
        self.bound = self.problem.graph.seconds

    def take(self, result: SolveResult, name: str) -> None:
        """Remember what a strategy found, and tell about it."""
        self.infeasible = self.infeasible or result.status is Status.INFEASIBLE
        better = self.schedule is None or result.objective < self.schedule.seconds
        if result.schedule is not None and better:
            self.schedule = result.schedule
        self.raise_bound(result.bound, name)

    def raise_bound(self, bound: float, name: str) -> None:
        """Remember a bound, and tell about it."""
        self.bound = max(self.bound, bound)
        if self.report is not None:
            found = self.schedule
            self.report(
                Progress(
                    strategy=found.strategy if found else name,
                    seconds=found.seconds if found else math.inf,
                    bound=min(self.bound, found.seconds) if found else self.bound,
                    elapsed=time.perf_counter() - self.started,
                )
            )

    @property
    def good_enough(self) -> bool:
        """Whether the gap is reached, or nothing is left to find."""
        if self.schedule is None:
            return self.infeasible
        return self.schedule.seconds - self.bound <= max(self.gap, RELATIVE_TOLERANCE) * self.schedule.seconds

    def result(self) -> SolveResult:
        """The best schedule with the best bound."""
        seconds = time.perf_counter() - self.started
        if self.schedule is None:
            status = Status.INFEASIBLE if self.infeasible else Status.TIME_LIMIT
            return SolveResult(schedule=None, status=status, objective=math.inf, bound=self.bound, seconds=seconds)
        bound = min(self.bound, self.schedule.seconds)
        proved = self.schedule.seconds <= bound * (1 + RELATIVE_TOLERANCE)
        status = Status.OPTIMAL if proved else Status.FEASIBLE
        schedule = replace(self.schedule, status=status, bound_seconds=bound, solve_seconds=seconds)
        return SolveResult(schedule=schedule, status=status, objective=schedule.seconds, bound=bound, seconds=seconds)


class Auto:
    """Run what fits the size of the problem, best schedule and best bound kept.

    Parameters
    ----------
    gap : float
        Distance to the bound, as a share of the step's time, that is good enough.
    progress : callable, optional
        Is called with a :class:`Progress` whenever a stage of the search ends.
    """

    name = "auto"

    def __init__(self, *, gap: float = 0.01, progress: Report | None = None) -> None:
        self.gap = gap
        self.progress = progress

    def solve(self, problem: Problem, time_limit: float, *, start: Sequence[int] | None = None) -> SolveResult:
        """Solve ``problem``, from the op runs ``start`` where given.

        On Ctrl-C the best schedule so far is returned, if there is one.
        """
        best = _Best(problem, self.gap, self.progress)
        deadline = best.started + time_limit
        if peak_floor(problem.graph).bytes > problem.limit_bytes:
            best.infeasible = True
            return best.result()
        if start is not None:
            best.take(result_from_runs(problem, start, strategy=self.name, started=best.started), self.name)
        try:
            for _ in self._search(problem, best, deadline):
                if best.good_enough or time.perf_counter() >= deadline:
                    break
        except KeyboardInterrupt:
            if best.schedule is None:
                raise
        return best.result()

    def _search(self, problem: Problem, best: _Best, deadline: float) -> Iterator[None]:
        """The stages of the search, from quick to thorough; the caller stops between two of them."""
        for name in QUICK:
            best.take(create(name).solve(problem, _left(deadline) / 4), name)
            yield
            if best.schedule is not None:
                break
        small = staged(problem.graph).choices <= SMALL_UP_TO
        yield from self._bounded(problem, best, deadline, 0.5 if small else 0.8, branch=False)
        if small:
            yield from self._searched(problem, best, 8, deadline, 0.3)
            yield from self._searched(problem, best, None, deadline, 1.0)
        else:
            yield from self._improved(problem, best, deadline, 0.2)
            yield from self._searched(problem, best, 8, deadline, 0.2)
            yield from self._searched(problem, best, 24, deadline, 0.3)
            yield from self._bounded(problem, best, deadline, 1.0, branch=True)
        yield from self._improved(problem, best, deadline, 1.0)

    def _bounded(self, problem: Problem, best: _Best, deadline: float, share: float, *, branch: bool) -> Iterator[None]:
        """Raise the bound."""
        until = time.perf_counter() + share * _left(deadline)
        best.raise_bound(seconds_bound(problem, until, branch=branch), "bound")
        yield

    def _improved(self, problem: Problem, best: _Best, deadline: float, share: float) -> Iterator[None]:
        """Search the neighbourhood of the best schedule until the gap is reached or its time is over."""
        if best.schedule is None:
            return
        started = time.perf_counter()
        runs = improve(
            problem,
            list(best.schedule.runs),
            deadline=started + share * _left(deadline),
            enough_seconds=best.bound / (1 - self.gap),
        )
        best.take(result_from_runs(problem, runs, strategy=LocalSearch.name, started=started), LocalSearch.name)
        yield

    def _searched(
        self, problem: Problem, best: _Best, window: int | None, deadline: float, share: float
    ) -> Iterator[None]:
        """Search with ``milp`` from the best schedule so far."""
        start = list(best.schedule.runs) if best.schedule is not None else None
        milp = Milp(window=window, gap=self.gap / 2)
        best.take(milp.solve(problem, share * _left(deadline), start=start), milp.name)
        yield


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.perf_counter())
