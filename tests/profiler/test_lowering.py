from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rematopt.errors import UnsupportedModelError
from rematopt.graph import Graph, Kind, Op, Phase, Recompute
from rematopt.profiler.capture import capture
from rematopt.profiler.lowering import Lowered, lower
from tests.executor.models import InPlace, Mixed, Moving, Tied


def lowered(model: nn.Module, *args: torch.Tensor) -> Lowered:
    return lower(capture(model, args))


def find(graph: Graph, target: str) -> Op:
    (op,) = (op for op in graph.ops if target in op.target)
    return op


class Function(nn.Module):
    """A module from a function of its weight and input."""

    def __init__(self, call: object, width: int = 4) -> None:
        super().__init__()
        self.call = call
        self.weight = nn.Parameter(torch.randn(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(self.weight, x)  # type: ignore[operator, no-any-return]


def test_views_are_no_ops_and_belong_to_their_storage() -> None:
    def call(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        h = (x @ w).view(2, 2, 4).transpose(0, 1)
        return h[:, :1].exp().sum()

    graph = lowered(Function(call), torch.randn(4, 4)).graph
    targets = [op.target for op in graph.ops if op.phase is Phase.FORWARD]
    assert targets == ["aten.mm.default", "aten.exp.default", "aten.sum.default"]
    product = find(graph, "exp.default")
    assert [graph.data[d].bytes for d in product.inputs] == [4 * 4 * 4]


def test_each_result_of_an_op_is_a_data_of_its_own() -> None:
    graph = lowered(Mixed(), torch.randn(5, 12)).graph
    dropout = next(op for op in graph.ops if op.target == "aten.native_dropout.default")
    assert [graph.data[d].label for d in dropout.outputs] == ["f32[5, 12]", "bool[5, 12]"]
    assert [graph.data[d].bytes for d in dropout.outputs] == [240, 60]


def test_random_ops_read_a_state_saved_right_before_them() -> None:
    graph = lowered(Mixed(), torch.randn(5, 12)).graph
    random = [i for i, op in enumerate(graph.ops) if op.recompute is Recompute.RANDOM]
    assert len(random) == 3
    for earlier, i in zip([None, *random], random, strict=False):
        (state,) = (d for d in graph.ops[i].inputs if graph.data[d].kind is Kind.RANDOM_STATE)
        assert graph.data[state].producer == i - 1
        assert graph.ops[i - 1].recompute is Recompute.NEVER
        assert graph.ops[i - 1].after == (() if earlier is None else (earlier,))


def test_attention_without_dropout_is_not_random() -> None:
    def call(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        h = (x @ w).view(1, 1, 4, 4)
        return F.scaled_dot_product_attention(h, h, h).sum()

    graph = lowered(Function(call), torch.randn(4, 4)).graph
    assert find(graph, "_scaled_dot_product_flash_attention_for_cpu.default").recompute is Recompute.FREE


def test_batch_norm_may_run_again_but_the_counter_may_not() -> None:
    graph = lowered(Mixed(), torch.randn(5, 12)).graph
    assert find(graph, "native_batch_norm_legit").recompute is Recompute.FREE
    assert find(graph, "native_batch_norm_backward").inputs
    counters = [op for op in graph.ops if op.target == "aten.add.Tensor" and not op.inputs]
    assert {op.recompute for op in counters} == {Recompute.NEVER}


def test_what_reads_a_tensor_that_is_overwritten_later_runs_once() -> None:
    graph = lowered(Moving(), torch.randn(4, 6)).graph
    assert find(graph, "exp.default").recompute is Recompute.NEVER
    write = find(graph, "copy_")
    assert write.recompute is Recompute.NEVER
    readers = [i for i, op in enumerate(graph.ops) if op.target == "aten.exp.default"]
    assert set(readers) <= set(write.after)


def test_routing_runs_once() -> None:
    def call(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        scores, chosen = torch.topk((x @ w).softmax(-1), 2)
        return (scores * chosen).sum()

    assert find(lowered(Function(call), torch.randn(4, 4)).graph, "topk").recompute is Recompute.NEVER


def test_outputs_tangents_and_gradients_are_kept() -> None:
    graph = lowered(nn.Linear(3, 2), torch.randn(4, 3)).graph
    kinds = {kind: [d.label for d in graph.data if d.kind is kind] for kind in Kind}
    assert kinds[Kind.OUTPUT] == ["f32[4, 2]"]
    assert kinds[Kind.TANGENT] == ["loss"]
    assert kinds[Kind.TEMPORARY][0] == "f32[4, 2]"
    assert sorted(kinds[Kind.GRADIENT]) == ["f32[1, 2]", "f32[2, 3]"]


def test_forward_comes_before_backward_and_writes_belong_to_forward() -> None:
    graph = lowered(InPlace(), torch.randn(2, 3, 8, 8)).graph
    phases = [op.phase for op in graph.ops]
    assert phases == sorted(phases, key=lambda p: p is Phase.BACKWARD)
    assert {op.phase for op in graph.ops if "copy_" in op.target} == {Phase.FORWARD}


def test_a_tied_weight_has_one_gradient() -> None:
    graph = lowered(Tied(), torch.randint(0, 20, (2, 5))).graph
    assert [d.label for d in graph.data if d.kind is Kind.GRADIENT].count("f32[20, 8]") == 1


def test_a_gradient_of_another_layout_is_copied_when_it_is_stored() -> None:
    graph = lowered(Function(lambda w, x: (w.t().contiguous() * x).sum()), torch.randn(4, 4)).graph
    last = graph.ops[-2]
    assert last.target == "autograd.accumulate"
    assert last.workspace_bytes == 64


def test_the_fingerprint_repeats_and_tells_graphs_apart() -> None:
    first, again, other = (lowered(Mixed(), torch.randn(n, 12)).graph for n in (5, 5, 6))
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_module_paths_name_the_layer_in_both_passes() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    graph = lowered(model, torch.randn(2, 4)).graph
    assert {op.module for op in graph.ops if op.phase is Phase.FORWARD} == {"0", "1.0", "1.1"}
    assert "1.0" in {op.module for op in graph.ops if op.phase is Phase.BACKWARD}


def test_a_size_that_depends_on_values_is_refused() -> None:
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(UnsupportedModelError),
    ):
        lowered(Function(lambda w, x: (x @ w)[x[:, 0] > 0].sum()), torch.randn(4, 4))
