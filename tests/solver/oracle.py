"""Brute force over what is alive: shortest paths in a space of states that knows no formulation.

The staged oracle walks the segments: a state is a place in the step and the set of data alive there.
The free oracle lets any op that ran already run again at any time; it may be cheaper than the staged
one, never dearer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import combinations

from rematopt.graph import Graph, Phase
from rematopt.solver.stages import Slot, recomputable_ops, staged


def _droppable(graph: Graph, alive: frozenset[int]) -> list[int]:
    return [d for d in alive if not graph.data[d].kept]


def _subsets(items: list[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def _run(graph: Graph, i: int, alive: frozenset[int], limit: int) -> frozenset[int] | None:
    """What is alive after op ``i``, or None if it cannot run."""
    op = graph.ops[i]
    if not alive.issuperset(op.inputs):
        return None
    resident = graph.static.total + sum(graph.data[d].bytes for d in alive)
    if resident + sum(graph.data[d].bytes for d in op.outputs) + op.workspace_bytes > limit:
        return None
    return alive | set(op.outputs)


def _last_reads(graph: Graph, slots: tuple[Slot, ...]) -> list[int]:
    last = [-1] * len(graph.data)
    for at, slot in enumerate(slots):
        for d in graph.ops[slot.op].inputs:
            last[d] = at
    return last


def staged_optimum(graph: Graph, limit: int, *, everywhere: bool = False) -> float:
    """Least seconds of all staged schedules."""
    slots = staged(graph, everywhere=everywhere).slots
    last = _last_reads(graph, slots)
    front: dict[frozenset[int], float] = {frozenset(): 0.0}
    for at, slot in enumerate(slots):
        reached = [(alive, cost) for alive, cost in front.items() if slot.again]
        for alive, cost in front.items():
            after = _run(graph, slot.op, alive, limit)
            if after is not None:
                reached.append((after, cost + graph.ops[slot.op].seconds))
        front = {}
        for alive, cost in reached:
            useful = frozenset(d for d in alive if last[d] > at or graph.data[d].kept)
            for dropped in _subsets(_droppable(graph, useful)):
                state = useful.difference(dropped)
                front[state] = min(cost, front.get(state, float("inf")))
    return min(front.values(), default=float("inf"))


def free_optimum(graph: Graph, limit: int) -> float:
    """Least seconds of all schedules that keep the order of first runs, runs again wherever they help."""
    again = recomputable_ops(graph)
    start = (0, frozenset[int]())
    best = {start: 0.0}
    heap = [(0.0, 0, *start)]
    count = 0
    while heap:
        cost, _, done, alive = heapq.heappop(heap)
        if cost > best[done, alive]:
            continue
        if done == len(graph.ops):
            return cost
        in_forward = done < graph.forward_count and graph.ops[-1].phase is Phase.BACKWARD
        candidates = [done] + ([] if in_forward else [i for i in again if i < done])
        for i in candidates:
            after = _run(graph, i, alive, limit)
            if after is None:
                continue
            for dropped in _subsets(_droppable(graph, after)):
                state = (done + (i == done), after.difference(dropped))
                total = cost + graph.ops[i].seconds
                if total < best.get(state, float("inf")):
                    best[state] = total
                    count += 1
                    heapq.heappush(heap, (total, count, *state))
    return float("inf")
