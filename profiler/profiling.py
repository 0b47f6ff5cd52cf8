"""Profiling a model: capture, lower, measure every distinct op once."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils.flop_counter import flop_registry

from rematopt.device import describe
from rematopt.errors import InvalidInputError
from rematopt.graph import Graph, Kind, Op
from rematopt.model import random_states_restored, signature, static_bytes
from rematopt.profile import Profile, Timing
from rematopt.profiler.capture import capture
from rematopt.profiler.lowering import Lowered, lower
from rematopt.profiler.stopwatch import Progress, op_costs


def profile(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Profile one training step of ``model`` without running it.

    The joint forward and backward graph is captured, and every distinct op of it is run and timed by
    itself on the device of the model. Parameters, buffers, gradients and random states stay as they are.

    Parameters
    ----------
    model : torch.nn.Module
        Any module that ``torch.compile`` captures as one graph, on the device and in the mode
        (``train()``) in which it will be trained.
    args, kwargs
        Arguments of one call, as in training.
    optimizer : torch.optim.Optimizer, optional
        Its state counts as static memory, as it will be after the first step.
    progress : callable, optional
        Called before each op.

    Returns
    -------
    Profile
        To be saved, inspected, and solved for memory limits.

    Raises
    ------
    UnsupportedModelError
        If the call cannot be captured as one graph; the message names the construct.
    InvalidInputError
        If ``model`` is no module or ``args`` no sequence.
    """
    lowered = _lowered(model, args, kwargs, optimizer)
    graph, timings = measured(lowered, progress)
    return Profile(graph=graph, device=describe(lowered.device), versions=versions(), timings=timings)


def trace(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
) -> Graph:
    """Capture the graph that :func:`profile` measures, without times and workspaces.

    Takes seconds, where a profile takes minutes; enough to recognise a model. Parameters and errors are
    those of :func:`profile`.
    """
    return _lowered(model, args, kwargs, optimizer).graph


def _lowered(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    optimizer: torch.optim.Optimizer | None,
) -> Lowered:
    kwargs = kwargs or {}
    if not isinstance(model, torch.nn.Module):
        raise InvalidInputError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if isinstance(args, torch.Tensor) or not isinstance(args, Sequence):
        raise InvalidInputError("args must be a tuple of positional arguments; write (x,) for a single one")
    return lower(
        capture(model, args, kwargs),
        static=static_bytes(model, args, kwargs, optimizer),
        signature=signature(model, args, kwargs),
    )


def measured(lowered: Lowered, progress: Progress | None = None) -> tuple[Graph, tuple[Timing, ...]]:
    """Fill seconds, workspace and FLOPs into a lowered graph."""
    with random_states_restored():
        costs = op_costs((n for n in lowered.nodes if n is not None), lowered.device, progress)
    ops: list[Op] = []
    timings: list[Timing] = []
    for op, node in zip(lowered.graph.ops, lowered.nodes, strict=True):
        cost = costs.get(node) if node is not None else None
        if cost is not None and node is not None:
            workspace = cost.workspace_bytes + _replay_bytes(lowered.graph, op)
            op = replace(op, seconds=cost.seconds, workspace_bytes=workspace, flops=_flops(node))
        ops.append(op)
        timings.append(Timing.MEASURED if cost is not None else Timing.MODELLED)
    return replace(lowered.graph, ops=_modelled(ops, timings, lowered)), tuple(timings)


def _modelled(ops: list[Op], timings: list[Timing], lowered: Lowered) -> tuple[Op, ...]:
    """Give ops that could not be run the time that ops of this graph take for as many bytes."""

    def moved(op: Op) -> int:
        return sum(lowered.graph.data[d].bytes for d in (*op.inputs, *op.outputs))

    measured = [op for op, timing in zip(ops, timings, strict=True) if timing is Timing.MEASURED]
    rate = sum(op.seconds for op in measured) / max(1, sum(moved(op) for op in measured))
    return tuple(
        replace(op, seconds=moved(op) * rate) if node is not None and timing is Timing.MODELLED else op
        for op, node, timing in zip(ops, lowered.nodes, timings, strict=True)
    )


def _replay_bytes(graph: Graph, op: Op) -> int:
    """A random op that runs again holds the generator's present state meanwhile."""
    return sum(graph.data[d].bytes for d in op.inputs if graph.data[d].kind is Kind.RANDOM_STATE)


def _flops(node: Node) -> int:
    """Floating point operations by PyTorch's own formulas; 0 for operators without one."""
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if count is None:
        return 0
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    return int(count(*args, **kwargs, out_val=node.meta.get("val")))


def versions() -> dict[str, str]:
    """Versions of what a profile depends on."""
    from importlib.metadata import version

    return {"rematopt": version("rematopt"), "torch": str(torch.__version__), "python": platform.python_version()}
