"""``revolve``: binomial checkpointing after Griewank and Walther (2000), on a chain of segments.

A number of snapshots is given. To reverse a stretch of the chain, a snapshot is taken on the way, the
part behind it is reversed with one snapshot less, and then the part before it. The place of the
snapshot is the one that needs fewest runs on a chain of equal steps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from rematopt.graph import Graph
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.result import result_from_runs
from rematopt.solver.segments import Segments, balanced_starts, cheapest, forward_length

CHAIN_LENGTHS = (8, 16, 32, 64, 128)
"""Numbers of segments that are tried, besides one segment an op on graphs shorter than the last."""


class Revolve:
    """The cheapest binomial schedule under the limit, over several chain lengths and numbers of snapshots."""

    name = "revolve"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return that schedule."""
        started = time.perf_counter()
        best = cheapest(problem, _plans(problem.graph), started + time_limit)
        return result_from_runs(problem, best.runs, strategy=self.name, started=started)


def _plans(graph: Graph) -> Iterator[Plan]:
    length = forward_length(graph)
    seconds = [op.seconds for op in graph.ops[:length]]
    tried = set()
    for count in (*CHAIN_LENGTHS, length):
        starts = tuple(balanced_starts(seconds, min(count, length, CHAIN_LENGTHS[-1])))
        if starts in tried:
            continue
        tried.add(starts)
        snapshots = 1
        while snapshots < len(starts):
            yield reversed_plan(graph, starts, length, snapshots)
            snapshots = max(snapshots + 1, snapshots * 5 // 4)


def reversed_plan(graph: Graph, starts: tuple[int, ...], length: int, snapshots: int) -> Plan:
    """The plan that reverses the segments with a number of snapshots besides the chain's input."""
    segments = Segments(graph, starts, length)
    plan = Plan(graph)
    _reverse(segments, plan, 0, len(segments), snapshots, swept=True)
    plan.commit()
    return plan


def _reverse(segments: Segments, plan: Plan, first: int, end: int, snapshots: int, *, swept: bool) -> None:
    """Reverse the segments ``first`` to ``end - 1``; ``swept``: they have just run for the first time."""
    stage = segments.stages[end - 1]
    if stage >= len(plan.again):
        return
    if end - first == 1:
        if not swept:
            plan.apply(segments.inside(first), stage)
        return
    middle = first + (snapshot_place(end - first, snapshots) if snapshots else end - first - 1)
    if not swept:
        plan.apply(segments.advance(first, middle), stage)
    _reverse(segments, plan, middle, end, max(0, snapshots - 1), swept=swept)
    _reverse(segments, plan, first, middle, snapshots, swept=False)


def fewest_runs(steps: int, snapshots: int) -> int:
    """Fewest forward runs that reverse ``steps`` equal steps, the last one being at hand after the sweep.

    With ``snapshots`` besides the input, ``r`` the smallest number with ``C(snapshots + 1 + r, r) >= steps``:
    ``r * steps - C(snapshots + 1 + r, r - 1)`` (Griewank and Walther, 2000), which counts the first sweep
    up to the last step.
    """
    repeats = 0
    while math.comb(snapshots + 1 + repeats, repeats) < steps:
        repeats += 1
    return repeats * steps - math.comb(snapshots + 1 + repeats, repeats - 1) if repeats else 0


def snapshot_place(steps: int, snapshots: int) -> int:
    """How many steps to advance before the next snapshot, so that the runs to come are fewest."""
    return min(
        range(1, steps),
        key=lambda m: m + fewest_runs(steps - m, snapshots - 1) + fewest_runs(m, snapshots),
    )
