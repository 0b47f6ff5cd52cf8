"""``reorder``: change the order of the first runs, which alone may save memory at no time.

Dependencies, ``after`` edges and forward before backward are kept. Simulated annealing moves one op at
a time to another place between its predecessors and successors; what it minimises is the sum over all
ops of the bytes above the limit, so that it has nothing left to do once the unplanned step fits.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rematopt.graph import Graph, Phase
from rematopt.solver.greedy import greedy_runs
from rematopt.solver.neighbourhood import improve
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.result import result_from_runs
from rematopt.solver.sequence import first_runs

SHARE_FOR_ORDER = 0.5
"""Share of the time limit that the order may take; the rest goes to what to recompute."""

PROBES = 200
"""Random moves whose mean change of the objective is the unit of temperature."""

CYCLES = ((0.0, 0.25, 3.0), (0.25, 1.0, 10.0))
"""Annealing cycles: begin and end as shares of the time, and the first temperature."""

COOLING = 3e-3
"""Last temperature of a cycle as a share of its first."""

MOVES_BETWEEN_LOOKS = 50
"""Moves between two looks at the clock."""


class Reorder:
    """Another order of first runs, then greedy and local search on it.

    The bound it reports is the unplanned time: bounds of the exact models hold for the given order only.
    """

    name = "reorder"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return the best schedule found on the new order."""
        started = time.perf_counter()
        order = reordered(problem, started + SHARE_FOR_ORDER * time_limit)
        graph = permuted(problem.graph, order)
        there = Problem(graph=graph, limit_bytes=problem.limit_bytes)
        deadline = started + time_limit
        runs = greedy_runs(there, deadline)
        runs = list(first_runs(graph)) if runs is None else improve(there, runs, deadline=deadline)
        return result_from_runs(problem, [order[i] for i in runs], strategy=self.name, started=started)


def permuted(graph: Graph, order: Sequence[int]) -> Graph:
    """The same graph with its ops in ``order``; data keep their indices."""
    place = {i: at for at, i in enumerate(order)}
    ops = (graph.ops[i] for i in order)
    return replace(
        graph,
        ops=tuple(replace(op, after=tuple(sorted(place[j] for j in op.after))) for op in ops),
        data=tuple(replace(item, producer=place[item.producer]) for item in graph.data),
    )


def reordered(problem: Problem, deadline: float, seed: int = 0) -> list[int]:
    """An order of first runs under which the unplanned step exceeds the limit less, or not at all.

    Parameters
    ----------
    problem : Problem
        Graph and limit.
    deadline : float
        ``time.perf_counter()`` at which to stop.
    seed : int
        Seed of the random choices.
    """
    order = _Order(problem)
    rng = random.Random(seed)
    # Changes of the objective over some random moves say what is hot.
    changes = [abs(order.try_move(rng, 0.0)) for _ in range(PROBES)]
    usual = sum(changes) / max(1, sum(change > 0 for change in changes))
    best, least = order.ops.copy(), order.excess
    started = time.perf_counter()
    for start, end, heat in CYCLES:
        begin, length = started + start * (deadline - started), (end - start) * (deadline - started)
        while least > 0 and (spent := time.perf_counter() - begin) < length:
            for _ in range(MOVES_BETWEEN_LOOKS):
                order.try_move(rng, usual * heat * COOLING ** (spent / length))
                if order.excess < least:
                    best, least = order.ops.copy(), order.excess
    return [int(i) for i in best]


class _Order:
    """An order of first runs with the resident bytes at every place of it."""

    def __init__(self, problem: Problem) -> None:
        graph = problem.graph
        self.graph = graph
        self.limit = problem.limit_bytes - graph.static.total
        count = len(graph.ops)
        self.ops: NDArray[np.int64] = np.arange(count)
        self.place = list(range(count))
        self.before, self.behind = _neighbours(graph)
        self.workspace = np.array([op.workspace_bytes for op in graph.ops], dtype=np.int64)
        self.made = np.array([sum(graph.data[d].bytes for d in op.outputs) for op in graph.ops], dtype=np.int64)
        self.freed = np.zeros(count, dtype=np.int64)
        for d, item in enumerate(graph.data):
            if not item.kept:
                self.freed[self._last(d)] += item.bytes
        self.level = np.zeros(count, dtype=np.int64)
        self._weigh(0, count, 0)
        self.excess = self._excess(0, count)

    def try_move(self, rng: random.Random, temperature: float) -> int:
        """Move a random op to a random place; undo it if it is too bad. Returns the change it would make."""
        i = rng.randrange(len(self.place))
        low = max((self.place[j] + 1 for j in self.before[i]), default=0)
        high = min((self.place[j] - 1 for j in self.behind[i]), default=len(self.place) - 1)
        low, high = self._within_phase(i, low, high)
        target = rng.randint(low, high)
        source = self.place[i]
        if target == source:
            return 0
        first, end = min(source, target), max(source, target) + 1
        old_level, old_excess = self.level[first:end].copy(), self._excess(first, end)
        self._move(source, target)
        change = self._excess(first, end) - old_excess
        if change > 0 and (temperature <= 0 or rng.random() >= math.exp(-change / temperature)):
            self._move(target, source, old_level)
        else:
            self.excess += change
        return change

    def _within_phase(self, i: int, low: int, high: int) -> tuple[int, int]:
        turn = self.graph.forward_count
        if self.graph.ops[i].phase is Phase.FORWARD:
            return low, min(high, turn - 1)
        return max(low, turn), high

    def _move(self, source: int, target: int, level: NDArray[np.int64] | None = None) -> None:
        """Move the op at ``source`` to ``target``; ``level`` is what is resident then, if known."""
        first, end = min(source, target), max(source, target) + 1
        before = int(self.level[first] - self.made[self.ops[first]] - self.workspace[self.ops[first]])
        i = int(self.ops[source])
        graph = self.graph
        reads = [d for d in graph.ops[i].inputs if not graph.data[d].kept]
        for d in reads:
            self.freed[self._last(d)] -= graph.data[d].bytes
        between = self.ops[first:end]
        self.ops[first:end] = np.roll(between, -1 if source < target else 1)
        for at in range(first, end):
            self.place[self.ops[at]] = at
        for d in reads:
            self.freed[self._last(d)] += graph.data[d].bytes
        if level is None:
            self._weigh(first, end, before)
        else:
            self.level[first:end] = level

    def _weigh(self, first: int, end: int, before: int) -> None:
        """Work out what is resident at places, with ``before`` bytes of data alive ahead of them."""
        ops = self.ops[first:end]
        made, freed = self.made[ops], self.freed[ops]
        self.level[first:end] = before + np.cumsum(made - freed) + freed + self.workspace[ops]

    def _excess(self, first: int, end: int) -> int:
        return int(np.maximum(self.level[first:end] - self.limit, 0).sum())

    def _last(self, d: int) -> int:
        """The op behind whose run ``d`` is freed."""
        readers = self.graph.consumers[d]
        return max(readers, key=self.place.__getitem__) if readers else self.graph.data[d].producer


def _neighbours(graph: Graph) -> tuple[list[set[int]], list[set[int]]]:
    """For each op those that must come before it and those that must come behind it."""
    before: list[set[int]] = [{graph.data[d].producer for d in op.inputs} | set(op.after) for op in graph.ops]
    behind: list[set[int]] = [set() for _ in graph.ops]
    for i, earlier in enumerate(before):
        for j in earlier:
            behind[j].add(i)
    return before, behind
