"""Bounds are bounds: on the time, on the peak, and on the smallest limit."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings

from rematopt.graph import Data, Graph, Kind, Op, Phase, StaticBytes
from rematopt.simulator import simulate
from rematopt.solver.bounds import peak_bound, peak_floor
from rematopt.solver.result import unplanned
from rematopt.solver.sequence import steps_from_runs
from rematopt.solver.smallest import smallest_peak
from tests.solver.oracle import staged_optimum
from tests.solver.random_graphs import graphs


def soon() -> float:
    return time.perf_counter() + 30.0


def least_peak(graph: Graph) -> int:
    """The smallest feasible limit, by bisection with the oracle."""
    low, high = 0, unplanned(graph).peak_bytes
    while low < high:
        middle = (low + high) // 2
        if staged_optimum(graph, middle) < float("inf"):
            high = middle
        else:
            low = middle + 1
    return low


@given(graph=graphs(max_ops=8))
@settings(max_examples=75, deadline=None)
def test_smallest_peak_lies_between_its_bound_and_the_optimum(graph):
    least = least_peak(graph)
    assert peak_floor(graph).bytes <= peak_bound(graph, unplanned(graph).peak_bytes, soon()) <= least
    found = smallest_peak(graph, 30.0)
    assert found.bound_bytes <= least <= found.peak_bytes
    assert found.peak_bytes == pytest.approx(least, rel=1e-3)
    assert simulate(graph, steps_from_runs(graph, found.runs)).peak_bytes == found.peak_bytes


def test_floor_names_the_op_and_what_it_holds():
    graph = Graph(
        ops=(
            Op(name="small", target="t", phase=Phase.FORWARD, outputs=(0,)),
            Op(name="large", target="t", phase=Phase.FORWARD, inputs=(0,), outputs=(1,), workspace_bytes=50,
               module="model.head"),
            Op(name="end", target="t", phase=Phase.FORWARD, inputs=(1,), outputs=(2,)),
        ),
        data=(
            Data(bytes=10, producer=0, kind=Kind.OUTPUT),
            Data(bytes=100, producer=1),
            Data(bytes=1, producer=2),
        ),
        static=StaticBytes(parameters=1000),
    )  # fmt: skip
    floor = peak_floor(graph)
    assert (floor.bytes, floor.op, floor.data) == (1160, 1, (0, 1))
    text = floor.explain(graph)
    for part in ("large", "model.head", "100 B", "50 B of workspace", "static"):
        assert part in text
