"""The staged form of a problem: where in the step an op may run again.

The first runs of all ops, in the graph's order, are cut into consecutive *segments*. Before the
first runs of segment ``k`` lies *stage* ``k``, in which each op that ran already and may still be
useful runs at most once more, in the graph's order. The exact solvers search all schedules of this
form, and "optimal" means optimal among them: for the given order of ops, and with at most one run of
an op between the beginnings of two segments.

A graph with backward ops begins a segment at every backward op that reads what can be recomputed
from the forward pass; only forward ops run again. A graph without backward ops (an imported one)
has one segment an op, and every op may run again: the stages of Checkmate (Jain et al., 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from rematopt.graph import Graph, Phase, Recompute
from rematopt.solver.presolve import NOTHING, Reduction


@dataclass(frozen=True, slots=True)
class Slot:
    """A place on the staged time axis where an op runs (``again``: may run)."""

    op: int
    stage: int
    again: bool


@dataclass(frozen=True, kw_only=True)
class Stages:
    """The staged form of a graph.

    Parameters
    ----------
    graph : Graph
        The graph, unreduced.
    starts : tuple of int
        First op of each segment, beginning with op 0.
    again : tuple of tuple of int
        For each stage the ops that may run again in it, in order; empty for stage 0.
    reduction : Reduction
        Simplifications that were applied.
    """

    graph: Graph
    starts: tuple[int, ...]
    again: tuple[tuple[int, ...], ...]
    reduction: Reduction

    def segment(self, k: int) -> range:
        """Ops whose first run lies in segment ``k``."""
        end = self.starts[k + 1] if k + 1 < len(self.starts) else len(self.graph.ops)
        return range(self.starts[k], end)

    @cached_property
    def segment_of(self) -> tuple[int, ...]:
        """For each op the segment in which it runs first."""
        return tuple(k for k in range(len(self.starts)) for _ in self.segment(k))

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The staged time axis: for each stage its recomputations, then the first runs of its segment."""
        return tuple(self._walk())

    def _walk(self) -> Iterator[Slot]:
        for k, again in enumerate(self.again):
            yield from (Slot(i, k, True) for i in again)
            yield from (Slot(i, k, False) for i in self.segment(k))

    @property
    def choices(self) -> int:
        """Number of places where an op may run again."""
        return sum(map(len, self.again))


def is_general(graph: Graph) -> bool:
    """Whether the graph has no forward/backward split that binds (see the module's text)."""
    return graph.forward_count == len(graph.ops)


def recomputable_ops(graph: Graph, *, everywhere: bool = False) -> frozenset[int]:
    """Ops that may run again in the staged form; backward ops among them only if ``everywhere``."""
    all_phases = everywhere or is_general(graph)
    return frozenset(
        i
        for i, op in enumerate(graph.ops)
        if op.recompute is not Recompute.NEVER and op.outputs and (all_phases or op.phase is Phase.FORWARD)
    )


def staged(
    graph: Graph, *, reduction: Reduction = NOTHING, window: int | None = None, everywhere: bool = False
) -> Stages:
    """Bring a graph into its staged form.

    Parameters
    ----------
    graph : Graph
        The graph.
    reduction : Reduction
        What presolve decided beforehand.
    window : int, optional
        Allow an op in a stage only if it is among the ``window`` useful ops up to the producer of
        something that the segment reads; all useful ops if not given (exact).
    everywhere : bool
        One segment an op, and backward ops may run again too, in graphs with backward ops as well.
    """
    may_run_again = recomputable_ops(graph, everywhere=everywhere)
    starts = _segment_starts(graph, may_run_again, every_op=everywhere or is_general(graph))
    useful = _useful_ops(graph, starts, may_run_again, reduction)
    again = []
    for k, candidates in enumerate(useful):
        end = starts[k + 1] if k + 1 < len(starts) else len(graph.ops)
        heads = [i for i in candidates if i not in reduction.tied]
        chosen = set(heads) if window is None else _in_window(graph, range(starts[k], end), heads, reduction, window)
        again.append(tuple(i for i in candidates if reduction.head(i) in chosen))
    return Stages(graph=graph, starts=starts, again=tuple(again), reduction=reduction)


def _segment_starts(graph: Graph, may_run_again: frozenset[int], *, every_op: bool) -> tuple[int, ...]:
    def begins(i: int) -> bool:
        op = graph.ops[i]
        reads = any(graph.data[d].producer in may_run_again for d in op.inputs)
        return every_op or (op.phase is Phase.BACKWARD and reads)

    return tuple(i for i in range(len(graph.ops)) if i == 0 or begins(i))


def _useful_ops(
    graph: Graph, starts: tuple[int, ...], may_run_again: frozenset[int], reduction: Reduction
) -> list[list[int]]:
    """For each stage the ops that ran before and whose result may still be read, directly or not."""
    mark = _marker(graph, may_run_again, reduction)
    useful: set[int] = set()
    stages: list[list[int]] = []
    end = len(graph.ops)
    for start in reversed(starts):
        for i in range(start, end):
            mark(i, useful)
        end = start
        stages.append(sorted(i for i in useful if i < start))
    return stages[::-1]


def _marker(graph: Graph, may_run_again: frozenset[int], reduction: Reduction) -> Callable[[int, set[int]], None]:
    def mark(reader: int, useful: set[int]) -> None:
        pending = [reader]
        while pending:
            for d in graph.ops[pending.pop()].inputs:
                producer = graph.data[d].producer
                settled = graph.data[d].kept or d in reduction.keep or producer in useful
                if producer in may_run_again and not settled:
                    useful.add(producer)
                    pending.append(producer)

    return mark


def _in_window(graph: Graph, segment: range, heads: list[int], reduction: Reduction, window: int) -> set[int]:
    rank = {i: at for at, i in enumerate(heads)}
    chosen: set[int] = set()
    for i in segment:
        for d in graph.ops[i].inputs:
            at = rank.get(reduction.head(graph.data[d].producer), -1)
            chosen.update(heads[max(0, at - window + 1) : at + 1])
    return chosen
