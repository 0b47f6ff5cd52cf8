"""The memory that a GPU must have for a schedule: what the caching allocator reserves for it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rematopt.allocator import Block, CachingAllocator
from rematopt.graph import Graph
from rematopt.schedule import Compute, Step

_WIDTHS = {"bool": 1, "float8": 1, "bfloat16": 2, "complex64": 8, "complex128": 16}


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """Memory of a schedule as the allocator takes it from the device.

    Parameters
    ----------
    allocated_bytes : int
        Peak of the blocks handed out.
    reserved_bytes : int
        Peak of the segments taken, which the device must have.
    expandable_bytes : int
        The same with expandable segments.
    """

    allocated_bytes: int
    reserved_bytes: int
    expandable_bytes: int

    @property
    def fragmentation(self) -> float:
        """Share of the reserved bytes that no block uses at the peak."""
        return 1 - self.allocated_bytes / self.reserved_bytes if self.reserved_bytes else 0.0


def reserved_of(graph: Graph, steps: Sequence[Step]) -> Reserved:
    """Replay a schedule on the caching allocator.

    Parameters
    ----------
    graph : Graph
        The graph.
    steps : sequence of Compute or Free
        A valid schedule of it.
    """
    plain, expandable = (_replayed(graph, steps, expandable=flag) for flag in (False, True))
    return Reserved(
        allocated_bytes=plain.allocated_peak,
        reserved_bytes=plain.reserved_peak,
        expandable_bytes=expandable.reserved_peak,
    )


def _replayed(graph: Graph, steps: Sequence[Step], *, expandable: bool) -> CachingAllocator:
    allocator = CachingAllocator(expandable=expandable)
    for size in static_sizes(graph):
        allocator.allocate(size)
    alive: dict[int, Block | None] = {}
    for step in steps:
        if not isinstance(step, Compute):
            allocator.free(alive.pop(step.data))
            continue
        op = graph.ops[step.op]
        made = {d: allocator.allocate(graph.data[d].bytes) for d in op.outputs}
        allocator.free(allocator.allocate(op.workspace_bytes))
        for d, block in made.items():
            # An output that is alive already is made a second time and dropped.
            if d in alive:
                allocator.free(block)
            else:
                alive[d] = block
    return allocator


def static_sizes(graph: Graph) -> list[int]:
    """Sizes of the single tensors of static memory, as far as they are known.

    Parameters and buffers are listed in the signature. Optimizer state is shared out over the parameters
    in proportion to their sizes; what remains of any kind counts as one tensor.
    """
    lines = [line for line in graph.signature.parameters if not line.endswith(" buffer")]
    parameters = [size for size in map(_bytes_of, lines) if size]
    total = sum(parameters)
    static = graph.static
    sizes = _filled(parameters, static.parameters)
    for kind in (static.optimizer, static.gradients):
        copies = round(kind / total) if total else 0
        sizes += _filled(parameters * copies, kind)
    return sizes + _filled([], static.buffers) + _filled([], static.inputs)


def _filled(sizes: list[int], total: int) -> list[int]:
    """The sizes if they fit into ``total``, with what is missing as one more."""
    if sum(sizes) > total:
        sizes = []
    rest = total - sum(sizes)
    return [*sizes, rest] if rest else list(sizes)


def _bytes_of(line: str) -> int:
    """Bytes of a parameter from its line in a signature: name, dtype with shape, and use."""
    found = re.search(r" (\w+)\[([\d, ]*)\]", line)
    if found is None:
        return 0
    dtype, shape = found.groups()
    width = next((w for name, w in _WIDTHS.items() if dtype.startswith(name)), None)
    bits = re.search(r"\d+$", dtype)
    width = width or (int(bits.group()) // 8 if bits else 0)
    return width * math.prod(int(size) for size in shape.split(",") if size.strip())
