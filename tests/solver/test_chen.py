"""Sublinear checkpointing on chains, where its memory and time are known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rematopt.graph import Graph, Phase
from rematopt.solver.problem import Problem
from rematopt.solver.registry import create
from rematopt.solver.segments import Segments, balanced_starts, forward_length
from tests.solver.chains import unit_chain
from tests.solver.networks import resnet, transformer


@pytest.mark.parametrize("length", [16, 25, 64, 100])
def test_square_root_segments_need_twice_the_square_root(length: int) -> None:
    root = math.isqrt(length)
    # One datum handed on by each segment, the data of one segment, and one being produced.
    limit = 10 * (2 * root + 1)
    result = create("chen-sqrt").solve(Problem(graph=unit_chain(length), limit_bytes=limit), 10.0)
    assert result.schedule is not None
    # Every op of all segments but the last runs again, save those whose data are handed on.
    assert result.schedule.seconds - length == (root - 1) * (root - 1)


def test_the_best_of_many_sizes_is_no_worse_than_the_square_root() -> None:
    graph = unit_chain(64)
    problem = Problem(graph=graph, limit_bytes=10 * 17)
    sqrt, greedy = (create(name).solve(problem, 10.0) for name in ("chen-sqrt", "chen-greedy"))
    assert greedy.objective <= sqrt.objective


@pytest.mark.parametrize("weights", [[1.0] * 10, [5.0, 1.0, 1.0, 1.0], [0.0] * 4, [1.0]])
@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_balanced_starts_begin_at_zero_and_rise(weights: list[float], count: int) -> None:
    starts = balanced_starts(weights, count)
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert len(starts) <= count
    assert starts[-1] < len(weights)


@pytest.mark.parametrize("graph", [transformer(2), resnet((1, 1, 1, 1))], ids=["transformer", "resnet"])
def test_the_turn_of_an_imported_graph_is_its_loss(graph: Graph) -> None:
    imported = Graph(ops=tuple(replace(op, phase=Phase.FORWARD) for op in graph.ops), data=graph.data)
    assert abs(forward_length(imported) - graph.forward_count) <= 3


def test_turns_of_segments_come_in_reverse_order() -> None:
    graph = transformer(3)
    segments = Segments(graph, balanced_starts([1.0] * graph.forward_count, 9), graph.forward_count)
    assert segments.stages == sorted(segments.stages, reverse=True)
    for s in range(len(segments)):
        assert all(segments.starts[s] <= i < segments.starts[s + 1] for i in segments.inside(s))
