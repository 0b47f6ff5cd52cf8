"""What a graph refuses, and what it derives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rematopt.graph import Data, Graph, Kind, Op, Phase, StaticBytes


def op(name: str, inputs: tuple[int, ...] = (), outputs: tuple[int, ...] = (), **more: object) -> Op:
    return Op(name=name, target="aten.t", **{"phase": Phase.FORWARD, "inputs": inputs, "outputs": outputs, **more})


def small(**changes: object) -> Graph:
    parts = {
        "ops": (op("a", (), (0, 1), seconds=1.0), op("b", (0,), (2,), phase=Phase.BACKWARD, seconds=2.0)),
        "data": (Data(bytes=4, producer=0, label="f32[1]"), Data(bytes=8, producer=0), Data(bytes=4, producer=1)),
        "static": StaticBytes(parameters=1, buffers=2, gradients=3, optimizer=4, inputs=5),
    }
    return Graph(**{**parts, **changes})


def test_derived_values():
    graph = small()
    assert graph.consumers == ((1,), (), ())
    assert graph.forward_count == 1
    assert graph.seconds == 3.0
    assert graph.static.total == 15
    assert graph.describe(0) == "a = aten.t() -> (d0 f32[1] activation, d1 8 B activation) [forward]"
    assert graph.describe(1) == "b = aten.t(d0) -> (d2 4 B activation) [backward]"


@pytest.mark.parametrize(
    ("ops", "data", "message"),
    [
        ((op("a", (0,)),), (), "names data 0; there are 0"),
        ((op("a", (), (0,)), op("b", (0,), (0,))), (Data(bytes=1, producer=0),), "whose producer is 0"),
        ((op("a", (0,), (0,)),), (Data(bytes=1, producer=0),), "which no earlier op produces"),
        ((op("a"),), (Data(bytes=1, producer=0),), "does not list it"),
        ((op("a"),), (Data(bytes=1, producer=7),), "does not list it"),
        ((op("a", (), (0,)),), (Data(bytes=-1, producer=0),), "cannot be negative"),
        ((op("a", seconds=-1.0),), (), "negative time"),
        ((op("a", workspace_bytes=-1),), (), "negative time or workspace"),
        ((op("a", after=(0,)),), (), "not all earlier ops"),
        ((op("a", phase=Phase.BACKWARD), op("b")), (), "forward op behind a backward op"),
    ],
)
def test_contradictions_are_refused(ops, data, message):
    with pytest.raises(ValueError, match=message):
        Graph(ops=ops, data=data)


def test_fingerprint_is_of_the_structure():
    graph = small()
    slower = replace(graph, ops=(replace(graph.ops[0], seconds=9.0), graph.ops[1]), static=StaticBytes())
    assert slower.fingerprint == graph.fingerprint
    for other in (
        replace(graph, data=(replace(graph.data[0], bytes=5), *graph.data[1:])),
        replace(graph, data=(replace(graph.data[0], kind=Kind.OUTPUT), *graph.data[1:])),
        replace(graph, ops=(replace(graph.ops[0], name="other"), graph.ops[1])),
    ):
        assert other.fingerprint != graph.fingerprint


@pytest.mark.parametrize("kind", list(Kind))
def test_outputs_gradients_and_tangents_are_kept(kind):
    assert Data(bytes=1, producer=0, kind=kind).kept == (kind in {Kind.OUTPUT, Kind.GRADIENT, Kind.TANGENT})
