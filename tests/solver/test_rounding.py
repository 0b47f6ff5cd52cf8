"""Two-phase rounding: its schedules fit, its bound is one, and it is near the optimum on layered networks."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rematopt.graph import Graph
from rematopt.solver.bounds import peak_floor
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem
from rematopt.solver.registry import create
from rematopt.solver.result import unplanned
from tests.solver.networks import transformer
from tests.solver.oracle import staged_optimum
from tests.solver.random_graphs import graphs


@settings(max_examples=40, deadline=None)
@given(graph=graphs(max_ops=8), share=st.floats(0, 1))
def test_schedules_fit_and_the_bound_holds(graph: Graph, share: float) -> None:
    low, high = peak_floor(graph).bytes, unplanned(graph).peak_bytes
    problem = Problem(graph=graph, limit_bytes=low + round(share * (high - low)))
    optimum = staged_optimum(graph, problem.limit_bytes)
    result = create("lp-rounding").solve(problem, 10.0)
    assert result.bound <= optimum + 1e-6
    assume(result.schedule is not None)
    assert result.schedule is not None
    assert result.schedule.peak_bytes <= problem.limit_bytes
    assert result.objective >= optimum - 1e-9


@pytest.mark.parametrize("share", [0.9, 0.8])
def test_rounding_is_near_its_bound_on_a_transformer(share: float) -> None:
    graph = transformer(1)
    problem = Problem(graph=graph, limit_bytes=round(share * Plan(graph).peak_bytes))
    schedule = create("lp-rounding").solve(problem, 20.0).schedule
    assert schedule is not None
    assert schedule.gap < 0.02
