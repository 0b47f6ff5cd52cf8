"""One block of the chain as a problem of its own, and the options that it offers.

The block's graph holds its forward ops, its part of the backward pass, and between them a *turn*, an
op that stands for the rest of the network. The turn reads what the block hands on, and its workspace is
what makes a limit on the bytes saved over the turn different from the limit on the block's peak.
What comes from other blocks is produced by ops that run once; what earlier blocks store weighs nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from rematopt.graph import Data, Graph, Kind, Op, Phase, Recompute
from rematopt.solver.bounds import peak_floor
from rematopt.solver.eviction import fit
from rematopt.solver.plan import Plan

SAVED_GRID = tuple(1 - k / 10 for k in range(11))
"""Limits on the saved bytes, as shares of what the block saves without recomputation."""

PEAK_GRID = (0.0, 0.3, 1.0)
"""Limits on the peak, as shares of the way from the block's floor to its unplanned peak."""

SECONDS_AN_OPTION = 0.15
"""Wall time after which the search for one option is given up."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A way to go through a block.

    Parameters
    ----------
    saved_bytes : int
        What it keeps over the turn, the data handed on included.
    peak_bytes : int
        Its peak before and behind the turn.
    seconds : float
        Time of its further runs.
    saved : tuple of int
        The data kept over the turn.
    again : tuple of (int, int)
        Op and backward op before which it runs again.
    """

    saved_bytes: int
    peak_bytes: int
    seconds: float
    saved: tuple[int, ...]
    again: tuple[tuple[int, int], ...]


class Block:
    """A range of forward ops with its range of backward ops.

    Parameters
    ----------
    graph : Graph
        The whole graph.
    forward, backward : range
        The ops of the block.
    length : int
        Number of forward ops of the whole graph.
    """

    def __init__(self, graph: Graph, forward: range, backward: range, length: int) -> None:
        self.forward = forward
        self.backward = backward
        self._source = graph
        self._length = length
        members = (*forward, *backward)
        made = [d for i in members for d in graph.ops[i].outputs]
        inside = set(made)
        read_ahead = sorted({d for i in forward for d in graph.ops[i].inputs} - inside)
        read_behind = sorted({d for i in backward for d in graph.ops[i].inputs} - inside - set(read_ahead))
        self.data = (*read_ahead, *made, *read_behind)
        self._local = {d: k for k, d in enumerate(self.data)}
        self.turn = len(forward) + 1
        self.ops = (None, *forward, None, None, *backward, None)
        self.graph = self._build(read_ahead, read_behind)

    def _build(self, read_ahead: list[int], read_behind: list[int]) -> Graph:
        source, forward, backward = self._source, self.forward, self.backward
        ends = forward.stop
        handed = [d for i in forward for d in source.ops[i].outputs if self._read_in(d, ends, self._length)]
        gradients = [d for i in backward for d in source.ops[i].outputs if self._read_in(d, backward.stop, None)]
        ops = [self._frame(Phase.FORWARD, outputs=read_ahead)]
        ops += [self._inner(i, Phase.FORWARD) for i in forward]
        ops.append(self._frame(Phase.BACKWARD, inputs=handed))
        ops.append(self._frame(Phase.BACKWARD, outputs=read_behind))
        ops += [self._inner(i, Phase.BACKWARD) for i in backward]
        ops.append(self._frame(Phase.BACKWARD, inputs=gradients))
        producer = {d: k for k, op in enumerate(ops) for d in op.outputs}
        data = []
        for k, d in enumerate(self.data):
            item = source.data[d]
            stored_elsewhere = item.producer < self._length and item.producer not in forward
            kind = Kind.TEMPORARY if stored_elsewhere or item.producer not in self.ops else item.kind
            size = 0 if stored_elsewhere else item.bytes
            data.append(Data(bytes=size, producer=producer[k], kind=kind))
        return Graph(ops=tuple(ops), data=tuple(data))

    def _read_in(self, d: int, first: int, end: int | None) -> bool:
        return any(first <= i and (end is None or i < end) for i in self._source.consumers[d])

    def _frame(self, phase: Phase, inputs: list[int] | None = None, outputs: list[int] | None = None) -> Op:
        return Op(
            name="frame",
            target="frame",
            phase=phase,
            inputs=tuple(sorted(self._local[d] for d in inputs or ())),
            outputs=tuple(self._local[d] for d in outputs or ()),
            recompute=Recompute.NEVER,
        )

    def _inner(self, i: int, phase: Phase) -> Op:
        op = self._source.ops[i]
        return replace(
            op,
            name="",
            module="",
            phase=phase,
            inputs=tuple(sorted(self._local[d] for d in op.inputs)),
            outputs=tuple(self._local[d] for d in op.outputs),
            after=(),
        )

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for blocks of the same structure and costs, whose options are therefore the same."""
        return (self.graph.ops, self.graph.data)

    def options(self, deadline: float) -> list[Option]:
        """The block's options over the grid of limits, from the most to the least saved."""
        plain = self._option(Plan(self.graph), 0)
        floor = peak_floor(self.graph).bytes
        found = [plain]
        for peak_share in PEAK_GRID:
            limit = floor + round(peak_share * (plain.peak_bytes - floor))
            for saved_share in SAVED_GRID:
                reserve = max(0, limit - round(saved_share * plain.saved_bytes))
                plan = Plan(self._with_reserve(reserve))
                if not fit(plan, limit, min(deadline, time.perf_counter() + SECONDS_AN_OPTION)):
                    # Saving less is harder still.
                    break
                found.append(self._option(plan, reserve))
        return _undominated(found)

    def _with_reserve(self, reserve: int) -> Graph:
        ops = list(self.graph.ops)
        ops[self.turn] = replace(ops[self.turn], workspace_bytes=reserve)
        return replace(self.graph, ops=tuple(ops))

    def _option(self, plan: Plan, reserve: int) -> Option:
        others = [t for t in range(len(plan.level)) if t != self.turn]
        saved = tuple(d for d in range(len(self.data)) if plan.retained(d, self.turn + 1))
        return Option(
            saved_bytes=max(int(plan.level[self.turn]) - reserve, sum(self.graph.data[d].bytes for d in saved)),
            peak_bytes=max(int(plan.level[t]) for t in others),
            seconds=plan.seconds,
            saved=saved,
            again=tuple((i, t) for t, again in enumerate(plan.again) for i in again),
        )


def _undominated(options: list[Option]) -> list[Option]:
    kept: list[Option] = []
    for option in sorted(options, key=lambda o: (o.seconds, o.saved_bytes, o.peak_bytes)):
        if not any(k.saved_bytes <= option.saved_bytes and k.peak_bytes <= option.peak_bytes for k in kept):
            kept.append(option)
    return kept
