"""What profiler and executor need to know of a device: its allocator, its clock, its name."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._pytree import tree_leaves

_CUDA_BLOCK_BYTES = 512
_MARK = "rematopt.measured"

# The CPU profiler writes two lines to stderr each time it starts and stops unless it is told not to.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def allocated_bytes(size: int, device: torch.device) -> int:
    """Bytes that the allocator of ``device`` hands out for a request of ``size`` bytes.

    On CUDA what a block has too much is not always split off: one of more than 1 MiB may be up to 1 MiB
    larger than this, which depends on what was freed before (see :mod:`rematopt.allocator`).
    """
    if device.type == "cuda":
        return -(-size // _CUDA_BLOCK_BYTES) * _CUDA_BLOCK_BYTES
    return size


@dataclass(frozen=True)
class Allocation:
    """What a call allocated.

    Parameters
    ----------
    peak_bytes : int
        Largest number of bytes held above those at its start.
    result_bytes : int
        Bytes of the storages of the tensors it returned.
    """

    peak_bytes: int
    result_bytes: int


def allocations(calls: Iterable[Callable[[], Any]], device: torch.device) -> list[Allocation]:
    """Run calls one after the other and watch the allocator of ``device``, operators' workspaces included.

    On CUDA the peak counter is reset before each call; on CPU the profiler's allocation events are
    added up, since PyTorch keeps no counter there. Results are dropped before the next call.
    """
    gc.collect()
    return _cuda_allocations(calls, device) if device.type == "cuda" else _cpu_allocations(calls)


def _cuda_allocations(calls: Iterable[Callable[[], Any]], device: torch.device) -> list[Allocation]:
    found = []
    for call in calls:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        size = _storage_bytes(call(), device)
        torch.cuda.synchronize(device)
        found.append(Allocation(torch.cuda.max_memory_allocated(device) - before, size))
    return found


def _cpu_allocations(calls: Iterable[Callable[[], Any]]) -> list[Allocation]:
    sizes = []
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        for call in calls:
            with record_function(_MARK):
                value = call()
            sizes.append(_storage_bytes(value, torch.device("cpu")))
            del value
    return [Allocation(peak, size) for peak, size in zip(_peaks(record), sizes, strict=True)]


def _storage_bytes(value: Any, device: torch.device) -> int:
    found = {
        t.untyped_storage()._cdata: allocated_bytes(t.untyped_storage().nbytes(), t.device)
        for t in tree_leaves(value)
        if isinstance(t, torch.Tensor) and t.layout is torch.strided and t.device == device
    }
    return sum(found.values())


def _peaks(record: Any) -> list[int]:
    """Peak of each marked stretch."""
    return [max((held for _, held in levels), default=0) for levels in _levels(record, torch.device("cpu"))]


def _levels(record: Any, device: torch.device) -> list[list[tuple[int, int]]]:
    """For each marked stretch, nanoseconds since its start and bytes held above those at its start.

    From the allocations (positive) and returns (negative) on ``device`` in the order of time.
    """

    def walk(event: Any) -> Iterator[Any]:
        yield event
        for child in event.children:
            yield from walk(child)

    events = [e for root in record.profiler.kineto_results.experimental_event_tree() for e in walk(root)]
    marks = sorted((e.start_time_ns, e.end_time_ns) for e in events if e.name == _MARK)
    changes = deque(
        sorted(
            (
                (e.start_time_ns, e.extra_fields.alloc_size)
                for e in events
                if e.tag == _EventType.Allocation and e.extra_fields.device.type == device.type
            ),
            key=lambda change: change[0],
        )
    )
    found = []
    for start, end in marks:
        held, levels = 0, [(0, 0)]
        while changes and changes[0][0] <= end:
            at, size = changes.popleft()
            if at >= start:
                held += size
                levels.append((at - start, held))
        found.append([*levels, (end - start, held)])
    return found


def allocation_curve(call: Callable[[], Any], device: torch.device) -> list[tuple[float, int]]:
    """Run a call and return seconds since its start with the bytes held above those at its start.

    The profiler that watches slows the call down.
    """
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        with record_function(_MARK):
            value = call()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        del value
    (levels,) = _levels(record, device)
    return [(at / 1e9, held) for at, held in levels]


def seconds_of(call: Callable[[], Any], device: torch.device) -> float:
    """Seconds from calling until the device has finished the work."""
    if device.type != "cuda":
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    with torch.cuda.device(device):
        start_event.record()
        call()
        end_event.record()
        end_event.synchronize()
    return float(start_event.elapsed_time(end_event)) / 1000


def describe(device: torch.device) -> str:
    """The device in words, e.g. ``cpu: x86_64, 2 threads``."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    if device.type == "cpu":
        return f"cpu: {platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
    return str(device)
