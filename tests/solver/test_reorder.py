"""Other orders of first runs: valid, tracked exactly, and worth it on wide graphs."""

from __future__ import annotations

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from rematopt.graph import Data, Graph, Op, Phase
from rematopt.solver.bounds import peak_floor
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem
from rematopt.solver.registry import create
from rematopt.solver.reorder import _Order, permuted, reordered
from rematopt.solver.result import unplanned
from tests.solver.random_graphs import graphs


def wide_graph(branches: int) -> Graph:
    """Branches that swell and shrink again; the given order runs all first halves before the second halves."""
    ops, data = [], []
    for half in range(2):
        for b in range(branches):
            inputs = (b,) if half else ()
            ops.append(
                Op(name=f"h{half}b{b}", target="x", phase=Phase.FORWARD, inputs=inputs, outputs=(len(data),), seconds=1)
            )
            data.append(Data(bytes=1 if half else 100, producer=len(ops) - 1))
    ops.append(
        Op(
            name="join",
            target="x",
            phase=Phase.FORWARD,
            inputs=tuple(range(branches, 2 * branches)),
            outputs=(len(data),),
            seconds=1,
        )
    )
    data.append(Data(bytes=1, producer=len(ops) - 1))
    return Graph(ops=tuple(ops), data=tuple(data))


@settings(max_examples=60, deadline=None)
@given(graph=graphs(max_ops=14), seed=st.integers(0, 1000))
def test_levels_follow_every_move(graph: Graph, seed: int) -> None:
    order = _Order(Problem(graph=graph, limit_bytes=peak_floor(graph).bytes))
    rng = random.Random(seed)
    for temperature in (0.0, 5.0, 1e9, 0.0) * 3:
        order.try_move(rng, temperature)
        there = permuted(graph, [int(i) for i in order.ops])
        levels = Plan(there).level - graph.static.total
        assert order.level.tolist() == levels.tolist()
        assert order.excess == Plan(there).excess(order.limit + graph.static.total)


@settings(max_examples=30, deadline=None)
@given(graph=graphs(max_ops=10), share=st.floats(0, 1))
def test_schedules_on_another_order_are_valid_and_within_the_limit(graph: Graph, share: float) -> None:
    low, high = peak_floor(graph).bytes, unplanned(graph).peak_bytes
    problem = Problem(graph=graph, limit_bytes=low + round(share * (high - low)))
    result = create("reorder").solve(problem, 0.05)
    if result.schedule is not None:
        assert result.schedule.peak_bytes <= problem.limit_bytes


def test_order_alone_is_enough_where_branches_may_finish_one_by_one() -> None:
    graph = wide_graph(10)
    limit = unplanned(graph).peak_bytes // 3
    problem = Problem(graph=graph, limit_bytes=limit)
    there = permuted(graph, reordered(problem, time.perf_counter() + 5.0))
    assert unplanned(there).peak_bytes <= limit
    schedule = create("reorder").solve(problem, 5.0).schedule
    assert schedule is not None
    assert schedule.recomputed == 0
    given_order = create("greedy").solve(problem, 5.0)
    assert given_order.schedule is None or given_order.schedule.recomputed > 0
