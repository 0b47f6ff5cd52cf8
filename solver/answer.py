"""From a solver's answer to a result, with no more claimed than was proved."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from rematopt.schedule import Status
from rematopt.solver.drive import Answer
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.result import result_from_runs
from rematopt.solver.sequence import pruned

PROOF_TOLERANCE = 1e-7
"""Bound and cost of a finished search that agree to this share of the step's time count as equal."""


def result_from_answer(
    problem: Problem,
    answer: Answer,
    runs: Sequence[int] | None,
    *,
    strategy: str,
    started: float,
    cost_scale: float,
    exact: bool,
    bound: float = 0.0,
) -> SolveResult:
    """Turn what a solver left behind into a result.

    Parameters
    ----------
    problem : Problem
        What was asked.
    answer : Answer
        The solver's answer; its costs are the seconds of further runs divided by ``cost_scale``.
    runs : sequence of int or None
        The op runs that its values describe; None without values.
    strategy : str
        Name of the strategy.
    started : float
        ``time.perf_counter()`` at the start of the solve.
    cost_scale : float
        Seconds of one unit of cost.
    exact : bool
        Whether the model covers all staged schedules; without that the answer proves nothing.
    bound : float
        Seconds below which no schedule lies, if known from elsewhere.

    Raises
    ------
    KeyboardInterrupt
        If the user stopped the solver before any schedule was found.
    """
    graph = problem.graph
    bound = max(bound, graph.seconds)
    if exact and math.isfinite(answer.bound):
        bound = max(bound, graph.seconds + max(0.0, answer.bound) * cost_scale)
    if runs is None:
        if answer.interrupted:
            raise KeyboardInterrupt
        status = Status.INFEASIBLE if exact and answer.proved else Status.TIME_LIMIT
        seconds = time.perf_counter() - started
        return SolveResult(schedule=None, status=status, objective=math.inf, bound=bound, seconds=seconds)
    runs = pruned(graph, runs)
    cost = sum(graph.ops[i].seconds for i in runs)
    if exact and answer.proved and cost - bound <= PROOF_TOLERANCE * cost:
        bound = cost
    return result_from_runs(problem, runs, strategy=strategy, started=started, bound=bound)
