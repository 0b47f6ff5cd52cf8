"""The smallest limit for which a schedule is found, and how far below it a better one is ruled out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rematopt.graph import Graph
from rematopt.simulator import simulate
from rematopt.solver.baselines import runs_from_scratch
from rematopt.solver.bounds import peak_bound
from rematopt.solver.drive import run
from rematopt.solver.formulation import Goal, formulate
from rematopt.solver.greedy import smallest_fit
from rematopt.solver.presolve import NOTHING, reduce_for_speed
from rematopt.solver.sequence import first_runs, pruned, steps_from_runs
from rematopt.solver.stages import staged

WINDOWS: tuple[int | None, ...] = (8, 32, None)
"""Windows that are tried in turn; None is the exact model."""

CLOSE_ENOUGH = 1e-3
"""Distance to the bound, as a share of the peak, at which the search stops."""


@dataclass(frozen=True, kw_only=True)
class Smallest:
    """The schedule with the smallest peak that was found.

    Parameters
    ----------
    runs : tuple of int
        Its op runs.
    peak_bytes : int
        Its peak: with this limit a schedule exists.
    bound_bytes : int
        No schedule has a smaller peak.
    """

    runs: tuple[int, ...]
    peak_bytes: int
    bound_bytes: int

    @property
    def close(self) -> bool:
        """Whether the bound is so near that searching on is not worth it."""
        return self.peak_bytes - self.bound_bytes <= CLOSE_ENOUGH * self.peak_bytes


def smallest_peak(graph: Graph, time_limit: float) -> Smallest:
    """Search the schedule with the smallest peak.

    Parameters
    ----------
    graph : Graph
        The graph.
    time_limit : float
        Seconds of wall time.
    """
    started = time.perf_counter()
    deadline = started + time_limit
    known = [first_runs(graph), runs_from_scratch(graph), smallest_fit(graph, started + time_limit / 4)]
    best = min((_measured(graph, runs) for runs in known), key=lambda found: found.peak_bytes)
    bound = peak_bound(graph, best.peak_bytes, time.perf_counter() + time_limit / 4)
    for at, window in enumerate(WINDOWS):
        best = replace(best, bound_bytes=max(best.bound_bytes, min(bound, best.peak_bytes)))
        if best.close:
            break
        share = (deadline - time.perf_counter()) / (len(WINDOWS) - at)
        found = _minimised(graph, best, window, time.perf_counter() + share)
        bound = max(bound, found.bound_bytes)
        best = min(best, found, key=lambda found: found.peak_bytes)
    return replace(best, bound_bytes=min(bound, best.peak_bytes))


def _measured(graph: Graph, runs: Sequence[int]) -> Smallest:
    peak = simulate(graph, steps_from_runs(graph, runs)).peak_bytes
    return Smallest(runs=tuple(runs), peak_bytes=peak, bound_bytes=0)


def _minimised(graph: Graph, best: Smallest, window: int | None, deadline: float) -> Smallest:
    """What minimising the peak gives; the bound is worth something where the model is exact."""
    reduction = NOTHING if window is None else reduce_for_speed(graph, best.peak_bytes)
    form = formulate(staged(graph, reduction=reduction, window=window), best.peak_bytes, goal=Goal.PEAK)
    answer = run(form.model, deadline=deadline, absolute_gap=0.5, start=form.solution(best.runs))
    if answer.interrupted:
        raise KeyboardInterrupt
    if answer.values is None:
        return best
    found = _measured(graph, pruned(graph, form.sequence(answer.values)))
    if window is not None or not math.isfinite(answer.bound):
        return found
    # Rounding adds less than a unit to each size; by that much the model's bound may be too high.
    slack = 0 if form.units.exact else len(graph.data)
    units = math.ceil(answer.bound * (1 - 1e-6) - 0.5) - slack
    return replace(found, bound_bytes=graph.static.total + max(0, units) * form.units.bytes)
