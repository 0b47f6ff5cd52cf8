from __future__ import annotations

import torch

from rematopt.graph import Graph
from rematopt.profiler.capture import capture
from rematopt.profiler.lowering import lower
from tests.profiler.test_lowering import Function


def _gaps(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Writes into every second row; the operator keeps the gaps between them."""
    h = x @ w + 1
    h[::2] *= 0.5
    return h.square().sum()


def captured() -> Graph:
    return lower(capture(Function(_gaps, width=6), (torch.randn(8, 6),))).graph


def test_sizes_do_not_depend_on_what_was_captured_before() -> None:
    """The compiler remembers results of operators without what they allocate between their elements."""
    first, second = captured(), captured()
    assert first.data == second.data
    assert first.fingerprint == second.fingerprint


def test_sizes_with_gaps_are_what_the_operator_allocates() -> None:
    x = torch.randn(8, 6)
    allocated = torch.ops.aten.copy.default(x[::2], x[1::2]).untyped_storage().nbytes()
    assert allocated > 4 * 6 * 4
    captured()
    graph = captured()
    copies = [op for op in graph.ops if op.target == "aten.copy.default"]
    assert copies
    assert {graph.data[d].bytes for op in copies for d in op.outputs} == {allocated}
