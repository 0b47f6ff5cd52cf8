"""The exact strategy against brute force, through both writers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rematopt.graph import Data, Graph, Kind, Op, Phase, Recompute
from rematopt.schedule import Status
from rematopt.simulator import simulate
from rematopt.solver.bounds import peak_floor
from rematopt.solver.milp import Milp
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.result import unplanned
from rematopt.solver.write_highs import to_highs
from rematopt.solver.write_pulp import to_highs_through_pulp
from tests.solver.oracle import free_optimum, staged_optimum
from tests.solver.random_graphs import graphs
from tests.solver.vgg import vgg16

SECONDS = 30.0


def limits(graph: Graph, tenths: int) -> int:
    """A limit so many tenths of the way from the floor to the unplanned peak; below the floor for -1."""
    floor = peak_floor(graph).bytes
    return max(0, floor + tenths * (unplanned(graph).peak_bytes - floor) // 10)


def check(problem: Problem, result: SolveResult, optimum: float) -> None:
    if optimum == float("inf"):
        assert result.status is Status.INFEASIBLE
        assert result.schedule is None
        return
    assert result.status is Status.OPTIMAL
    assert result.schedule is not None
    assert result.objective == pytest.approx(optimum)
    assert result.bound == pytest.approx(optimum)
    simulation = simulate(problem.graph, result.schedule.steps)
    assert simulation.peak_bytes == result.schedule.peak_bytes <= problem.limit_bytes
    assert simulation.seconds == pytest.approx(optimum)


@pytest.mark.parametrize("writer", [to_highs, to_highs_through_pulp])
@given(graph=graphs(max_ops=9), tenths=st.integers(0, 9))
@settings(max_examples=200, deadline=None)
def test_equals_brute_force(writer, graph, tenths):
    problem = Problem(graph=graph, limit_bytes=limits(graph, tenths))
    optimum = staged_optimum(graph, problem.limit_bytes)
    check(problem, Milp(writer=writer).solve(problem, SECONDS), optimum)


@given(graph=graphs(max_ops=7, training=True), tenths=st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_equals_brute_force_when_backward_ops_may_run_again(graph, tenths):
    problem = Problem(graph=graph, limit_bytes=limits(graph, tenths))
    optimum = staged_optimum(graph, problem.limit_bytes, everywhere=True)
    check(problem, Milp(everywhere=True, writer=to_highs).solve(problem, SECONDS), optimum)


@given(graph=graphs(max_ops=6), tenths=st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_is_never_better_than_free_order_of_repeats(graph, tenths):
    limit = limits(graph, tenths)
    assert free_optimum(graph, limit) <= staged_optimum(graph, limit)


@given(graph=graphs(max_ops=9), tenths=st.integers(0, 9), window=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_a_window_is_valid_and_never_better_than_exact(graph, tenths, window):
    problem = Problem(graph=graph, limit_bytes=limits(graph, tenths))
    windowed = Milp(window=window, writer=to_highs).solve(problem, SECONDS)
    assert windowed.objective >= staged_optimum(graph, problem.limit_bytes) - 1e-6
    assert windowed.status is not Status.INFEASIBLE
    if windowed.schedule is not None:
        assert windowed.schedule.peak_bytes <= problem.limit_bytes


@given(graph=graphs(max_ops=9), tenths=st.integers(0, 8))
@settings(max_examples=50, deadline=None)
def test_more_memory_is_never_slower(graph, tenths):
    tight, loose = (Milp(writer=to_highs).solve(Problem(graph=graph, limit_bytes=limits(graph, t)), SECONDS)
                    for t in (tenths, tenths + 1))  # fmt: skip
    assert loose.objective <= tight.objective + 1e-6


def reversed_data(graph: Graph) -> Graph:
    """The same graph with its data numbered backwards."""
    last = len(graph.data) - 1
    ops = tuple(
        replace(op, inputs=tuple(sorted(last - d for d in op.inputs)), outputs=tuple(last - d for d in op.outputs))
        for op in graph.ops
    )
    return replace(graph, ops=ops, data=graph.data[::-1])


@given(graph=graphs(max_ops=9), tenths=st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_numbering_of_data_changes_nothing(graph, tenths):
    results = [
        Milp(writer=to_highs).solve(Problem(graph=g, limit_bytes=limits(graph, tenths)), SECONDS)
        for g in (graph, reversed_data(graph))
    ]
    assert results[0].objective == pytest.approx(results[1].objective)
    assert results[0].status is results[1].status


@given(graph=graphs(max_ops=9), tenths=st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_a_start_changes_no_optimum(graph, tenths):
    problem = Problem(graph=graph, limit_bytes=limits(graph, tenths))
    cold = Milp(writer=to_highs).solve(problem, SECONDS)
    start = list(cold.schedule.runs) if cold.schedule is not None else list(range(len(graph.ops)))
    warm = Milp(writer=to_highs).solve(problem, SECONDS, start=start)
    assert warm.objective == pytest.approx(cold.objective)


def dropout_graph() -> Graph:
    """Dropout between two linear ops: its mask, or its random state, must last until its backward op."""
    forward, backward = Phase.FORWARD, Phase.BACKWARD
    return Graph(
        ops=(
            Op(name="state", target="rng", phase=forward, outputs=(0,), recompute=Recompute.NEVER),
            Op(name="linear", target="mm", phase=forward, outputs=(1,), seconds=5.0),
            Op(name="dropout", target="dropout", phase=forward, inputs=(0, 1), outputs=(2, 3), seconds=1.0,
               recompute=Recompute.RANDOM),
            Op(name="loss", target="sum", phase=forward, inputs=(2,), outputs=(4,), seconds=3.0,
               recompute=Recompute.NEVER),
            Op(name="start", target="big", phase=backward, inputs=(4,), outputs=(5,), seconds=1.0,
               workspace_bytes=90),
            Op(name="dropout_backward", target="mul", phase=backward, inputs=(3, 5), outputs=(6,), seconds=1.0),
            Op(name="linear_backward", target="mm", phase=backward, inputs=(2, 6), outputs=(7,), seconds=1.0),
        ),
        data=(
            Data(bytes=1, producer=0, kind=Kind.RANDOM_STATE),
            Data(bytes=40, producer=1),
            Data(bytes=40, producer=2),
            Data(bytes=10, producer=2),
            Data(bytes=1, producer=3, kind=Kind.OUTPUT),
            Data(bytes=4, producer=4, kind=Kind.TEMPORARY),
            Data(bytes=4, producer=5, kind=Kind.TEMPORARY),
            Data(bytes=4, producer=6, kind=Kind.GRADIENT),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        (145, 12.0),  # mask and output wait through the largest op
        (136, 13.0),  # the input and the random state wait: dropout runs again
        (135, 18.0),  # only the random state waits: linear and dropout run again
        (96, 18.0),
        (95, float("inf")),
    ],
)
def test_dropout_is_replayed_from_its_random_state(limit, seconds):
    graph = dropout_graph()
    assert staged_optimum(graph, limit) == seconds
    problem = Problem(graph=graph, limit_bytes=limit)
    check(problem, Milp().solve(problem, SECONDS), seconds)


@pytest.mark.parametrize("share", [0.9, 0.6, 0.3])
def test_vgg16_is_proved_optimal(share):
    graph = vgg16()
    floor, top = peak_floor(graph).bytes, unplanned(graph).peak_bytes
    problem = Problem(graph=graph, limit_bytes=int(floor + share * (top - floor)))
    start = Milp(window=8, gap=0.002).solve(problem, SECONDS)
    assert start.schedule is not None
    result = Milp().solve(problem, 60.0, start=list(start.schedule.runs))
    assert result.status is Status.OPTIMAL
    assert result.objective <= start.objective


def test_a_time_limit_that_is_too_short_is_no_proof():
    graph = vgg16()
    problem = Problem(graph=graph, limit_bytes=peak_floor(graph).bytes)
    result = Milp().solve(problem, 1e-3)
    assert result.status is Status.TIME_LIMIT
    assert result.bound == pytest.approx(graph.seconds)
