"""Cuts forbid nothing that a schedule does, in whatever model they are written."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rematopt.graph import Graph
from rematopt.solver.arrays import Floats, Model
from rematopt.solver.bounds import peak_floor
from rematopt.solver.formulation import formulate
from rematopt.solver.problem import Problem
from rematopt.solver.result import unplanned
from rematopt.solver.stages import staged
from rematopt.solver.strengthen import strengthened
from rematopt.solver.tighten import Tightening
from tests.solver.networks import resnet, transformer
from tests.solver.random_graphs import graphs


def tightened(graph: Graph, limit_bytes: int) -> Tightening:
    search = Tightening(Problem(graph=graph, limit_bytes=limit_bytes))
    search.run(time.perf_counter() + 5.0)
    return search


def violation(model: Model, values: Floats) -> float:
    """The most by which a point of a model exceeds the upper bound of a row."""
    entries = model.entry_values * values[model.entry_columns]
    rows = np.add.reduceat(entries, model.row_starts[:-1])
    return float(np.max(rows - model.row_upper, initial=0.0))


def any_runs(graph: Graph, rng: random.Random) -> list[int]:
    """First runs, with a random choice of what may run again before each segment."""
    stages = staged(graph)
    share = rng.random()
    return [slot.op for slot in stages.slots if not slot.again or rng.random() < share]


@pytest.mark.parametrize("make", [lambda: transformer(1), lambda: resnet((1, 1, 1, 1))])
def test_every_choice_of_runs_satisfies_every_cut(make):
    graph = make()
    plain = unplanned(graph).peak_bytes
    limit = (peak_floor(graph).bytes + plain) // 2
    cuts = tightened(graph, limit).cuts
    assert len(cuts) > 20
    # Without a limit in the way, so that every choice of runs is a point of the model.
    form = formulate(staged(graph), 10 * plain)
    cut = strengthened(form, cuts)
    assert len(cut.model.row_lower) == len(form.model.row_lower) + len(cuts)
    rng = random.Random(0)
    for _ in range(200):
        assert violation(cut.model, form.solution(any_runs(graph, rng))) < 1e-9


@given(graph=graphs(max_ops=9), tenths=st.integers(0, 10), seed=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_cuts_of_random_graphs_hold_for_random_runs(graph, tenths, seed):
    floor, plain = peak_floor(graph).bytes, unplanned(graph).peak_bytes
    cuts = tightened(graph, floor + tenths * (plain - floor) // 10).cuts
    form = formulate(staged(graph), 10 * plain)
    rows = strengthened(form, cuts).model
    runs = any_runs(graph, random.Random(seed))
    if len(rows.row_lower) > 0:
        assert violation(rows, form.solution(runs)) < 1e-9
