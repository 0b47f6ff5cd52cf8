"""The plan's running figures against the simulator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rematopt.graph import Graph
from rematopt.schedule import Compute
from rematopt.simulator import simulate
from rematopt.solver.plan import Plan
from rematopt.solver.sequence import first_runs, steps_from_runs
from tests.solver.random_graphs import graphs


def stage_levels(graph: Graph, plan: Plan) -> list[int]:
    """The largest resident bytes of each stage as the simulator sees them."""
    steps = steps_from_runs(graph, plan.runs)
    resident = simulate(graph, steps).resident_bytes
    computing = [b for step, b in zip(steps, resident, strict=True) if isinstance(step, Compute)]
    levels = []
    for t, again in enumerate(plan.again):
        start = t + sum(map(len, plan.again[:t]))
        levels.append(max(computing[start : start + len(again) + 1]))
    return levels


def check(graph: Graph, plan: Plan) -> None:
    assert plan.level.tolist() == stage_levels(graph, plan)
    assert plan.seconds == pytest.approx(sum(graph.ops[i].seconds for i in plan.runs) - graph.seconds)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.data())
def test_levels_and_seconds_follow_every_change(graph: Graph, data: Any) -> None:
    plan = Plan(graph)
    check(graph, plan)
    marks: list[int] = []
    for _ in range(data.draw(st.integers(1, 8), label="changes")):
        marks.append(plan.mark())
        stage = data.draw(st.sampled_from(range(len(graph.ops))), label="stage")
        earlier = [i for i in range(stage) if not plan.once[i]]
        kind = data.draw(st.sampled_from(["apply", "drop", "rollback"]), label="kind")
        if kind == "apply" and earlier:
            plan.apply(sorted(data.draw(st.sets(st.sampled_from(earlier), max_size=3))), stage)
        elif kind == "drop" and plan.again[stage]:
            plan.drop(data.draw(st.sampled_from(plan.again[stage])), stage)
        elif kind == "rollback":
            mark = data.draw(st.sampled_from(marks))
            plan.rollback(mark)
            marks = [m for m in marks if m <= mark]
        check(graph, plan)
    again = Plan.from_runs(graph, plan.runs)
    assert again.again == plan.again
    assert again.level.tolist() == plan.level.tolist()
    plan.rollback()
    assert plan.runs == list(first_runs(graph))
    assert plan.level.tolist() == Plan(graph).level.tolist()


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_a_sequence_in_another_order_of_first_runs_is_refused(graph: Graph) -> None:
    runs = list(first_runs(graph))
    if len(runs) > 1:
        with pytest.raises(ValueError, match="order of first runs"):
            Plan.from_runs(graph, runs[::-1])
