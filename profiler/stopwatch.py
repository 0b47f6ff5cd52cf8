"""Running single ops on the device: how long one takes, and what it allocates beyond its results.

Every distinct op (target, shapes, strides, dtypes, other arguments) is run with made-up inputs:
integers and booleans are zero, which is a valid index everywhere; floats lie between 0 and 1, so that
they serve as probabilities and as arguments of logarithms and roots. Nothing but one op's inputs, outputs
and workspace is in memory at a time, and a few copies of small ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from rematopt.device import allocations, seconds_of
from rematopt.profiler.operators import stand_ins
from rematopt.storage import tensors_in

_log = logging.getLogger(__name__)

ROUNDS = 2
"""All ops are timed once after the other, then again: a slow moment of the machine hits one round only."""

MIN_RUNS = 3
MAX_RUNS = 20
SECONDS_PER_OP = 0.06
"""An op is repeated in a round until this much time has gone by, within MIN_RUNS and MAX_RUNS."""

ROTATED_BYTES = {"cpu": 8 * 2**20, "cuda": 128 * 2**20}
"""Inputs and results of the runs take turns within this much memory: in a step they rarely are in a core's cache."""

MAX_COPIES = 8

DRAWN = 2**16
"""Random numbers drawn for an input; a larger one repeats them."""

Progress = Callable[[int, int, str], None]
"""Called with the number of ops done, their total, and the name of the next."""


@dataclass(frozen=True)
class OpCost:
    """What one run of an op costs.

    Parameters
    ----------
    seconds : float
        Median over the runs of all rounds.
    workspace_bytes : int
        Bytes held at its peak beyond its results.
    """

    seconds: float
    workspace_bytes: int


def op_costs(nodes: Iterable[Node], device: torch.device, progress: Progress | None = None) -> dict[Node, OpCost]:
    """Measure ops, each distinct one once.

    Parameters
    ----------
    nodes : iterable of Node
        The ops. Those that cannot be run by themselves (higher-order operators, operators that refuse
        the made-up inputs) are left out of the result.
    device : torch.device
        Where they run.
    progress : callable, optional
        Called with the number of distinct ops timed, their total, and the name of the next.

    Returns
    -------
    dict of Node to OpCost
        Nodes that are the same work share their cost.
    """
    alike: dict[str, list[Node]] = {}
    for node in nodes:
        if isinstance(node.target, OpOverload):
            alike.setdefault(op_key(node), []).append(node)
    times: dict[str, list[float]] = {key: [] for key in alike}
    # The caller's autocast is in the graph already; it must not cast the arguments of single ops.
    with torch.no_grad(), _disable_current_modes(), torch._C._DisableAutocast():
        for done, (key, group) in enumerate(list(alike.items()) * ROUNDS):
            if progress is not None:
                progress(done, len(alike) * ROUNDS, group[0].name)
            if key not in times:
                continue
            try:
                times[key] += _run_times(group[0], device)
            except (RuntimeError, IndexError, ValueError) as error:
                _log.info("%s cannot be run with made-up inputs: %s", group[0].name, error)
                del times[key]
        found = allocations((_example_call(alike[key][0]) for key in times), device)
    return {
        node: OpCost(median(times[key]), max(0, allocation.peak_bytes - allocation.result_bytes))
        for key, allocation in zip(times, found, strict=True)
        for node in alike[key]
    }


def _example_call(node: Node) -> Callable[[], Any]:
    """The op with made-up arguments, ready to run."""
    args, kwargs = _example_arguments(node)
    return lambda: node.target(*args, **kwargs)  # type: ignore[operator]


def _run_times(node: Node, device: torch.device) -> list[float]:
    """Times of one round; one run of each copy warms up."""
    calls = [_example_call(node)]
    held = sum(t.untyped_storage().nbytes() for t in tensors_in(stand_ins(node)))
    held += sum(t.untyped_storage().nbytes() for t in tensors_in(node.meta.get("val")) if t.layout is torch.strided)
    copies = ROTATED_BYTES.get(device.type, 0) // max(1, held)
    calls += [_example_call(node) for _ in range(min(MAX_COPIES, copies) - 1)]
    results = [call() for call in calls]
    times: list[float] = []

    def run() -> None:
        at = len(times) % len(calls)
        results[at] = calls[at]()

    while len(times) < MIN_RUNS or (sum(times) < SECONDS_PER_OP and len(times) < MAX_RUNS):
        times.append(seconds_of(run, device))
    return times


def op_key(node: Node) -> str:
    """Two nodes with the same key are the same work."""

    def form(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return (str(value.dtype), str(value.device), tuple(value.shape), tuple(value.stride()))
        return value

    args, kwargs = stand_ins(node)
    return f"{node.target} {tree_map(form, args)} {tree_map(form, kwargs)}"


def _example_arguments(node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Real arguments in the form of the node's fake ones."""
    made: tuple[tuple[Any, ...], dict[str, Any]] = tree_map(_example, stand_ins(node))
    return made


def _example(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    span = 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True) if size > 1)
    if 0 in value.shape:
        span = 0
    real = value.dtype.is_floating_point or value.dtype.is_complex
    make = _random if real and value.dtype.itemsize > 1 else torch.zeros
    storage = make(span, dtype=value.dtype, device=value.device)
    return storage.as_strided(value.shape, value.stride())


def _random(size: int, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Random numbers that repeat, since copying them is much faster than drawing them."""
    drawn = torch.rand(min(size, DRAWN), dtype=dtype, device=device)
    if size <= DRAWN:
        return drawn
    filled = torch.empty(size, dtype=dtype, device=device)
    whole = size // DRAWN * DRAWN
    filled[:whole].view(-1, DRAWN).copy_(drawn)
    filled[whole:].copy_(drawn[: size - whole])
    return filled
