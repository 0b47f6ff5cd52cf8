"""Random small graphs of both kinds: training graphs and graphs without a backward pass."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rematopt.graph import Data, Graph, Kind, Op, Phase, Recompute, StaticBytes

_FORWARD_KINDS = (Kind.ACTIVATION, Kind.ACTIVATION, Kind.ACTIVATION, Kind.OUTPUT)
_BACKWARD_KINDS = (Kind.TEMPORARY, Kind.TEMPORARY, Kind.GRADIENT)
_RECOMPUTE = (Recompute.FREE, Recompute.FREE, Recompute.FREE, Recompute.NEVER)


def graphs(*, max_ops: int = 12, training: bool | None = None) -> SearchStrategy[Graph]:
    """Graphs with several outputs an op, workspaces, kept data and ops that run only once."""
    return _graphs(max_ops, training)


@st.composite
def _graphs(draw: DrawFn, max_ops: int, training: bool | None) -> Graph:
    count = draw(st.integers(1, max_ops))
    with_backward = draw(st.booleans()) if training is None else training
    forward = draw(st.integers(1, count)) if with_backward else count
    ops: list[Op] = []
    data: list[Data] = []
    for i in range(count):
        phase = Phase.FORWARD if i < forward else Phase.BACKWARD
        inputs = draw(st.sets(st.sampled_from(range(len(data))), max_size=3)) if data else set()
        outputs = range(len(data), len(data) + draw(st.integers(1, 2)))
        for _ in outputs:
            kind = draw(st.sampled_from(_FORWARD_KINDS if phase is Phase.FORWARD else _BACKWARD_KINDS))
            data.append(Data(bytes=draw(st.integers(0, 20)), producer=i, kind=kind))
        ops.append(
            Op(
                name=f"op{i}",
                target="random",
                phase=phase,
                inputs=tuple(sorted(inputs)),
                outputs=tuple(outputs),
                seconds=float(draw(st.integers(0, 9))),
                workspace_bytes=draw(st.sampled_from((0, 0, 5))),
                recompute=draw(st.sampled_from(_RECOMPUTE)),
            )
        )
    return Graph(ops=tuple(ops), data=tuple(data), static=StaticBytes(parameters=draw(st.integers(0, 9))))
