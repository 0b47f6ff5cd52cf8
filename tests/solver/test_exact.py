"""The other exact formulations against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rematopt.schedule import Status
from rematopt.simulator import simulate
from rematopt.solver.bounds import peak_floor
from rematopt.solver.checkmate import Checkmate
from rematopt.solver.cpsat import CpSat
from rematopt.solver.milp import Milp
from rematopt.solver.problem import Problem
from rematopt.solver.result import unplanned
from tests.solver.oracle import staged_optimum
from tests.solver.random_graphs import graphs
from tests.solver.vgg import vgg16


def problem_at(graph, tenths):
    floor = peak_floor(graph).bytes
    return Problem(graph=graph, limit_bytes=floor + tenths * (unplanned(graph).peak_bytes - floor) // 10)


@given(graph=graphs(max_ops=7), tenths=st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_checkmate_equals_brute_force(graph, tenths):
    problem = problem_at(graph, tenths)
    result = Checkmate().solve(problem, 30.0)
    optimum = staged_optimum(graph, problem.limit_bytes, everywhere=True)
    assert result.objective == pytest.approx(optimum)
    assert result.status is (Status.OPTIMAL if optimum < float("inf") else Status.INFEASIBLE)


@given(graph=graphs(max_ops=8), tenths=st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_cpsat_equals_brute_force_with_copies_enough(graph, tenths):
    problem = problem_at(graph, tenths)
    result = CpSat(copies=len(graph.ops), workers=1).solve(problem, 30.0)
    optimum = staged_optimum(graph, problem.limit_bytes)
    assert result.objective == pytest.approx(optimum)
    assert result.status is (Status.OPTIMAL if optimum < float("inf") else Status.INFEASIBLE)


@given(graph=graphs(max_ops=8), tenths=st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_cpsat_with_two_copies_claims_no_more_than_it_knows(graph, tenths):
    problem = problem_at(graph, tenths)
    result = CpSat(copies=2, workers=1).solve(problem, 30.0)
    optimum = staged_optimum(graph, problem.limit_bytes)
    assert result.bound <= optimum + 1e-6 or optimum == float("inf")
    assert result.objective >= optimum - 1e-6
    if result.schedule is not None:
        assert simulate(graph, result.schedule.steps).peak_bytes <= problem.limit_bytes


def test_cpsat_takes_a_start_and_agrees_with_milp_on_vgg16():
    graph = vgg16()
    problem = problem_at(graph, 5)
    milp = Milp().solve(problem, 60.0)
    assert milp.status is Status.OPTIMAL
    assert milp.schedule is not None
    result = CpSat(copies=3).solve(problem, 20.0, start=list(milp.schedule.runs))
    assert result.objective == pytest.approx(milp.objective)
