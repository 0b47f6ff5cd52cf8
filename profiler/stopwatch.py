"""Running single ops on the device: how long one takes, and what it allocates beyond its results.

Every distinct op (target, shapes, strides, dtypes, other arguments) is run once with made-up inputs:
floats are normal, integers and booleans zero, which is a valid index everywhere. Nothing but one
op's inputs, outputs and workspace is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from rematopt.device import allocations, seconds_of

WARM_UP_RUNS = 1
MIN_RUNS = 3
MAX_RUNS = 30
SECONDS_PER_OP = 0.1
"""An op is repeated until this much time has gone by, within MIN_RUNS and MAX_RUNS."""

Progress = Callable[[int, int, str], None]
"""Called with the number of ops done, their total, and the name of the next."""


@dataclass(frozen=True)
class OpCost:
    """What one run of an op costs.

    Parameters
    ----------
    seconds : float
        Median over the runs.
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
        The ops. Higher-order operators cannot be run by themselves and are left out of the result.
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
    first = [group[0] for group in alike.values()]
    with torch.no_grad(), _disable_current_modes():
        seconds = []
        for i, node in enumerate(first):
            if progress is not None:
                progress(i, len(first), node.name)
            seconds.append(_median_seconds(_example_call(node), device))
        found = allocations((_example_call(node) for node in first), device)
    costs = [OpCost(s, max(0, a.peak_bytes - a.result_bytes)) for s, a in zip(seconds, found, strict=True)]
    return {node: cost for group, cost in zip(alike.values(), costs, strict=True) for node in group}


def _example_call(node: Node) -> Callable[[], Any]:
    """The op with made-up arguments, ready to run."""
    args, kwargs = _example_arguments(node)
    return lambda: node.target(*args, **kwargs)  # type: ignore[operator]


def _median_seconds(run: Callable[[], Any], device: torch.device) -> float:
    for _ in range(WARM_UP_RUNS):
        run()
    times: list[float] = []
    while len(times) < MIN_RUNS or (sum(times) < SECONDS_PER_OP and len(times) < MAX_RUNS):
        times.append(seconds_of(run, device))
    return median(times)


def op_key(node: Node) -> str:
    """Two nodes with the same key are the same work."""

    def form(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return (str(value.dtype), str(value.device), tuple(value.shape), tuple(value.stride()))
        return value

    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    return f"{node.target} {tree_map(form, args)} {tree_map(form, kwargs)}"


def _example_arguments(node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Real arguments in the form of the node's fake ones."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    made: tuple[tuple[Any, ...], dict[str, Any]] = tree_map(_example, (args, kwargs))
    return made


def _example(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    span = 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True) if size > 1)
    if 0 in value.shape:
        span = 0
    real = value.dtype.is_floating_point or value.dtype.is_complex
    make = torch.randn if real and value.dtype.itemsize > 1 else torch.zeros
    storage = make(span, dtype=value.dtype, device=value.device)
    return storage.as_strided(value.shape, value.stride())
