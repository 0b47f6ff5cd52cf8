"""The entry point: limits as people write them, refusals, and what a schedule says about itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rematopt.errors import InfeasibleLimitError, InvalidInputError
from rematopt.graph import Graph
from rematopt.profile import Profile
from rematopt.schedule import Status
from rematopt.simulator import simulate
from rematopt.solver import STRATEGIES, Progress, create, solve
from rematopt.solver.bounds import peak_floor
from rematopt.solver.problem import Problem
from rematopt.solver.result import unplanned
from tests.solver.oracle import staged_optimum
from tests.solver.random_graphs import graphs
from tests.solver.vgg import vgg16


@pytest.fixture(scope="module")
def graph() -> Graph:
    return vgg16()


def test_every_strategy_is_created_by_its_name():
    for name in STRATEGIES:
        assert create(name).name == name


def test_an_unknown_strategy_is_refused_with_the_names():
    with pytest.raises(InvalidInputError, match=r"'magic'.*auto, milp"):
        create("magic")


WIDER = {"checkmate", "reorder"}
"""Strategies that search more than the staged form: backward ops again, or another order."""


@pytest.mark.parametrize("name", list(STRATEGIES))
@given(graph=graphs(max_ops=8), tenths=st.integers(0, 10))
@settings(max_examples=8, deadline=None)
def test_no_strategy_beats_brute_force_or_breaks_the_limit(name, graph, tenths):
    floor = peak_floor(graph).bytes
    limit = floor + tenths * (unplanned(graph).peak_bytes - floor) // 10
    result = create(name).solve(Problem(graph=graph, limit_bytes=limit), 0.2)
    optimum = staged_optimum(graph, limit)
    assert result.bound <= optimum + 1e-6
    assert name in WIDER or result.objective >= optimum - 1e-6
    if result.schedule is None:
        assert result.status in (Status.TIME_LIMIT, Status.INFEASIBLE)
        assert result.status is Status.TIME_LIMIT or optimum == float("inf")
        return
    assert simulate(graph, result.schedule.steps).peak_bytes <= limit
    assert result.schedule.strategy in STRATEGIES
    assert (result.status is Status.OPTIMAL) == (result.schedule.gap < 1e-9)


@pytest.mark.parametrize("limit", ["80%", 0.8])
def test_a_share_refers_to_the_unplanned_peak(graph, limit):
    schedule = solve(graph, limit)
    assert schedule.limit_bytes == int(0.8 * schedule.unplanned_peak_bytes)
    assert schedule.peak_bytes <= schedule.limit_bytes
    assert schedule.fingerprint == graph.fingerprint
    assert schedule.gap <= 0.01


def test_a_profile_is_solved_as_its_graph(graph):
    profile = Profile(graph=graph, device="cpu", versions={}, timings=())
    assert solve(profile, "90%").seconds == solve(graph, "90%").seconds


def test_min_finds_a_limit_that_cannot_be_lowered(graph):
    schedule = solve(graph, "min", time_limit=8)
    assert schedule.smallest_limit_bytes == schedule.limit_bytes >= peak_floor(graph).bytes
    assert schedule.peak_bytes <= schedule.smallest_limit_bytes
    with pytest.raises(InfeasibleLimitError) as refusal:
        solve(graph, peak_floor(graph).bytes - 1, time_limit=10)
    assert refusal.value.smallest_limit_bytes == schedule.smallest_limit_bytes
    assert graph.ops[peak_floor(graph).op].name in str(refusal.value)
    assert str(schedule.smallest_limit_bytes) in str(refusal.value)


def test_a_weak_strategy_that_fails_points_to_auto(graph):
    with pytest.raises(InfeasibleLimitError, match=r"store-all finds no schedule.*use strategy 'auto'"):
        solve(graph, "90%", strategy="store-all", time_limit=5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"memory_limit": "-5GiB"}, "memory limit"),
        ({"memory_limit": "lots"}, "memory limit"),
        ({"memory_limit": 0}, "memory limit"),
        ({"memory_limit": "90%", "time_limit": 0}, "time limit"),
        ({"memory_limit": "90%", "gap": -1}, "gap"),
        ({"memory_limit": "90%", "strategy": "magic"}, "magic"),
    ],
)
def test_unusable_arguments_are_named(graph, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        solve(graph, **arguments)


def test_a_graph_without_ops_is_refused():
    with pytest.raises(InvalidInputError, match="no ops"):
        solve(Graph(ops=(), data=()), "90%")


def test_progress_is_told_in_order(graph):
    told: list[Progress] = []
    schedule = solve(graph, "75%", gap=0.0, progress=told.append)
    assert told[-1].seconds == schedule.seconds
    assert told[-1].bound == pytest.approx(schedule.bound_seconds)
    for earlier, later in pairwise(told):
        assert later.elapsed >= earlier.elapsed
        assert later.seconds <= earlier.seconds
        assert later.gap <= earlier.gap


def test_ctrl_c_gives_the_best_schedule_so_far(graph):
    def interrupt(progress: Progress) -> None:
        if progress.seconds < float("inf"):
            raise KeyboardInterrupt

    schedule = solve(graph, "75%", gap=0.0, progress=interrupt)
    assert schedule.status is Status.FEASIBLE
    assert schedule.peak_bytes <= int(0.75 * schedule.unplanned_peak_bytes)
