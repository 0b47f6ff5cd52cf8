"""Cut points, blocks and the dynamic program over them."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings

from rematopt.graph import Graph
from rematopt.solver.chain import ChainOfBlocks
from rematopt.solver.cutpoints import block_starts, passing_bytes
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem
from rematopt.solver.registry import create
from rematopt.solver.segments import forward_length
from tests.solver.chains import unit_chain
from tests.solver.networks import resnet, transformer
from tests.solver.random_graphs import graphs


@settings(max_examples=60, deadline=None)
@given(graph=graphs(max_ops=15))
def test_passing_bytes_are_what_later_forward_ops_read(graph: Graph) -> None:
    length = forward_length(graph)
    for b, passing in enumerate(passing_bytes(graph, length)):
        expected = sum(
            item.bytes
            for item, readers in zip(graph.data, graph.consumers, strict=True)
            if item.producer < b and any(b <= i < length for i in readers)
        )
        assert passing == expected


@pytest.mark.parametrize("graph", [transformer(8), resnet(), unit_chain(200)], ids=["transformer", "resnet", "chain"])
def test_blocks_follow_each_other_and_keep_their_size(graph: Graph) -> None:
    starts = [*block_starts(graph, graph.forward_count), graph.forward_count]
    sizes = [end - start for start, end in pairwise(starts)]
    assert starts[0] == 0
    assert min(sizes) >= 1
    assert max(sizes) <= 40


def test_layers_of_a_transformer_are_recognised_as_the_same_block() -> None:
    chain = ChainOfBlocks(transformer(6, dropout=False), time.perf_counter() + 20)
    assert len(chain.blocks) >= 6
    assert len({block.signature for block in chain.blocks}) <= 5


def test_every_option_keeps_what_it_says() -> None:
    chain = ChainOfBlocks(transformer(2), time.perf_counter() + 20)
    for block, options in zip(chain.blocks, chain.options, strict=True):
        unplanned = Plan(block.graph)
        assert options[0].seconds == 0
        for option in options:
            assert sum(block.graph.data[d].bytes for d in option.saved) <= option.saved_bytes
            assert option.saved_bytes <= unplanned.level[block.turn]
            assert option.seconds == pytest.approx(sum(block.graph.ops[i].seconds for i, _ in option.again))


@pytest.mark.parametrize("share", [0.8, 0.5, 0.3])
def test_the_program_foresees_the_peak_of_a_deep_transformer(share: float) -> None:
    graph = transformer(8)
    limit = round(share * Plan(graph).peak_bytes)
    plan = ChainOfBlocks(graph, time.perf_counter() + 20).plan(limit)
    assert plan is not None
    assert plan.peak_bytes <= 1.05 * limit


@pytest.mark.parametrize("share", [0.7, 0.45])
@pytest.mark.parametrize("graph", [transformer(5), resnet((1, 2, 2, 1))], ids=["transformer", "resnet"])
def test_chain_is_near_the_greedy_and_far_from_running_everything_twice(graph: Graph, share: float) -> None:
    problem = Problem(graph=graph, limit_bytes=round(share * Plan(graph).peak_bytes))
    chain, greedy = (create(name).solve(problem, 20.0) for name in ("chain", "greedy"))
    assert chain.schedule is not None
    assert chain.schedule.peak_bytes <= problem.limit_bytes
    assert chain.objective <= 1.04 * greedy.objective


def test_several_levels_reverse_a_long_chain_in_little_memory() -> None:
    graph = unit_chain(150)
    # Running every op twice at most needs the square root of twice the length, which is 17.
    problem = Problem(graph=graph, limit_bytes=10 * 13)
    schedule = create("chain").solve(problem, 5.0).schedule
    assert schedule is not None
    assert schedule.peak_bytes <= problem.limit_bytes
    assert max(sum(run == i for run in schedule.runs) for i in range(150)) > 2
