"""A small training graph with known peaks and times for the tests of this folder."""

from __future__ import annotations

import pytest

from rematopt.graph import Data, Graph, Kind, Op, Phase, StaticBytes
from rematopt.profile import Profile, Timing


def chain(layers: int, size: int, static: int) -> Graph:
    """A chain of equal layers: each backward op reads its layer's input and the gradient behind it."""
    ops: list[Op] = []
    data: list[Data] = []
    for i in range(layers):
        kind = Kind.OUTPUT if i == layers - 1 else Kind.ACTIVATION
        data.append(Data(bytes=4 if kind is Kind.OUTPUT else size, producer=i, kind=kind))
        inputs = (i - 1,) if i else ()
        ops.append(
            Op(
                name=f"f{i}",
                target="aten.mm.default",
                phase=Phase.FORWARD,
                inputs=inputs,
                outputs=(i,),
                seconds=1.0,
                module=f"block.{i}",
            )
        )
    for i in reversed(range(1, layers)):
        d = len(data)
        data.append(Data(bytes=size, producer=len(ops), kind=Kind.TEMPORARY))
        inputs = (i - 1,) if i == layers - 1 else (i - 1, d - 1)
        ops.append(
            Op(
                name=f"b{i}",
                target="aten.mm.default",
                phase=Phase.BACKWARD,
                inputs=inputs,
                outputs=(d,),
                seconds=2.0,
                workspace_bytes=8,
                module=f"block.{i}",
            )
        )
    return Graph(ops=tuple(ops), data=tuple(data), static=StaticBytes(parameters=static))


@pytest.fixture
def profile() -> Profile:
    """Six layers of 100 bytes and 50 static bytes, as if they had been profiled."""
    graph = chain(layers=6, size=100, static=50)
    timings = (Timing.MODELLED,) * len(graph.ops)
    return Profile(graph=graph, device="cpu: test", versions={"rematopt": "0"}, timings=timings)
