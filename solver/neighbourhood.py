"""``local-search``: take a few recomputations of a schedule away, then fit the plan again.

Each round drops further runs that lie close together and lets the greedy of
:mod:`rematopt.solver.eviction` find other data to give up, with random factors on its scores. The
outcome is kept if it is no slower than before by more than a margin that shrinks as time runs out (the
threshold variant of simulated annealing).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence

from rematopt.solver.drive import Poll
from rematopt.solver.eviction import Evictor, trim
from rematopt.solver.greedy import greedy_runs
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.result import result_from_runs
from rematopt.solver.sequence import first_runs

LARGEST_RUIN = 12
"""Most further runs that one round takes away before it fits the plan again."""

LOG_NOISE = (math.log(0.2), math.log(20.0))
"""Range of the spread of the random factor on the greedy's scores; its logarithm is drawn evenly."""

FIRST_MARGIN = 0.02
"""Share of the further runs' seconds by which a round may be slower at the start."""

SAME = 1e-12
"""Relative difference below which two sums of seconds count as equal."""


class LocalSearch:
    """Greedy, then :func:`improve` until the time is over or nothing is recomputed."""

    name = "local-search"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return the best schedule found."""
        started = time.perf_counter()
        deadline = started + time_limit
        runs = greedy_runs(problem, deadline)
        runs = list(first_runs(problem.graph)) if runs is None else improve(problem, runs, deadline=deadline)
        return result_from_runs(problem, runs, strategy=self.name, started=started)


def improve(
    problem: Problem,
    runs: Sequence[int],
    *,
    deadline: float,
    poll: Poll | None = None,
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
    poll : callable, optional
        Asked before every round, see :data:`rematopt.solver.drive.Poll`.
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
    best = search.plan.runs if search.improved else list(runs)
    started = time.perf_counter()
    # What rounding leaves of a sum of seconds is no further run.
    nothing = SAME * problem.graph.seconds
    while (now := time.perf_counter()) < deadline and search.plan.seconds > nothing:
        if poll is not None and poll():
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
        self.best_seconds = sum(problem.graph.ops[i].seconds for i in runs) - problem.graph.seconds
        trim(self.plan, self.limit)
        self.plan.commit()
        self.improved = self._is_best()

    def round(self, deadline: float, margin: float) -> bool:
        """Ruin and fit once; True if the plan is better than ever before.

        A plan slower than the best by more than the share ``margin`` of its further runs is undone.
        """
        plan = self.plan
        before = plan.seconds
        for i, stage in self._victims():
            if stage in plan.ran[i]:
                plan.drop(i, stage)
        noise = math.exp(self.rng.uniform(*LOG_NOISE))
        # Trimming may win back as much as was taken away, hardly more.
        most = self.best_seconds * (1 + margin) + (before - plan.seconds)
        fits = Evictor(plan, self.limit, deadline, noise, self.rng, most).run()
        if fits:
            trim(plan, self.limit)
        if not fits or plan.seconds > self.best_seconds * (1 + margin):
            plan.rollback()
            return False
        plan.commit()
        return self._is_best()

    def _is_best(self) -> bool:
        if self.plan.peak_bytes > self.limit or self.plan.seconds >= self.best_seconds * (1 - SAME):
            return False
        self.best_seconds = self.plan.seconds
        return True

    def _victims(self) -> list[tuple[int, int]]:
        """A few further runs that are neighbours in time or in the graph."""
        runs = [(i, t) for t, again in enumerate(self.plan.again) for i in again]
        if self.rng.random() < 0.5:
            runs.sort()
        count = self.rng.randint(1, min(LARGEST_RUIN, len(runs)))
        first = self.rng.randrange(len(runs) - count + 1)
        return runs[first : first + count]
