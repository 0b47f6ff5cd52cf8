"""The replay of CUDA's caching allocator, on sequences worked out by hand and on random ones."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from rematopt import explain, solve
from rematopt.allocator import MIB, CachingAllocator
from rematopt.graph import Data, Graph, Op, Phase, Signature, StaticBytes
from rematopt.profile import Profile, Timing
from rematopt.reserved import reserved_of, static_sizes
from tests.rematopt.conftest import chain


@pytest.mark.parametrize(
    ("size", "allocated", "reserved"),
    [
        (1, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        # What is left of an own segment is at most 1 MiB and handed out with the block where it is not more.
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),
        (11 * MIB - 512, 11 * MIB - 512, 12 * MIB),
        (0, 0, 0),
    ],
)
def test_a_single_request(size: int, allocated: int, reserved: int) -> None:
    allocator = CachingAllocator()
    allocator.allocate(size)
    assert (allocator.allocated_bytes, allocator.reserved_peak) == (allocated, reserved)


def test_a_freed_block_is_handed_out_again_best_fit_first() -> None:
    allocator = CachingAllocator()
    large, gap, small, _end = (allocator.allocate(n * MIB) for n in (40, 16, 20, 16))
    allocator.free(large)
    allocator.free(small)
    assert allocator.allocate(20 * MIB) is small
    assert allocator.allocate(30 * MIB) is large
    assert large is not None
    assert large.size == 30 * MIB
    assert gap is not None
    assert allocator.reserved_peak == 92 * MIB


def test_neighbours_merge_within_a_segment_only() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.allocate(5 * MIB) for _ in range(4)]
    assert allocator.reserved_peak == 20 * MIB
    for i in (0, 2, 1, 3):
        allocator.free(blocks[i])
    allocator.allocate(20 * MIB)
    assert allocator.reserved_peak == 20 * MIB
    other = CachingAllocator()
    first, second = other.allocate(20 * MIB), other.allocate(20 * MIB)
    other.free(first)
    other.free(second)
    other.allocate(40 * MIB)
    assert other.reserved_peak == 80 * MIB


def test_expandable_segments_grow_by_what_is_missing() -> None:
    allocator = CachingAllocator(expandable=True)
    first, second = allocator.allocate(20 * MIB), allocator.allocate(20 * MIB)
    allocator.free(first)
    allocator.free(second)
    allocator.allocate(40 * MIB)
    assert allocator.reserved_peak == 40 * MIB
    allocator.allocate(10 * MIB)
    assert allocator.reserved_peak == 60 * MIB
    allocator.allocate(11 * MIB)
    assert allocator.reserved_peak == 80 * MIB


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_reserved_is_never_below_allocated_and_blocks_never_overlap(seed: int, expandable: bool) -> None:
    draw = random.Random(seed)
    allocator = CachingAllocator(expandable=expandable)
    held = []
    for _ in range(400):
        if held and draw.random() < 0.45:
            allocator.free(held.pop(draw.randrange(len(held))))
        else:
            held.append(allocator.allocate(int(2 ** draw.uniform(3, 26))))
        assert allocator.allocated_bytes == sum(block.size for block in held)
        assert allocator.reserved_peak >= allocator.allocated_peak >= allocator.allocated_bytes
        stretches = sorted((block.address, block.address + block.size) for block in held)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(stretches))
    for block in held:
        allocator.free(block)
    assert allocator.allocated_bytes == 0
    whole = [sum(b.size for b in pool.free) for pool in (allocator._small, allocator._large)]
    assert sum(whole) == allocator.reserved_peak


def test_a_schedule_reserves_at_least_its_peak() -> None:
    graph = chain(layers=8, size=3 * MIB, static=MIB)
    for limit in ("100%", "min"):
        schedule = solve(graph, limit, time_limit=2)
        found = reserved_of(graph, schedule.steps)
        assert found.reserved_bytes >= found.allocated_bytes >= schedule.peak_bytes
        assert found.expandable_bytes >= found.allocated_bytes
        assert 0 <= found.fragmentation < 1


def test_static_memory_is_shared_out_over_the_parameters() -> None:
    signature = Signature(parameters=("w float32[4, 8] trained", "b bfloat16[8] trained", "n int64[] buffer"))
    static = StaticBytes(parameters=144, optimizer=2 * 144 + 8, buffers=8)
    graph = Graph(ops=(), data=(), static=static, signature=signature)
    assert static_sizes(graph) == [128, 16, 128, 16, 128, 16, 8, 8]
    assert sum(static_sizes(graph)) == static.total


def growing(count: int) -> Graph:
    """Ops each of which turns a tensor into a slightly larger one."""
    ops = [
        Op(
            name=f"f{i}",
            target="aten.cat.default",
            phase=Phase.FORWARD,
            inputs=(i - 1,) if i else (),
            outputs=(i,),
        )
        for i in range(count)
    ]
    data = [Data(bytes=(20 + 2 * i) * MIB, producer=i) for i in range(count)]
    return Graph(ops=tuple(ops), data=tuple(data))


def test_advice_names_expandable_segments_where_they_help() -> None:
    graph = growing(12)
    profile = Profile(graph=graph, device="cuda: test", versions={}, timings=(Timing.MODELLED,) * len(graph.ops))
    found = explain(profile, limits=0)
    assert found.reserved is not None
    assert found.reserved.expandable_bytes < 0.8 * found.reserved.reserved_bytes
    assert any("expandable_segments:True" in text for text in found.advice)
    assert explain(replace(profile, device="cpu: test"), limits=0).reserved is None
