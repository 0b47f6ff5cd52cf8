"""The training graph of a chain of equal steps, on which the classical methods have closed forms."""

from __future__ import annotations

from rematopt.graph import Data, Graph, Kind, Op, Phase


def unit_chain(length: int) -> Graph:
    """``length`` forward ops and as many backward ops; op ``i`` backward reads the input of op ``i``.

    Activations weigh 10 bytes, gradients nothing; a forward op takes one second, a backward op none.
    """
    ops: list[Op] = []
    data: list[Data] = []
    for i in range(length):
        inputs = (i - 1,) if i else ()
        ops.append(Op(name=f"f{i}", target="f", phase=Phase.FORWARD, inputs=inputs, outputs=(i,), seconds=1.0))
        data.append(Data(bytes=10, producer=i))
    for i in reversed(range(length)):
        above = (len(data) - 1,) if i < length - 1 else ()
        ops.append(
            Op(
                name=f"b{i}",
                target="b",
                phase=Phase.BACKWARD,
                inputs=tuple(sorted({*((i - 1,) if i else ()), *above})),
                outputs=(len(data),),
            )
        )
        data.append(Data(bytes=0, producer=len(ops) - 1, kind=Kind.TEMPORARY))
    return Graph(ops=tuple(ops), data=tuple(data))
