"""The one way from what a strategy found to a :class:`SolveResult`: through the simulator."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rematopt.graph import Graph
from rematopt.schedule import Schedule, Status
from rematopt.simulator import Simulation, simulate
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.sequence import first_runs, steps_from_runs

RELATIVE_TOLERANCE = 1e-9
"""Objective and bound that agree to this share count as equal (they are sums of floats)."""


def unplanned(graph: Graph) -> Simulation:
    """Simulate the step without rematerialization."""
    return simulate(graph, steps_from_runs(graph, first_runs(graph)))


def result_from_runs(
    problem: Problem,
    runs: Sequence[int],
    *,
    strategy: str,
    started: float,
    bound: float | None = None,
    complete: bool = False,
) -> SolveResult:
    """Simulate a sequence of runs and wrap it as the result of a strategy.

    Parameters
    ----------
    problem : Problem
        What was asked.
    runs : sequence of int
        The op runs found.
    strategy : str
        Name of the strategy.
    started : float
        ``time.perf_counter()`` at the start of the solve.
    bound : float, optional
        Seconds below which no schedule of the problem lies; the time of the unplanned step (every op
        once) where nothing better is known.
    complete : bool
        Whether the strategy searched all schedules, so that a sequence over the limit proves that
        the limit is infeasible.

    Raises
    ------
    InvalidScheduleError
        If the runs are no valid schedule: a defect of the strategy, never hidden.
    """
    graph = problem.graph
    steps = steps_from_runs(graph, runs)
    simulation = simulate(graph, steps)
    plain = unplanned(graph)
    seconds = time.perf_counter() - started
    bound = max(graph.seconds, bound or 0.0)
    if simulation.peak_bytes > problem.limit_bytes:
        status = Status.INFEASIBLE if complete else Status.TIME_LIMIT
        return SolveResult(schedule=None, status=status, objective=float("inf"), bound=bound, seconds=seconds)
    optimal = simulation.seconds <= bound * (1 + RELATIVE_TOLERANCE)
    status = Status.OPTIMAL if optimal else Status.FEASIBLE
    schedule = Schedule(
        steps=steps,
        forward_end=simulation.forward_end,
        peak_bytes=simulation.peak_bytes,
        seconds=simulation.seconds,
        limit_bytes=problem.limit_bytes,
        strategy=strategy,
        status=status,
        bound_seconds=min(bound, simulation.seconds),
        solve_seconds=seconds,
        unplanned_peak_bytes=plain.peak_bytes,
        unplanned_seconds=plain.seconds,
        fingerprint=graph.fingerprint,
        structure=graph.structure,
        data_bytes=tuple(d.bytes for d in graph.data),
        signature=graph.signature,
        ops=tuple(graph.describe(i) for i in range(len(graph.ops))),
        timing=graph.timing,
    )
    return SolveResult(
        schedule=schedule, status=status, objective=simulation.seconds, bound=schedule.bound_seconds, seconds=seconds
    )
