"""The one definition of memory, time and validity."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rematopt.errors import InvalidScheduleError
from rematopt.graph import Data, Graph, Kind, Op, Phase, Recompute, StaticBytes
from rematopt.schedule import Compute, Free, Step
from rematopt.simulator import forward_end, simulate
from rematopt.solver.sequence import first_runs, pruned, steps_from_runs
from tests.solver.random_graphs import graphs


@pytest.fixture
def graph() -> Graph:
    """a makes 0 and 1; b turns 0 into the output 2; c, backward, reads 1 and 2 and makes the gradient 3."""
    forward = Phase.FORWARD
    return Graph(
        ops=(
            Op(name="a", target="t", phase=forward, outputs=(0, 1), seconds=1.0, workspace_bytes=100),
            Op(name="b", target="t", phase=forward, inputs=(0,), outputs=(2,), seconds=2.0),
            Op(name="c", target="t", phase=Phase.BACKWARD, inputs=(1, 2), outputs=(3,), seconds=4.0),
        ),
        data=(
            Data(bytes=1, producer=0),
            Data(bytes=2, producer=0),
            Data(bytes=4, producer=1, kind=Kind.OUTPUT),
            Data(bytes=8, producer=2, kind=Kind.GRADIENT),
        ),
        static=StaticBytes(parameters=1000),
    )


def test_timeline_by_hand(graph):
    steps = (Compute(0), Free(1), Compute(1), Free(0), Compute(0), Free(0), Compute(2), Free(1))
    result = simulate(graph, steps)
    #        outputs and workspace, -1, b, -0,  a again, -0, c, -1
    assert result.resident_bytes == (1103, 1001, 1005, 1004, 1107, 1006, 1014, 1012)
    assert (result.peak_bytes, result.peak_step, result.peak_data) == (1107, 4, (0, 1, 2))
    assert result.seconds == 8.0
    assert result.forward_end == 4


def test_an_output_that_is_alive_is_allocated_twice(graph):
    once = simulate(graph, (Compute(0), Free(1), Free(0), Compute(0), Compute(1), Compute(2)))
    twice = simulate(graph, (Compute(0), Free(1), Compute(0), Compute(1), Compute(2)))
    assert once.resident_bytes[3] == 1103
    assert twice.resident_bytes[2] == 1104
    assert twice.resident_bytes[3] == 1000 + 1 + 2 + 4


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Compute(1),), r"step 0 \(b\) reads d0 \(output of a\), not computed before"),
        ((Compute(0), Free(0), Compute(1)), r"step 2 \(b\) reads d0 \(output of a\), freed at step 1"),
        ((Compute(0), Free(0), Free(0)), "step 2 frees d0 .*, which is not alive"),
        ((Compute(0), Compute(1), Free(2)), "a output, which stays until the step ends"),
        ((Compute(0), Compute(1)), "1 ops never run, the first is c"),
        ((Compute(7),), "step 0 computes op 7; the graph has 3"),
        ((Free(9),), "step 0 frees data 9; the graph has 4"),
        ((), "3 ops never run"),
    ],
)
def test_the_first_violation_is_named(graph, steps: tuple[Step, ...], message):
    with pytest.raises(InvalidScheduleError, match=message):
        simulate(graph, steps)


def test_an_op_that_may_run_once_runs_once():
    ops = (Op(name="a", target="t", phase=Phase.FORWARD, recompute=Recompute.NEVER),)
    with pytest.raises(InvalidScheduleError, match="runs a again, which may run only once"):
        simulate(Graph(ops=ops, data=()), (Compute(0), Compute(0)))


def test_order_beyond_data_holds_for_first_runs_only():
    ops = (
        Op(name="a", target="t", phase=Phase.FORWARD),
        Op(name="b", target="t", phase=Phase.FORWARD, after=(0,)),
    )
    graph = Graph(ops=ops, data=())
    with pytest.raises(InvalidScheduleError, match="runs b before a"):
        simulate(graph, (Compute(1), Compute(0)))
    assert simulate(graph, (Compute(0), Compute(1), Compute(1), Compute(0))).peak_bytes == 0


def test_backward_waits_for_forward():
    ops = (
        Op(name="a", target="t", phase=Phase.FORWARD),
        Op(name="b", target="t", phase=Phase.FORWARD),
        Op(name="c", target="t", phase=Phase.BACKWARD),
    )
    with pytest.raises(InvalidScheduleError, match="runs backward op c inside forward"):
        simulate(Graph(ops=ops, data=()), (Compute(0), Compute(2), Compute(1)))


def test_forward_ends_behind_the_frees_that_follow_it(graph):
    steps = (Compute(0), Compute(1), Free(0), Free(1), Compute(0), Compute(2))
    assert forward_end(graph, steps) == 4


@given(graph=graphs(max_ops=10), seed=st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_earliest_frees_are_valid_and_least(graph, seed):
    """Frees never make a schedule invalid, and holding any of them back never lowers the peak."""
    runs = list(first_runs(graph))
    repeatable = [i for i in runs if graph.ops[i].recompute is not Recompute.NEVER and i < graph.forward_count]
    if repeatable:
        extra = seed.choice(repeatable)
        runs.insert(seed.randint(graph.forward_count, len(runs)), extra)
    steps = steps_from_runs(graph, runs)
    result = simulate(graph, steps)
    frees = [at for at, step in enumerate(steps) if isinstance(step, Free)]
    if frees:
        held = seed.choice(frees)
        d = steps[held].data
        later = [at for at in range(held + 1, len(steps)) if isinstance(steps[at], Free) and steps[at].data == d]
        if not later:
            lazy = simulate(graph, [*steps[:held], *steps[held + 1 :]])
            assert lazy.peak_bytes >= result.peak_bytes
    lean = simulate(graph, steps_from_runs(graph, pruned(graph, runs)))
    assert lean.seconds <= result.seconds
    assert lean.peak_bytes <= result.peak_bytes
