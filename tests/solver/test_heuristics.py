"""What holds for every heuristic: valid, under the limit, never better than the optimum."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rematopt.graph import Graph
from rematopt.solver.bounds import peak_floor
from rematopt.solver.neighbourhood import improve
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem, SolveResult, Strategy
from rematopt.solver.registry import create
from rematopt.solver.result import unplanned
from rematopt.solver.sequence import first_runs
from tests.solver.networks import resnet, transformer
from tests.solver.oracle import staged_optimum
from tests.solver.random_graphs import graphs

HEURISTICS = ("greedy", "chain", "chen-sqrt", "chen-greedy", "revolve")


def limit_between(graph: Graph, share: float) -> int:
    """A limit at ``share`` of the way from the structural floor to the unplanned peak."""
    low, high = peak_floor(graph).bytes, unplanned(graph).peak_bytes
    return low + round(share * (high - low))


def solve(strategy: Strategy, problem: Problem, time_limit: float = 10.0) -> SolveResult:
    """Solve and check what any result promises."""
    result = strategy.solve(problem, time_limit)
    if result.schedule is not None:
        assert result.schedule.peak_bytes <= problem.limit_bytes
        assert result.objective == pytest.approx(sum(problem.graph.ops[i].seconds for i in result.schedule.runs))
        assert result.objective >= problem.graph.seconds * (1 - 1e-9)
    return result


@pytest.mark.parametrize("name", HEURISTICS)
@settings(max_examples=40, deadline=None)
@given(graph=graphs(max_ops=8), share=st.floats(0, 1))
def test_no_heuristic_beats_the_optimum(name: str, graph: Graph, share: float) -> None:
    problem = Problem(graph=graph, limit_bytes=limit_between(graph, share))
    result = solve(create(name), problem)
    assume(result.schedule is not None)
    assert result.objective >= staged_optimum(graph, problem.limit_bytes) - 1e-9


@settings(max_examples=40, deadline=None)
@given(graph=graphs(max_ops=20))
def test_greedy_keeps_the_unplanned_step_where_it_fits(graph: Graph) -> None:
    problem = Problem(graph=graph, limit_bytes=unplanned(graph).peak_bytes)
    result = solve(create("greedy"), problem)
    assert result.schedule is not None
    assert list(result.schedule.runs) == list(first_runs(graph))


@settings(max_examples=40, deadline=None)
@given(graph=graphs(max_ops=8), share=st.floats(0, 1))
def test_local_search_never_returns_a_worse_schedule(graph: Graph, share: float) -> None:
    problem = Problem(graph=graph, limit_bytes=limit_between(graph, share))
    start = solve(create("greedy"), problem)
    assume(start.schedule is not None)
    assert start.schedule is not None
    runs = improve(problem, list(start.schedule.runs), deadline=time.perf_counter() + 0.02)
    plan = Plan.from_runs(graph, runs)
    assert plan.peak_bytes <= problem.limit_bytes
    assert graph.seconds + plan.seconds <= start.objective + 1e-9


@pytest.mark.parametrize("graph", [transformer(4), resnet((1, 2, 2, 1))], ids=["transformer", "resnet"])
def test_greedy_comes_close_to_the_floor_of_layered_networks(graph: Graph) -> None:
    problem = Problem(graph=graph, limit_bytes=limit_between(graph, 0.06))
    result = solve(create("greedy"), problem)
    assert result.schedule is not None
    assert result.schedule.overhead < 0.5


def test_greedy_time_rises_gently_as_the_limit_falls() -> None:
    graph = transformer(6)
    overheads = []
    for share in (0.9, 0.7, 0.5, 0.3):
        schedule = solve(create("greedy"), Problem(graph=graph, limit_bytes=limit_between(graph, share))).schedule
        assert schedule is not None
        overheads.append(schedule.overhead)
    assert overheads == sorted(overheads)
    assert overheads[-1] < 0.25


def test_local_search_improves_on_greedy_under_a_tight_limit() -> None:
    graph = transformer(2)
    problem = Problem(graph=graph, limit_bytes=round(0.4 * unplanned(graph).peak_bytes))
    greedy = solve(create("greedy"), problem)
    local = solve(create("local-search"), problem, 4.0)
    assert local.objective < greedy.objective * (1 - 1e-3)


def test_the_search_stops_when_it_is_asked_to() -> None:
    graph = transformer(2)
    problem = Problem(graph=graph, limit_bytes=limit_between(graph, 0.4))
    start = solve(create("greedy"), problem)
    assert start.schedule is not None
    began = time.perf_counter()
    asked = iter((False, False, True))
    runs = improve(problem, list(start.schedule.runs), deadline=began + 20.0, poll=lambda: next(asked))
    assert time.perf_counter() - began < 10.0
    assert Plan.from_runs(graph, runs).peak_bytes <= problem.limit_bytes
