"""What surrounds the forward and backward pass of a step: static memory and the optimizer's own step.

Autograd stores the gradients of a compiled backward pass when that has returned all of them, so where
gradients are there already, all are alive twice; plain PyTorch adds each as it comes. Adding them inside
the backward pass would save that but not be the same. A parameter that is used elsewhere, too, or by
another call, gets the sum of its new gradients added at once: other bits. Hooks on the parameter would
see nothing, and those of distributed training, which sit on autograd's nodes, cannot even be asked for.
So it is counted.
"""

from __future__ import annotations

from dataclasses import replace

from rematopt.graph import ACCUMULATE, OPTIMIZER_STEP, Kind, Op, StaticBytes
from rematopt.optimizer import OptimizerBytes
from rematopt.profiler.lowering import Lowered


def surrounded(
    lowered: Lowered, static: StaticBytes, optimizer: OptimizerBytes, *, accumulate: bool = False
) -> Lowered:
    """Fill in the memory that the captured graph itself does not show.

    Parameters
    ----------
    lowered : Lowered
        As captured.
    static : StaticBytes
        Memory that is there before the step; gradients among it if some are present.
    optimizer : OptimizerBytes
        What the optimizer's step allocates for a moment becomes the workspace of the last op.
    accumulate : bool
        Plan for a step that adds to gradients which are there already, those of the micro-batch before.
    """
    if accumulate:
        static = replace(static, gradients=max(static.gradients, lowered.gradient_bytes))
    ops = tuple(_with_workspace(op, lowered, static, optimizer) for op in lowered.graph.ops)
    return replace(lowered, graph=replace(lowered.graph, ops=ops, static=static))


def _with_workspace(op: Op, lowered: Lowered, static: StaticBytes, optimizer: OptimizerBytes) -> Op:
    if op.target == OPTIMIZER_STEP:
        # Fresh gradients stay data to the end of the step, but one that was added to a present gradient is gone when
        # the optimizer runs. Backward's own end holds both, so the peak is right where they are more than the rest.
        fresh = sum(item.bytes for item in lowered.graph.data if item.kind is Kind.GRADIENT)
        return replace(op, workspace_bytes=max(0, optimizer.step - min(fresh, static.gradients)))
    if op.target == ACCUMULATE and static.gradients >= lowered.gradient_bytes:
        return replace(op, workspace_bytes=0)  # added in place, whatever their layout
    return op
