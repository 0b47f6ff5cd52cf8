"""Local improvement of a schedule: take a few recomputations away, then fit the plan again.

Each round drops further runs that lie close together and lets the greedy of
:mod:`rematopt.solver.eviction` find other data to give up, with random factors on its scores. The
outcome is kept if it is no slower than before by more than a margin that shrinks as time runs out (the
threshold variant of simulated annealing).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from rematopt.solver.eviction import Evictor, trim
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem

LARGEST_RUIN = 12
"""Most further runs that one round takes away before it fits the plan again."""

NOISE = 0.6
"""Spread of the random factor on the greedy's scores."""

FIRST_MARGIN = 0.02
"""Share of the further runs' seconds by which a round may be slower at the start."""


def improve(
    problem: Problem,
    runs: Sequence[int],
    *,
    deadline: float,
    enough_seconds: float = 0.0,
    seed: int = 0,
    report: Callable[[list[int]], None] | None = None,
) -> list[int]:
    """Look for a cheaper schedule in the neighbourhood of a given one.

    Parameters
    ----------
    problem : Problem
        What is asked.
    runs : sequence of int
        A schedule under the limit, with first runs in the graph's order.
    deadline : float
        ``time.perf_counter()`` at which to stop.
    enough_seconds : float
        Time of the whole step at which to stop early.
    seed : int
        Seed of the random choices.
    report : callable, optional
        Called with the runs of every new best schedule.

    Returns
    -------
    list of int
        The best schedule found; the given one if nothing better was found.
    """
    search = Search(problem, runs, seed)
    best = list(runs)
    started = time.perf_counter()
    while (now := time.perf_counter()) < deadline and search.plan.seconds > 0:
        if problem.graph.seconds + search.best_seconds <= enough_seconds:
            break
        if search.round(deadline, margin=FIRST_MARGIN * (deadline - now) / (deadline - started)):
            best = search.plan.runs
            if report is not None:
                report(best)
    return best


class Search:
    """A plan and the best seconds it had so far.

    Parameters
    ----------
    problem : Problem
        What is asked.
    runs : sequence of int
        A schedule under the limit.
    seed : int
        Seed of the random choices.
    """

    def __init__(self, problem: Problem, runs: Sequence[int], seed: int) -> None:
        self.plan = Plan.from_runs(problem.graph, runs)
        self.limit = problem.limit_bytes
        self.rng = random.Random(seed)
        trim(self.plan, self.limit)
        self.plan.commit()
        self.best_seconds = problem.graph.seconds * 1e-12 + sum(problem.graph.ops[i].seconds for i in runs)
        self.best_seconds -= problem.graph.seconds

    def round(self, deadline: float, margin: float) -> bool:
        """Ruin and fit once; True if the plan is better than ever before."""
        plan = self.plan
        before = plan.seconds
        for i, stage in self._victims():
            if stage in plan.ran[i]:
                plan.drop(i, stage)
        fits = Evictor(plan, self.limit, deadline, NOISE, self.rng).run()
        if fits and plan.seconds <= before * (1 + 10 * margin):
            trim(plan, self.limit)
        if not fits or plan.seconds > before * (1 + margin):
            plan.rollback()
            return False
        plan.commit()
        if plan.seconds < self.best_seconds * (1 - 1e-12):
            self.best_seconds = plan.seconds
            return True
        return False

    def _victims(self) -> list[tuple[int, int]]:
        """A few further runs that are neighbours in time or in the graph."""
        runs = [(i, t) for t, again in enumerate(self.plan.again) for i in again]
        if self.rng.random() < 0.5:
            runs.sort()
        count = self.rng.randint(1, min(LARGEST_RUIN, len(runs)))
        first = self.rng.randrange(len(runs) - count + 1)
        return runs[first : first + count]
