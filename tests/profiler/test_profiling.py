from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rematopt.profiler.stopwatch as stopwatch
from rematopt.device import allocations
from rematopt.errors import InvalidInputError
from rematopt.graph import Kind, StaticBytes
from rematopt.profile import Timing
from rematopt.profiler import profile
from rematopt.profiler.capture import capture
from rematopt.profiler.lowering import lower
from tests.executor.models import Mixed, examples
from tests.profiler.test_lowering import Function


def test_every_op_has_a_time_and_random_states_stay() -> None:
    model, x = Mixed(), torch.randn(5, 12)
    state = torch.get_rng_state()
    found = profile(model, (x,))
    assert torch.equal(state, torch.get_rng_state())
    timed = [op for op, timing in zip(found.graph.ops, found.timings, strict=True) if timing is Timing.MEASURED]
    assert all(op.seconds > 0 for op in timed)
    modelled = {op.target for op, t in zip(found.graph.ops, found.timings, strict=True) if t is Timing.MODELLED}
    assert modelled <= {"rematopt.random_state", "autograd.tangents", "autograd.accumulate", "optimizer.step"}
    assert found.versions["torch"] == str(torch.__version__)


def test_each_distinct_op_is_measured_once() -> None:
    calls: list[tuple[int, int, str]] = []
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(10)))
    profile(model, (torch.randn(4, 8),), progress=lambda *step: calls.append(step))
    assert len(calls) == calls[0][1] <= 6 * stopwatch.ROUNDS
    assert len({name for _, _, name in calls}) == len(calls) / stopwatch.ROUNDS


def test_workspace_is_what_an_op_allocates_beyond_its_results() -> None:
    found = profile(nn.Dropout(0.1), (torch.randn(1000, requires_grad=True),))
    dropout = next(op for op in found.graph.ops if op.target == "aten.native_dropout.default")
    state = sum(d.bytes for d in found.graph.data if d.kind is Kind.RANDOM_STATE)
    # A float of 0 or 1 for each element beside the mask, and what draws again holds the present state.
    assert 4000 + state <= dropout.workspace_bytes <= 4100 + state


