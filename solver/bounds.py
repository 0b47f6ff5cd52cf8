"""What no schedule can do better: bounds on the peak (those on the time are in :mod:`rematopt.solver.tighten`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rematopt.graph import OPTIMIZER_STEP, Graph
from rematopt.solver.drive import run
from rematopt.solver.formulation import Goal, formulate
from rematopt.solver.presolve import reduce_for_bound
from rematopt.solver.stages import recomputable_ops, staged
from rematopt.units import format_bytes


@dataclass(frozen=True, kw_only=True)
class Floor:
    """A peak that no schedule can undercut.

    Parameters
    ----------
    bytes : int
        The peak, static bytes included.
    op : int
        The op during whose run that much must be alive.
    data : tuple of int
        The data that must be alive then, the op's outputs included.
    """

    bytes: int
    op: int
    data: tuple[int, ...]

    def explain(self, graph: Graph) -> str:
        """Say in one sentence what needs so much memory."""
        op = graph.ops[self.op]
        where = f" in {op.module}" if op.module else ""
        largest = sorted(self.data, key=lambda d: -graph.data[d].bytes)[:3]
        parts = [
            f"{format_bytes(graph.data[d].bytes)} of {graph.ops[graph.data[d].producer].name}"
            + (f" {graph.data[d].label}" if graph.data[d].label else "")
            for d in largest
        ]
        rest = sum(graph.data[d].bytes for d in self.data if d not in largest)
        if rest:
            parts.append(f"{format_bytes(rest)} of other data")
        if op.workspace_bytes:
            parts.append(f"{format_bytes(op.workspace_bytes)} of workspace")
        if graph.static.total:
            parts.append(f"{format_bytes(graph.static.total)} of static memory")
        advice = (
            "; the optimizer's own step needs less with foreach=False or fused=True"
            if op.target == OPTIMIZER_STEP
            else ""
        )
        needs = f"needs {format_bytes(self.bytes)} while it runs: {', '.join(parts)}"
        return f"op {op.name} ({op.target}){where} {needs}{advice}"


def peak_floor(graph: Graph) -> Floor:
    """The largest need of any op: static bytes, inputs, outputs, workspace, and what cannot be dropped then.

    What cannot be dropped are data that stay until the step ends, and data whose producer may not run
    again while a first run that reads them is still to come.
    """
    again = recomputable_ops(graph)
    last: list[float] = []
    for d, data in enumerate(graph.data):
        readers = graph.consumers[d]
        settled = max(readers, default=data.producer) if data.producer not in again else data.producer
        last.append(math.inf if data.kept else settled)
    alive: set[int] = set()
    best = Floor(bytes=graph.static.total, op=0, data=())
    for i, op in enumerate(graph.ops):
        held = alive | set(op.inputs) | set(op.outputs)
        size = graph.static.total + sum(graph.data[d].bytes for d in held) + op.workspace_bytes
        if size > best.bytes:
            best = Floor(bytes=size, op=i, data=tuple(sorted(held)))
        alive = {d for d in alive | set(op.outputs) if last[d] > i}
    return best


def peak_bound(graph: Graph, reachable_bytes: int, deadline: float) -> int:
    """Peak bytes below which no staged schedule lies: the floor or the relaxation that minimises the peak."""
    floor = peak_floor(graph).bytes
    reduction = reduce_for_bound(graph, reachable_bytes)
    form = formulate(staged(graph, reduction=reduction), reachable_bytes, goal=Goal.PEAK, optimistic=True)
    answer = run(form.model.relaxed(), deadline=deadline)
    if answer.interrupted:
        raise KeyboardInterrupt
    if not math.isfinite(answer.bound):
        return floor
    relaxed = graph.static.total + answer.bound * (1 - 1e-6) * form.units.bytes
    return min(reachable_bytes, max(floor, math.ceil(relaxed)))
