"""The bound on the time: never above the optimum, whatever the periods, and close to it in the end."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rematopt.graph import Graph, Op, Phase
from rematopt.solver import tighten
from rematopt.solver.bounds import peak_floor
from rematopt.solver.grid import grid_for
from rematopt.solver.problem import Problem
from rematopt.solver.registry import create
from rematopt.solver.result import unplanned
from rematopt.solver.stages import staged
from rematopt.solver.tighten import Tightening
from tests.solver.networks import transformer
from tests.solver.oracle import staged_optimum
from tests.solver.random_graphs import graphs


def limited(graph: Graph, tenths: int) -> Problem:
    floor = peak_floor(graph).bytes
    return Problem(graph=graph, limit_bytes=floor + tenths * (unplanned(graph).peak_bytes - floor) // 10)


def soon() -> float:
    return time.perf_counter() + 30.0


@pytest.fixture(params=[None, 0, 1])
def near(request, monkeypatch):
    """Periods of one stage, or long ones that have to be refined."""
    if request.param is not None:
        monkeypatch.setattr(tighten, "NEARNESS", (request.param,))
    return request.param


@pytest.mark.usefixtures("near")
@given(graph=graphs(max_ops=9), tenths=st.integers(0, 10))
@settings(max_examples=100, deadline=None)
def test_no_schedule_takes_less_than_any_of_its_bounds(graph, tenths):
    problem = limited(graph, tenths)
    optimum = staged_optimum(graph, problem.limit_bytes)
    if optimum == float("inf"):
        return
    search = Tightening(problem)
    bound = search.bound
    assert bound == graph.seconds
    while search.step(soon()):
        assert bound <= search.bound <= optimum + 1e-6
        bound = search.bound
    assert search.finished
    assert search.bound <= optimum + 1e-6


def test_cuts_close_much_of_what_the_relaxation_leaves_open():
    graph = transformer(1)
    problem = limited(graph, 4)
    search = Tightening(problem)
    search.step(soon())
    relaxed = search.bound - graph.seconds
    further = search.run(soon()) - graph.seconds
    best = create("milp").solve(problem, 20.0).objective - graph.seconds
    assert relaxed < further <= best * (1 + 1e-9)
    assert best - further < 0.7 * (best - relaxed)


@given(graph=graphs(max_ops=9), near=st.integers(0, 3), hot=st.sets(st.integers(0, 9)))
@settings(max_examples=50, deadline=None)
def test_periods_cover_every_stage_in_which_an_op_may_run_again(graph, near, hot):
    stages = staged(graph)
    grid = grid_for(stages, near)
    for now in (grid, grid.refined([(i, 0) for i in grid.periods], hot)):
        found = {
            i: [k for first, last in periods for k in range(first, last + 1)] for i, periods in now.periods.items()
        }
        wanted: dict[int, list[int]] = {}
        for k, again in enumerate(stages.again):
            for i in again:
                wanted.setdefault(i, []).append(k)
        assert found == wanted


def test_no_time_gives_the_unplanned_seconds():
    graph = Graph(ops=(Op(name="a", target="t", phase=Phase.FORWARD, seconds=2.0),), data=())
    assert Tightening(Problem(graph=graph, limit_bytes=1)).run(time.perf_counter()) == 2.0
