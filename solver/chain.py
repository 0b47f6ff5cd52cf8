"""``chain``: a dynamic program over the blocks of the forward pass.

The blocks of :mod:`rematopt.solver.cutpoints` offer options (:mod:`rematopt.solver.blocks`). For blocks
``a`` to ``b`` and ``m`` bytes beside the input of block ``a``, either block ``a`` is gone through once with
one of its options, or blocks ``a`` to ``j - 1`` run without saving anything, ``j`` to ``b`` are reversed
first, and ``a`` to ``j - 1`` are reversed afterwards from the input of ``a``, as in rotor (Beaumont et al.,
2019). The model weighs each block apart; its outcome is measured on the whole graph, solved again for
a lower limit where it is too high, and at last given to the greedy of :mod:`rematopt.solver.eviction`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rematopt.graph import Graph
from rematopt.solver.blocks import Block, Option
from rematopt.solver.cutpoints import block_starts, passing_bytes
from rematopt.solver.eviction import fit, trim
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.result import result_from_runs
from rematopt.solver.segments import Segments, forward_length

SLOTS = 400
"""Steps into which the limit is divided."""

INNER_LIMITS = (1.0, 0.96, 0.92, 0.87, 0.8)
"""Limits for the dynamic program as shares of the true one, tried in turn."""

Values = NDArray[np.float64]


class Chain:
    """Blocks, options and the dynamic program over them."""

    name = "chain"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return the cheapest schedule among the inner limits."""
        started = time.perf_counter()
        deadline = started + time_limit
        blocks = ChainOfBlocks(problem.graph, deadline)
        best: Plan | None = None
        for k, share in enumerate(INNER_LIMITS):
            plan = blocks.plan(round(share * problem.limit_bytes))
            now = time.perf_counter()
            patience = now + (deadline - now) / (len(INNER_LIMITS) - k)
            fits = plan is not None and fit(plan, problem.limit_bytes, patience)
            if plan is not None and fits and (best is None or plan.seconds < best.seconds):
                best = plan
            if time.perf_counter() > deadline:
                break
        if best is not None:
            trim(best, problem.limit_bytes)
        plan = best or Plan(problem.graph)
        return result_from_runs(problem, plan.runs, strategy=self.name, started=started)


@dataclass(frozen=True)
class _Choice:
    """What to do with the first of several blocks: one of its options, or reverse from ``behind`` on first."""

    seconds: float
    option: Option | None
    behind: int


