"""The forward pass as a chain of segments, which the classical checkpointing methods work on.

The graph is linearised: its forward ops in their order are cut into consecutive segments, and what a
segment hands on is everything that is read behind its end. In a graph without backward ops the
forward pass ends where most data are alive, which is the turning point of an imported training graph.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from rematopt.graph import Graph
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem
from rematopt.solver.stages import is_general, recomputable_ops


def forward_length(graph: Graph) -> int:
    """Number of ops in the forward pass, at least 1."""
    if not is_general(graph):
        return graph.forward_count
    alive = np.zeros(len(graph.ops) + 1, dtype=np.int64)
    for item, readers in zip(graph.data, graph.consumers, strict=True):
        alive[item.producer] += 1
        alive[readers[-1] + 1 if readers else item.producer + 1] -= 1
    return int(alive.cumsum()[:-1].argmax()) + 1


class Segments:
    """Consecutive segments of the forward pass.

    Parameters
    ----------
    graph : Graph
        The graph.
    starts : sequence of int
        First op of each segment, beginning with 0.
    length : int
        Number of forward ops.
    """

    def __init__(self, graph: Graph, starts: Sequence[int], length: int) -> None:
        self.graph = graph
        self.starts = (*starts, length)
        self.length = length
        self._again = recomputable_ops(graph)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def _own(self) -> tuple[list[int], ...]:
        """For each segment the data that the backward pass reads and that no later segment is handed.

        What is handed on is still there when the segment's turn comes: the next segment has just read it.
        """
        found: tuple[list[int], ...] = tuple([] for _ in range(len(self)))
        for s in range(len(self)):
            end = self.starts[s + 1]
            for i in range(self.starts[s], end):
                found[s].extend(d for d in self.graph.ops[i].outputs if self._is_own(self.graph.consumers[d], end))
        return found

    def _is_own(self, readers: Sequence[int], end: int) -> bool:
        return bool(readers) and readers[-1] >= self.length and not any(end <= i < self.length for i in readers)

    @cached_property
    def stages(self) -> list[int]:
        """For each segment the backward op before which its turn comes, from the last segment to the first.

        It is the first that reads data of the segment's own or, where there are none, what the segment was handed.
        """
        found = [0] * len(self)
        latest = self.length
        for s in reversed(range(len(self))):
            own = self._backward_readers(self._own[s])
            handed = [i for i in self._backward_readers(self._handed(s)) if i > latest]
            latest = max(latest, min(own or handed, default=latest))
            found[s] = latest
        return found

    def _handed(self, s: int) -> set[int]:
        """What segment ``s`` reads from earlier ones."""
        low, high = self.starts[s], self.starts[s + 1]
        reads = {d for i in range(low, high) for d in self.graph.ops[i].inputs}
        return {d for d in reads if self.graph.data[d].producer < low}

    def _backward_readers(self, data: Iterable[int]) -> list[int]:
        return [i for d in data for i in self.graph.consumers[d] if i >= self.length]

    def inside(self, s: int) -> list[int]:
        """Ops of segment ``s`` that must run again for the backward pass to come past it."""
        return self._ancestors(self._own[s], self.starts[s], self.starts[s + 1])

    def advance(self, first: int, end: int) -> list[int]:
        """Ops that must run again to have what the segments ``first`` to ``end - 1`` hand on."""
        low, high = self.starts[first], self.starts[end]
        handed = [
            d
            for i in range(low, high)
            for d in self.graph.ops[i].outputs
            if any(high <= reader < self.length for reader in self.graph.consumers[d])
        ]
        return self._ancestors(handed, low, high)

    def making(self, s: int, data: Iterable[int]) -> list[int]:
        """Ops of segment ``s`` that must run again to have ``data`` of it and what it hands on."""
        low, high = self.starts[s], self.starts[s + 1]
        return sorted({*self._ancestors(data, low, high), *self.advance(s, s + 1)})

    def _ancestors(self, data: Iterable[int], low: int, high: int) -> list[int]:
        """Producers of ``data`` and of what they are made of, as far as they lie in the given range of ops."""
        pending, wanted = list(data), set[int]()
        while pending:
            item = self.graph.data[pending.pop()]
            p = item.producer
            if not item.kept and low <= p < high and p in self._again and p not in wanted:
                wanted.add(p)
                pending.extend(self.graph.ops[p].inputs)
        return sorted(wanted)


def balanced_starts(weights: Sequence[float], count: int) -> list[int]:
    """Starts of at most ``count`` consecutive segments of about the same weight each."""
    total, starts, now = sum(weights), [0], 0.0
    for i, weight in enumerate(weights[:-1]):
        now += weight
        if now >= total * len(starts) / count and len(starts) < count:
            starts.append(i + 1)
    return starts


def cheapest(problem: Problem, plans: Iterable[Plan], deadline: float) -> Plan:
    """The cheapest of ``plans`` under the limit; the unplanned step if none that came until ``deadline`` is.

    Parameters
    ----------
    problem : Problem
        Graph and limit.
    plans : iterable of Plan
        Made one by one while there is time.
    deadline : float
        ``time.perf_counter()`` at which to stop.
    """
    best, found = Plan(problem.graph), False
    for plan in plans:
        if plan.peak_bytes <= problem.limit_bytes and (not found or plan.seconds < best.seconds):
            best, found = plan, True
        if time.perf_counter() > deadline:
            break
    return best
