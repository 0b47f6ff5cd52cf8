"""``auto``: a schedule at once, then a better one and a bound for as long as it is worth it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from rematopt.solver.bounds import peak_floor
from rematopt.solver.incumbent import Bounding, Incumbent
from rematopt.solver.milp import Milp
from rematopt.solver.neighbourhood import LocalSearch, improve
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.progress import Report
from rematopt.solver.registry import create
from rematopt.solver.stages import staged

QUICK = ("store-all", "greedy", "recompute-all")
"""Heuristics that give a first schedule, in the order in which they are tried."""

SMALL_UP_TO = 6_000
"""Most places to recompute for which the exact model may prove an optimum in time."""

SHARE_FOR_CUTS = 0.2
"""Most of the time left that the exact search waits for further cuts."""

SECONDS_BETWEEN_NEWS = 0.5
"""Wall time between two schedules of the local search that are simulated and told."""


class Auto:
    """Run what fits the size of the problem, best schedule and best bound kept.

    One thread raises the bound while another searches for schedules.

    Parameters
    ----------
    gap : float
        Distance to the bound, as a share of the step's time, that is good enough.
    progress : callable, optional
        Is called with a :class:`Progress` whenever schedule or bound get better.
    """

    name = "auto"

    def __init__(self, *, gap: float = 0.01, progress: Report | None = None) -> None:
        self.gap = gap
        self.progress = progress

    def solve(self, problem: Problem, time_limit: float, *, start: Sequence[int] | None = None) -> SolveResult:
        """Solve ``problem``, from the op runs ``start`` where given.

        On Ctrl-C the best schedule so far is returned, if there is one.
        """
        best = Incumbent(problem, self.gap, self.progress)
        deadline = best.started + time_limit
        if peak_floor(problem.graph).bytes > problem.limit_bytes:
            best.infeasible = True
            return best.result()
        try:
            if start is not None:
                best.take_runs(start, self.name, best.started)
            self._first(problem, best, deadline)
            if not best.good_enough:
                self._search(problem, best, deadline)
        except KeyboardInterrupt:
            if best.schedule is None:
                raise
        return best.result()

    def _first(self, problem: Problem, best: Incumbent, deadline: float) -> None:
        """Find some schedule."""
        for name in QUICK:
            best.take(create(name).solve(problem, _left(deadline) / 4), name)
            if best.schedule is not None:
                break

    def _search(self, problem: Problem, best: Incumbent, deadline: float) -> None:
        """Search for better schedules while the bound is raised."""
        with Bounding(best, deadline) as bounding:
            for search in self._searches(problem, best, bounding, deadline):
                search()
                if best.good_enough or time.perf_counter() >= deadline:
                    return
            bounding.settle(deadline)

    def _searches(
        self, problem: Problem, best: Incumbent, bounding: Bounding, deadline: float
    ) -> list[Callable[[], None]]:
        """The searches, from quick to thorough."""
        improved = partial(self._improved, problem, best, deadline)
        windowed = partial(self._windowed, problem, best, deadline)
        if staged(problem.graph).choices <= SMALL_UP_TO:
            proved = partial(self._proved, problem, best, bounding, deadline)
            return [partial(improved, 0.1), partial(windowed, 0.1, 8), proved, partial(improved, 1.0)]
        return [partial(improved, 0.3), partial(windowed, 0.3, 8), partial(windowed, 0.5, 24), partial(improved, 1.0)]

    def _improved(self, problem: Problem, best: Incumbent, deadline: float, share: float) -> None:
        """Search the neighbourhood of the best schedule."""
        if best.runs is None:
            return
        started = news = time.perf_counter()

        def tell(runs: list[int]) -> None:
            nonlocal news
            if time.perf_counter() - news >= SECONDS_BETWEEN_NEWS:
                best.take_runs(runs, LocalSearch.name, started)
                news = time.perf_counter()

        until = started + share * _left(deadline)
        runs = improve(problem, best.runs, deadline=until, poll=best.poll, report=tell)
        best.take_runs(runs, LocalSearch.name, started)

    def _windowed(self, problem: Problem, best: Incumbent, deadline: float, share: float, window: int) -> None:
        """Search within a window, from the best schedule so far."""
        milp = Milp(window=window, gap=self.gap / 2)
        best.take(milp.solve(problem, share * _left(deadline), start=best.runs, poll=best.poll), milp.name)

    def _proved(self, problem: Problem, best: Incumbent, bounding: Bounding, deadline: float) -> None:
        """Solve the exact model with the cuts that were found meanwhile."""
        tightening = bounding.settle(time.perf_counter() + SHARE_FOR_CUTS * _left(deadline))
        if best.good_enough:
            return
        milp = Milp(gap=self.gap / 2)
        left = _left(deadline)
        best.take(milp.solve(problem, left, start=best.runs, tightening=tightening, poll=best.poll), milp.name)


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.perf_counter())