class ChainOfBlocks:
    """The blocks of a graph with their options.

    Parameters
    ----------
    graph : Graph
        The graph.
    deadline : float
        ``time.perf_counter()`` at which to stop looking for further options.
    """

    def __init__(self, graph: Graph, deadline: float) -> None:
        self.graph = graph
        length = forward_length(graph)
        self.segments = Segments(graph, block_starts(graph, length), length)
        starts, stages = self.segments.starts, self.segments.stages
        count = len(self.segments)
        ends = [len(graph.ops), *stages[:-1]]
        begins = [*stages[:-1], length]
        self.blocks = [
            Block(graph, range(starts[s], starts[s + 1]), range(begins[s], ends[s]), length) for s in range(count)
        ]
        passing = passing_bytes(graph, length)
        self.handed = [int(passing[start]) for start in starts[:-1]]
        self.seconds = [sum(graph.ops[i].seconds for i in block.forward) for block in self.blocks]
        kept = [sum(graph.data[d].bytes for i in b.backward for d in graph.ops[i].outputs if graph.data[d].kept)
                for b in self.blocks]  # fmt: skip
        self.gradients = [sum(kept[s + 1 :]) for s in range(count)]
        known: dict[tuple[object, ...], list[Option]] = {}
        for block in self.blocks:
            if block.signature not in known:
                known[block.signature] = block.options(deadline)
        self.options = [known[block.signature] for block in self.blocks]

    def plan(self, limit_bytes: int) -> Plan | None:
        """The plan that the dynamic program finds for a limit; None if it finds none."""
        if limit_bytes <= self.graph.static.total:
            return None
        program = _Program(self, limit_bytes)
        last = len(self.blocks) - 1
        if not np.isfinite(program.value(0, last, SLOTS)):
            return None
        plan = Plan(self.graph)
        self._emit(program, plan, 0, last, SLOTS, swept=True)
        plan.commit()
        return plan

    def _emit(self, program: _Program, plan: Plan, a: int, b: int, slots: int, *, swept: bool) -> None:
        """Write the choices for blocks ``a`` to ``b``; ``swept``: they have just run for the first time."""
        if a > b:
            return
        choice = program.choose(a, b, slots)
        stage = min(self.segments.stages[b], len(self.graph.ops) - 1)
        if choice.option is None:
            j = choice.behind
            if not swept:
                plan.apply(self.segments.advance(a, j), stage)
            self._emit(program, plan, j, b, slots - program.size(self.handed[j]), swept=swept)
            self._emit(program, plan, a, j - 1, slots, swept=False)
            return
        block = self.blocks[a]
        if not swept:
            saved = [block.data[d] for d in choice.option.saved]
            plan.apply(self.segments.making(a, saved), stage)
        self._emit(program, plan, a + 1, b, slots - program.size(choice.option.saved_bytes), swept=swept)
        for i, before in choice.option.again:
            op, at = block.ops[i], block.ops[before]
            if op is not None:
                plan.apply([op], at if at is not None else stage)


class _Program:
    """Least forward seconds for blocks ``a`` to ``b`` by the slots of memory they may use."""

    def __init__(self, chain: ChainOfBlocks, limit_bytes: int) -> None:
        self.chain = chain
        self.unit = (limit_bytes - chain.graph.static.total) / SLOTS
        count = len(chain.blocks)
        self.values: dict[tuple[int, int], Values] = {}
        for b in range(count):
            for a in range(b, -1, -1):
                best = np.full(SLOTS + 1, np.inf)
                for _, values in self._candidates(a, b):
                    np.minimum(best, values, out=best)
                self.values[a, b] = best

    def size(self, size: int) -> int:
        """Slots that ``size`` bytes take."""
        return int(-(-size // self.unit))

    def value(self, a: int, b: int, slots: int) -> float:
        """Least seconds with that many slots."""
        return float(self.values[a, b][slots])

    def choose(self, a: int, b: int, slots: int) -> _Choice:
        """What attains the least seconds."""
        found = [(float(values[slots]), at) for at, values in self._candidates(a, b)]
        seconds, (option, behind) = min(found, key=lambda item: item[0])
        return _Choice(seconds, option, behind)

    def _candidates(self, a: int, b: int) -> list[tuple[tuple[Option | None, int], Values]]:
        """Every choice for block ``a`` with its seconds by slots."""
        chain = self.chain
        found: list[tuple[tuple[Option | None, int], Values]] = []
        for option in chain.options[a]:
            rest = self.values[a + 1, b] if a < b else np.zeros(SLOTS + 1)
            values = self._shifted(rest, self.size(option.saved_bytes)) + chain.seconds[a] + option.seconds
            values[: self.size(option.peak_bytes + chain.gradients[a])] = np.inf
            found.append(((option, a), values))
        sweep = 0.0
        for j in range(a + 1, b + 1):
            sweep += chain.seconds[j - 1]
            behind = self._shifted(self.values[j, b], self.size(chain.handed[j]))
            found.append(((None, j), sweep + behind + self.values[a, j - 1]))
        return found

    def _shifted(self, values: Values, slots: int) -> Values:
        """Seconds by slots when some of the slots are taken."""
        moved = np.full(SLOTS + 1, np.inf)
        if slots <= SLOTS:
            moved[slots:] = values[: SLOTS + 1 - slots]
        return moved
