"""``chen-sqrt`` and ``chen-greedy``: sublinear memory after Chen et al. (2016).

Only what a segment hands on is kept from the forward pass; when the backward pass comes to a segment,
the segment runs again as a whole. The last segment is never run again: its data are just there.
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

SIZES = 40
"""How many segment sizes ``chen-greedy`` tries, evenly spaced in their logarithm."""


class ChenSqrt:
    """As many segments as the square root of the number of forward ops, with equally many ops each."""

    name = "chen-sqrt"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return that schedule if it fits the limit."""
        started = time.perf_counter()
        length = forward_length(problem.graph)
        starts = balanced_starts([1.0] * length, max(1, math.isqrt(length)))
        plan = checkpointed(problem.graph, starts, length)
        return result_from_runs(problem, plan.runs, strategy=self.name, started=started)


class ChenGreedy:
    """Segments that end once their outputs exceed some bytes; the best of many sizes is taken."""

    name = "chen-greedy"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return the cheapest schedule under the limit among the sizes tried."""
        started = time.perf_counter()
        best = cheapest(problem, _plans(problem.graph), started + time_limit)
        return result_from_runs(problem, best.runs, strategy=self.name, started=started)


def _plans(graph: Graph) -> Iterator[Plan]:
    length = forward_length(graph)
    sizes = [sum(graph.data[d].bytes for d in op.outputs) for op in graph.ops[:length]]
    smallest, largest = max(max(sizes), 1), max(sum(sizes), 1)
    tried = set()
    for k in range(SIZES):
        starts = tuple(_greedy_starts(sizes, smallest * (largest / smallest) ** (k / SIZES)))
        if starts not in tried:
            tried.add(starts)
            yield checkpointed(graph, starts, length)


def _greedy_starts(sizes: list[int], most: float) -> list[int]:
    starts, now = [0], 0
    for i, size in enumerate(sizes):
        if now and now + size > most:
            starts.append(i)
            now = 0
        now += size
    return starts


def checkpointed(graph: Graph, starts: list[int] | tuple[int, ...], length: int) -> Plan:
    """Every segment but the last runs again when the backward pass comes to it."""
    segments = Segments(graph, starts, length)
    plan = Plan(graph)
    for s in range(len(segments) - 1):
        if segments.stages[s] < len(graph.ops):
            plan.apply(segments.inside(s), segments.stages[s])
    plan.commit()
    return plan
