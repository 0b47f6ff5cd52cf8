"""Profiling a model: capture, lower, then measure every distinct op once or estimate its time."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from rematopt.device import describe
from rematopt.errors import InvalidInputError
from rematopt.graph import Graph, Kind, Op
from rematopt.model import device_of, random_states_restored, signature, static_bytes
from rematopt.optimizer import optimizer_bytes
from rematopt.profile import Profile, Timing
from rematopt.profiler.capture import capture
from rematopt.profiler.lowering import Lowered, lower
from rematopt.profiler.rates import Rates, rates_of
from rematopt.profiler.roofline import flops_of, local_rates, seconds_at
from rematopt.profiler.stopwatch import Progress, op_costs
from rematopt.profiler.surroundings import surrounded
from rematopt.storage import tensors_in

MEASURED = "measured"
ROOFLINE = "roofline"


def profile(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    timing: str | Rates = MEASURED,
    progress: Progress | None = None,
) -> Profile:
    """Profile one training step of ``model`` without running it.

    The joint forward and backward graph is captured, and every distinct op of it is run and timed by
    itself on the device of the model; or nothing is run and times are estimated. Parameters, buffers,
    gradients and random states stay as they are.

    Parameters
    ----------
    model : torch.nn.Module
        Any module that ``torch.compile`` captures as one graph, on the device and in the mode
        (``train()``) in which it will be trained.
    args, kwargs
        Arguments of one call, as in training.
    optimizer : torch.optim.Optimizer, optional
        Its state counts as static memory, as it will be after the first step, and what its ``step()``
        allocates for a moment as part of the step.
    accumulate : bool
        Whether the step adds to gradients that are there already, as every micro-batch but the first
        does. Gradients that are present count in any case.
    timing : str or Rates
        ``measured``; or ``roofline:NAME`` for an estimate from the rates of a device (a name of
        :data:`rematopt.profiler.rates.DEVICES`, a JSON file, or ``local`` for measured rates of the device at
        hand); or the rates themselves.
    progress : callable, optional
        Called before each op that is measured.

    Returns
    -------
    Profile
        To be saved, inspected, and solved for memory limits.

    Raises
    ------
    UnsupportedModelError
        If the call cannot be captured as one graph; the message names the construct.
    InvalidInputError
        If ``model`` is no module or ``args`` no sequence, ``timing`` is none of these, or times are to be
        measured where tensors have no memory (see :func:`rematopt.sizes_only`).
    """
    rates = _rates(timing)
    lowered = _lowered(model, args, kwargs, optimizer, accumulate)
    if rates is None:
        if _is_fake(model):
            raise InvalidInputError(
                "timing='measured' needs tensors with memory, and these have sizes only; use timing='roofline:local' "
                "or the rates of another device, e.g. 'roofline:h100'"
            )
        graph, timings = measured(lowered, progress)
        return Profile(graph=graph, device=describe(lowered.device), versions=versions(), timings=timings)
    found = rates(lowered)
    graph, timings = estimated(lowered, found)
    return Profile(graph=graph, device=f"{found.name} (estimated)", versions=versions(), timings=timings)


def _rates(timing: str | Rates) -> Callable[[Lowered], Rates] | None:
    """Read how times are to be obtained: from rates, which may depend on the graph, or None to measure."""
    if isinstance(timing, Rates):
        return lambda _: timing
    source, _, name = timing.partition(":")
    if timing == MEASURED:
        return None
    if source != ROOFLINE or not name:
        raise InvalidInputError(f"timing {timing!r} is unknown; expected 'measured' or 'roofline:NAME'")
    if name == "local":
        return _local_rates
    known = rates_of(name)
    return lambda _: known


@contextmanager
def sizes_only() -> Iterator[None]:
    """Give tensors that are made inside no memory; see :func:`rematopt.sizes_only`."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def _is_fake(model: torch.nn.Module) -> bool:
    return any(isinstance(t, FakeTensor) for t in (*model.parameters(), *model.buffers()))


def _local_rates(lowered: Lowered) -> Rates:
    nodes = [n for n in lowered.nodes if n is not None]
    found = {t.dtype for n in nodes for t in tensors_in(n.meta.get("val")) if t.dtype.is_floating_point}
    dtypes = {str(dtype).removeprefix("torch.") for dtype in found if dtype.itemsize > 1}
    with _disable_current_modes():
        return local_rates(lowered.device, dtypes, describe(lowered.device))


def estimated(lowered: Lowered, rates: Rates) -> tuple[Graph, tuple[Timing, ...]]:
    """Fill estimated seconds, FLOPs and the known part of workspaces into a lowered graph."""
    ops = [
        op
        if node is None
        else replace(
            op,
            seconds=seconds_at(node, rates),
            workspace_bytes=_replay_bytes(lowered.graph, op),
            flops=flops_of(node),
        )
        for op, node in zip(lowered.graph.ops, lowered.nodes, strict=True)
    ]
    timings = tuple(Timing.MODELLED if node is None else Timing.ROOFLINE for node in lowered.nodes)
    return replace(lowered.graph, ops=tuple(ops), timing=f"{ROOFLINE}: {rates.name}"), timings


def trace(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
) -> Graph:
    """Capture the graph that :func:`profile` measures, without times and workspaces.

    Takes seconds, where a profile takes minutes; enough to recognise a model. Parameters and errors are
    those of :func:`profile`.
    """
    return _lowered(model, args, kwargs, optimizer, accumulate).graph


def _lowered(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    optimizer: torch.optim.Optimizer | None,
    accumulate: bool,
) -> Lowered:
    kwargs = kwargs or {}
    if not isinstance(model, torch.nn.Module):
        raise InvalidInputError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if isinstance(args, torch.Tensor) or not isinstance(args, Sequence):
        raise InvalidInputError("args must be a tuple of positional arguments; write (x,) for a single one")
    joint = capture(model, args, kwargs)
    needed = optimizer_bytes(optimizer, device_of(model, args, kwargs))
    static = static_bytes(model, args, kwargs, optimizer_state=needed.state)
    # The graph's stand-ins have a mode of their own; that of `sizes_only` must not meet it.
    with _disable_current_modes():
        lowered = lower(joint, signature=signature(model, args, kwargs))
    return surrounded(lowered, static, needed, accumulate=accumulate)


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
            op = replace(op, seconds=cost.seconds, workspace_bytes=workspace, flops=flops_of(node))
        ops.append(op)
        timings.append(Timing.MEASURED if cost is not None else Timing.MODELLED)
    return replace(lowered.graph, ops=_modelled(ops, timings, lowered), timing=MEASURED), tuple(timings)


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


def versions() -> dict[str, str]:
    """Versions of what a profile depends on."""
    from importlib.metadata import version

    return {"rematopt": version("rematopt"), "torch": str(torch.__version__), "python": platform.python_version()}
