"""Simplifications of a problem before it is formulated, and what each may lose.

A reduction only restricts or relaxes what the formulation may decide; it changes no graph, and the
schedule that is found is simulated on the graph as it was given.

- *Keep*: data so small that dropping them cannot matter stay alive from production to their last
  possible read. Their bytes are counted, so schedules stay valid; what may be lost is the time that
  their bytes would buy, which is limited by the share of the limit that they may take together.
- *Tie*: an op whose results feed exactly one other op, which gives back no more bytes than it reads
  from it, runs again only together with that op. Keeping the op's results instead of the other op's
  hardly ever pays. It can pay when the other op's remaining inputs are dropped and come back at
  another stage, so ties are left out where a proof is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from rematopt.graph import Graph, Recompute

KEPT_SHARE = 1e-3
"""Share of the limit above the static bytes that all data kept for their smallness may take together."""


BOUND_SHARE = 1e-4
"""Share of the limit above the static bytes that may weigh nothing in a bound, to keep its program small."""


@dataclass(frozen=True)
class Reduction:
    """What is settled before the formulation decides the rest.

    Parameters
    ----------
    keep : frozenset of int
        Data that are never dropped before their last possible read.
    tied : dict of int to int
        For an op the op with which it runs again: both in a stage or neither.
    """

    keep: frozenset[int] = frozenset()
    tied: dict[int, int] = field(default_factory=dict)

    @cached_property
    def _heads(self) -> dict[int, int]:
        heads: dict[int, int] = {}
        for i in sorted(self.tied, reverse=True):
            heads[i] = heads.get(self.tied[i], self.tied[i])
        return heads

    def head(self, i: int) -> int:
        """The op that decides whether op ``i`` runs again; ``i`` itself if it is not tied."""
        return self._heads.get(i, i)


NOTHING = Reduction()


def negligible_data(graph: Graph, limit_bytes: int, share: float = KEPT_SHARE) -> frozenset[int]:
    """The smallest droppable data that together take at most ``share`` of the limit above static bytes."""
    budget = share * max(0, limit_bytes - graph.static.total)
    found: set[int] = set()
    for d in sorted(range(len(graph.data)), key=lambda d: graph.data[d].bytes):
        budget -= graph.data[d].bytes
        if budget < 0:
            break
        found.add(d)
    return frozenset(found)


def fused_ops(graph: Graph, keep: frozenset[int]) -> dict[int, int]:
    """For each op whose results only serve one other op of the same phase, that op (see the module's text)."""
    tied: dict[int, int] = {}
    for i, op in enumerate(graph.ops):
        readers = {j for d in op.outputs for j in graph.consumers[d]}
        if op.recompute is Recompute.NEVER or len(readers) != 1 or any(graph.data[d].kept for d in op.outputs):
            continue
        (j,) = readers
        consumer = graph.ops[j]
        gives = sum(graph.data[d].bytes for d in consumer.outputs if graph.consumers[d] and d not in keep)
        takes = sum(graph.data[d].bytes for d in op.outputs)
        if consumer.phase is op.phase and consumer.recompute is not Recompute.NEVER and gives <= takes:
            tied[i] = j
    return tied


def reduce_for_bound(graph: Graph, limit_bytes: int) -> Reduction:
    """What bounds may leave out: data that together hardly weigh anything, and that a bound then lets weigh nothing."""
    return Reduction(keep=negligible_data(graph, limit_bytes, BOUND_SHARE))


def reduce_for_speed(graph: Graph, limit_bytes: int) -> Reduction:
    """All reductions, for searches that need no proof."""
    keep = negligible_data(graph, limit_bytes)
    return Reduction(keep=keep, tied=fused_ops(graph, keep))