def test_probabilities_and_indices_are_valid_inputs() -> None:
    def call(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        kept = torch.bernoulli(torch.full((4, 4), 0.5))
        return (F.embedding(x.long().clamp(0, 3), w) * kept[0]).sum()

    found = profile(Function(call), (torch.rand(4),))
    operators = [t for op, t in zip(found.graph.ops, found.timings, strict=True) if op.target.startswith("aten")]
    assert set(operators) == {Timing.MEASURED}


def test_an_op_that_refuses_the_inputs_gets_a_modelled_time(monkeypatch: pytest.MonkeyPatch) -> None:
    original = stopwatch._example_call

    def refusing(node: torch.fx.Node) -> object:
        if "tanh.default" in str(node.target):
            raise ValueError("not with these")
        return original(node)

    monkeypatch.setattr(stopwatch, "_example_call", refusing)
    found = profile(Mixed(), (torch.randn(5, 12),))
    (tanh,) = (i for i, op in enumerate(found.graph.ops) if op.target == "aten.tanh.default")
    assert found.timings[tanh] is Timing.MODELLED
    assert found.graph.ops[tanh].seconds > 0


def test_static_memory_by_kind() -> None:
    model = Mixed()
    x = torch.randn(5, 12)
    sizes = {"parameters": (12 * 12 + 12 + 24) * 4, "buffers": 2 * 12 * 4 + 8 + 8, "inputs": 240}
    assert profile(model, (x,)).graph.static == StaticBytes(**sizes)
    adam = torch.optim.Adam(model.parameters())
    model.inner.weight.grad = torch.zeros_like(model.inner.weight)
    static = profile(model, (x,), optimizer=adam).graph.static
    assert static.gradients == 12 * 12 * 4
    assert static.optimizer == pytest.approx(2 * sizes["parameters"], abs=4 * 4)
    assert not adam.state


def test_flops_follow_the_shapes() -> None:
    found = profile(nn.Linear(8, 16), (torch.randn(4, 8),))
    forward = next(op for op in found.graph.ops if "addmm" in op.target)
    assert forward.flops == 2 * 4 * 8 * 16


def test_profiling_needs_no_more_than_one_op_at_a_time() -> None:
    """Activations of the whole step would be 40 times as large."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(20)))
    x = torch.randn(4096, 64)
    size = x.numel() * 4
    peak = 0

    def watch(*_step: object) -> None:
        nonlocal peak
        peak = max(peak, sum(t.untyped_storage().nbytes() for t in _tensors_of(size)))

    profile(model, (x,), progress=watch)
    assert peak <= 6 * size


def _tensors_of(size: int) -> list[torch.Tensor]:
    import gc

    return [o for o in gc.get_objects() if type(o) is torch.Tensor and o.untyped_storage().nbytes() == size]


def test_allocations_see_what_is_freed_in_between() -> None:
    (found,) = allocations([lambda: (torch.ones(1000) * torch.ones(1000)).sum()], torch.device("cpu"))
    assert found.peak_bytes == 12000
    assert found.result_bytes == 4


@pytest.mark.parametrize("args", [torch.randn(3), 7])
def test_arguments_must_be_a_tuple(args: object) -> None:
    with pytest.raises(InvalidInputError, match="tuple"):
        profile(nn.Linear(3, 3), args)  # type: ignore[arg-type]


def test_the_model_must_be_a_module() -> None:
    with pytest.raises(InvalidInputError, match="Module"):
        profile(torch.nn.functional.relu, (torch.randn(3),))  # type: ignore[arg-type]


def test_small_inputs_take_turns_and_large_ones_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    original = stopwatch._example_call
    monkeypatch.setattr(stopwatch, "_example_call", lambda node: (made.append(node), original(node))[1])
    model, device = nn.Tanh(), torch.device("cpu")
    counts = []
    for rows in (256, 2**22):
        lowered = lower(capture(model, (torch.randn(rows, requires_grad=True),)))
        (node,) = (n for n in lowered.nodes if n is not None and "tanh.default" in str(n.target))
        made.clear()
        stopwatch.op_costs([node], device)
        counts.append(len(made))
    apart = 1  # allocations are watched in a run of its own
    assert counts == [stopwatch.ROUNDS * stopwatch.MAX_COPIES + apart, stopwatch.ROUNDS + apart]


def test_a_slow_moment_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of all rounds together have a median."""
    rounds = iter([[9.0, 9.0, 9.0], [1.0, 1.0, 1.0, 1.0]])
    monkeypatch.setattr(stopwatch, "_run_times", lambda _node, _device: next(rounds))
    lowered = lower(capture(nn.Tanh(), (torch.randn(3, requires_grad=True),)))
    nodes = [n for n in lowered.nodes if n is not None and "tanh.default" in str(n.target)]
    (cost,) = stopwatch.op_costs(nodes, torch.device("cpu")).values()
    assert cost.seconds == 1.0


def test_repeating_a_profile_changes_no_size() -> None:
    model, args = examples()["in_place"]
    first, second = (profile(model, args).graph for _ in range(2))
    assert first.data == second.data
    assert first.static == second.static
    assert [op.workspace_bytes for op in first.ops] == [op.workspace_bytes for op in second.ops]


class PartlyCast(nn.Module):
    """A product in float32 inside a call under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            return self.inner(x).sum()


def test_autocast_around_the_profile_does_not_cast_the_arguments_of_single_ops() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = profile(PartlyCast(), (torch.randn(256, 64),))
    forward = next(op for op in found.graph.ops if op.target == "aten.addmm.default")
    assert found.graph.data[forward.outputs[0]].label == "f32[256, 64]"
    assert forward.workspace_bytes == 0


@pytest.mark.parametrize("size", [0, 7, stopwatch.DRAWN, 3 * stopwatch.DRAWN + 5])
def test_made_up_floats_fill_the_whole_input(size: int) -> None:
    made = stopwatch._random(size, dtype=torch.float32, device=torch.device("cpu"))
    assert made.shape == (size,)
    assert ((made >= 0) & (made < 1)).all()
    assert size < 7 or made[-7:].unique().numel() > 1
