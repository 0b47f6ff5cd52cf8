"""Estimating the time of ops from what they compute and move, and from what a device can do at best.

An op takes the longer of two times, computing and moving memory, and the time of a launch. Real
kernels take longer; what matters to a schedule, which op costs how much more than another, comes out
nearly right. Sizes do not depend on any of this. Workspaces are unknown and count as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from rematopt.device import seconds_of
from rematopt.profiler.operators import is_mutation, stand_ins
from rematopt.profiler.rates import Rates
from rematopt.storage import tensors_in

aten = torch.ops.aten

_LOOKUPS = frozenset(
    {aten.embedding.default, aten.index.Tensor, aten.index_select.default, aten.gather.default, aten.slice.Tensor}
)
"""Operators that read of their first argument no more than they return."""

_BANDWIDTH_BYTES = {"cpu": 2**26, "cuda": 2**29}
_PRODUCT_SIZE = {"cpu": 768, "cuda": 8192}
_RUNS = 3


def flops_of(node: Node) -> int:
    """Floating point operations of a node; see :func:`count_flops`."""
    args, kwargs = stand_ins(node)
    return count_flops(node.target, args, kwargs, node.meta.get("val"))


def count_flops(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> int:
    """Floating point operations of a call by PyTorch's own formulas; 0 for operators without one."""
    packet = getattr(op, "overloadpacket", None)
    if packet is aten._scaled_dot_product_flash_attention_for_cpu:
        return int(sdpa_flop_count(*(t.shape for t in args[:3])))  # type: ignore[no-untyped-call]
    if packet is aten._scaled_dot_product_flash_attention_for_cpu_backward:
        return int(sdpa_backward_flop_count(*(t.shape for t in args[:4])))  # type: ignore[no-untyped-call]
    count = flop_registry.get(packet)
    return int(count(*args, **kwargs, out_val=output)) if count is not None else 0


def bytes_of(node: Node) -> int:
    """Bytes that an op reads and writes: its tensor arguments, as far as they are read, and its results."""
    results = sum(_extent(t) for t in tensors_in(node.meta.get("val")))
    read = tensors_in(stand_ins(node))
    if node.target in _LOOKUPS:
        return 2 * results + sum(_extent(t) for t in read[1:])
    if is_mutation(node):
        return sum(_extent(t) for t in read)
    return results + sum(_extent(t) for t in read)


def _extent(tensor: torch.Tensor) -> int:
    """Bytes of the elements that a tensor really has; an expanded size counts once."""
    if tensor.layout is not torch.strided:
        return int(tensor.numel() * tensor.dtype.itemsize)
    sizes = (size for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step or not size)
    return math.prod(sizes) * tensor.dtype.itemsize


def seconds_at(node: Node, rates: Rates) -> float:
    """Estimate the seconds of an op on a device with these rates."""
    moving = bytes_of(node) / rates.bytes_per_second
    flops = flops_of(node)
    computing = flops / rates.flops_for(_product_dtype(node), tf32=_tf32(node)) if flops else 0.0
    return max(moving, computing) + rates.launch_seconds


def _product_dtype(node: Node) -> str:
    found = next((t.dtype for t in tensors_in(stand_ins(node)) if t.dtype.is_floating_point), torch.float32)
    return str(found).removeprefix("torch.")


def _tf32(node: Node) -> bool:
    """Whether PyTorch's present settings let this op compute float32 as tf32."""
    if isinstance(node.target, OpOverload) and "conv" in node.target._schema.name:
        return bool(torch.backends.cudnn.allow_tf32)
    return torch.get_float32_matmul_precision() != "highest"


def local_rates(device: torch.device, dtypes: set[str], name: str) -> Rates:
    """Measure the rates of the device at hand: a large copy, products of large matrices, a tiny op.

    Parameters
    ----------
    device : torch.device
        The device.
    dtypes : set of str
        Floating point dtypes to measure besides float32.
    name : str
        Name to give it.
    """
    with torch.no_grad():
        source = torch.ones(_BANDWIDTH_BYTES.get(device.type, 2**26), dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        moving = _least(lambda: target.copy_(source), device)
        tiny = torch.ones(1, device=device)
        launch = _least(lambda: tiny + tiny, device)
        flops = {dtype: _product_rate(device, getattr(torch, dtype)) for dtype in {"float32", *dtypes}}
    bandwidth = 2 * source.numel() / moving
    return Rates(name=name, flops=flops, bytes_per_second=bandwidth, launch_seconds=launch)


def _product_rate(device: torch.device, dtype: torch.dtype) -> float:
    size = _PRODUCT_SIZE.get(device.type, 768)
    a = torch.ones(size, size, device=device).to(dtype)
    return 2 * size**3 / _least(lambda: a @ a, device)


def _least(call: Any, device: torch.device) -> float:
    call()
    return min(seconds_of(call, device) for _ in range(_RUNS))
