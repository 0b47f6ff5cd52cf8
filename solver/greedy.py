"""``greedy``: give up what relieves memory at the least seconds a byte, until the limit holds."""

from __future__ import annotations

import random
import time

from rematopt.graph import Graph
from rematopt.solver.bounds import peak_floor
from rematopt.solver.eviction import fit
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.result import result_from_runs
from rematopt.solver.sequence import first_runs

TRIES = 4
"""Attempts with random factors on the scores where the plain rule does not reach the limit."""

NOISE = 0.6
"""Spread of those factors."""

CLOSE_ENOUGH = 1e-3
"""Width, as a share of the unplanned peak, at which the search for the smallest limit stops."""


class Greedy:
    """The covering rule of :mod:`rematopt.solver.eviction`, applied to the unplanned step."""

    name = "greedy"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return the schedule that the rule ends at."""
        started = time.perf_counter()
        runs = greedy_runs(problem, started + time_limit) or list(first_runs(problem.graph))
        return result_from_runs(problem, runs, strategy=self.name, started=started)


def greedy_runs(problem: Problem, deadline: float) -> list[int] | None:
    """Op runs under the limit, or None if the rule finds none until ``deadline``."""
    if peak_floor(problem.graph).bytes > problem.limit_bytes:
        return None
    for attempt in range(TRIES + 1):
        plan = Plan(problem.graph)
        noise = NOISE if attempt else 0.0
        if fit(plan, problem.limit_bytes, deadline, noise, random.Random(attempt)):
            return plan.runs
        if time.perf_counter() >= deadline:
            break
    return None


def smallest_fit(graph: Graph, deadline: float) -> list[int]:
    """Op runs with the smallest peak that bisecting the limit with the greedy rule finds.

    Parameters
    ----------
    graph : Graph
        The graph.
    deadline : float
        ``time.perf_counter()`` at which to stop.
    """
    best = Plan(graph)
    low = peak_floor(graph).bytes
    width = CLOSE_ENOUGH * best.peak_bytes
    limit = low
    while best.peak_bytes - low > width and time.perf_counter() < deadline:
        plan = Plan(graph)
        if fit(plan, limit, deadline):
            best = plan
        else:
            low = limit
        limit = (low + best.peak_bytes) // 2
    return best.runs
