"""The solver's entry point: from a graph or profile and a memory limit to a schedule."""

from __future__ import annotations

import time
from dataclasses import replace

from rematopt.errors import InfeasibleLimitError, InvalidInputError
from rematopt.graph import Graph
from rematopt.profile import Profile
from rematopt.schedule import Schedule
from rematopt.solver.auto import Auto
from rematopt.solver.bounds import peak_floor
from rematopt.solver.milp import Milp
from rematopt.solver.problem import Problem
from rematopt.solver.progress import Report
from rematopt.solver.registry import Options, create
from rematopt.solver.result import result_from_runs, unplanned
from rematopt.solver.smallest import Smallest, smallest_peak
from rematopt.units import AboveSmallest, format_bytes, read_limits

MOST_SECONDS_FOR_SMALLEST = 30.0
"""Wall time for working out the smallest feasible limit of an infeasible problem, beyond the time limit."""


def solve(
    graph: Graph | Profile,
    memory_limit: int | float | str | None = None,
    *,
    activation_limit: int | float | str | None = None,
    strategy: str = "auto",
    time_limit: float = 60.0,
    gap: float = 0.01,
    progress: Report | None = None,
) -> Schedule:
    """Find the cheapest schedule of a training step under a memory limit.

    Parameters
    ----------
    graph : Graph or Profile
        What to schedule.
    memory_limit : int, float or str
        Limit on the peak of the whole step: bytes, a size (``"8GiB"``), a share of the unplanned peak
        (``"60%"``), ``"min"`` for the smallest peak for which a schedule is found, or ``"min+50%"`` for
        a share of the way from there to the unplanned peak.
    activation_limit : int, float or str
        In place of ``memory_limit``: a limit on what comes on top of the static memory (parameters,
        buffers, gradients that are present, optimizer state, inputs), written alike.
    strategy : str
        Name of a strategy, see :data:`rematopt.solver.registry.STRATEGIES`.
    time_limit : float
        Seconds of wall time; the best schedule so far is returned when they are over, and on Ctrl-C.
    gap : float
        Distance to the bound, as a share of the step's time, that is good enough; 0 asks for a proof.
    progress : callable, optional
        Is called with a :class:`rematopt.solver.progress.Progress` now and then.

    Raises
    ------
    InvalidInputError
        If an argument cannot be used.
    InfeasibleLimitError
        If no schedule under the limit is found; the message gives the smallest limit for which one is
        known and the op that needs most memory.
    """
    graph = graph.graph if isinstance(graph, Profile) else graph
    _check(graph, time_limit, gap)
    chosen = create(strategy, Options(gap=gap, progress=progress))
    started = time.perf_counter()
    plain = unplanned(graph).peak_bytes
    limit = read_limits(memory_limit, activation_limit, unplanned_peak_bytes=plain, static_bytes=graph.static.total)
    smallest: Smallest | None = None
    if isinstance(limit, AboveSmallest):
        smallest = smallest_peak(graph, time_limit / 2)
        limit = limit.in_bytes(smallest_limit_bytes=smallest.peak_bytes, unplanned_peak_bytes=plain)
    problem = Problem(graph=graph, limit_bytes=limit)
    left = max(0.1, time_limit - (time.perf_counter() - started))
    if smallest is not None and isinstance(chosen, Auto | Milp):
        result = chosen.solve(problem, left, start=smallest.runs)
    else:
        result = chosen.solve(problem, left)
    schedule = result.schedule
    if smallest is None and schedule is None:
        smallest = smallest_peak(graph, min(time_limit, MOST_SECONDS_FOR_SMALLEST))
    if smallest is None:
        assert schedule is not None
        return schedule
    if schedule is None:
        if smallest.peak_bytes > limit or strategy not in ("auto", "milp"):
            raise _infeasible(graph, limit, smallest, strategy)
        # The search for the smallest peak found what the strategy missed.
        schedule = result_from_runs(
            problem, smallest.runs, strategy="smallest", started=started, bound=result.bound
        ).schedule
        assert schedule is not None
    return replace(schedule, smallest_limit_bytes=smallest.peak_bytes)


def _check(graph: Graph, time_limit: float, gap: float) -> None:
    if not graph.ops:
        raise InvalidInputError("the graph has no ops; profile a model that computes something")
    if not time_limit > 0:
        raise InvalidInputError(f"time limit {time_limit!r} is not usable; give seconds above 0")
    if not 0 <= gap < 1:
        raise InvalidInputError(f"gap {gap!r} is not usable; give a share of the step's time from 0 to below 1")


def _infeasible(graph: Graph, limit: int, smallest: Smallest, strategy: str) -> InfeasibleLimitError:
    floor = peak_floor(graph)
    if limit >= smallest.peak_bytes:
        message = (
            f"strategy {strategy} finds no schedule within {format_bytes(limit)} ({limit} bytes), though one exists; "
            "use strategy 'auto'"
        )
    else:
        proof = (
            "no schedule needs less"
            if smallest.bound_bytes >= smallest.peak_bytes
            else f"none below {format_bytes(smallest.bound_bytes)} exists"
        )
        message = (
            f"no schedule fits {format_bytes(limit)} ({limit} bytes); the smallest feasible limit found is "
            f"{format_bytes(smallest.peak_bytes)} ({smallest.peak_bytes} bytes; {proof})"
        )
    return InfeasibleLimitError(f"{message}; {floor.explain(graph)}", smallest.peak_bytes)
