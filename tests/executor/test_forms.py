"""Operators, layouts and dtypes of every sort, each by a schedule that recomputes all it can."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rematopt.errors import UnsupportedModelError
from rematopt.executor import apply
from rematopt.profiler import profile
from rematopt.profiler.capture import capture
from rematopt.profiler.lowering import lower
from tests.executor.schedules import assert_identical, plain_copy, random_runs, schedule_of, train


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, last = self.gru(x)
        return states.square().mean() + last.sum()


class Spectral(nn.Module):
    """Complex weights and a Fourier transform."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        f = torch.fft.fft2(x) @ self.weight
        return torch.fft.ifft2(f * f.abs()).real.square().mean()


class ChannelsLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1))
        self.to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x.contiguous(memory_format=torch.channels_last))


class Island(nn.Module):
    """bfloat16 with an island of float32."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = F.gelu(self.first(x))
            with torch.autocast("cpu", enabled=False):
                h = self.norm(h.float()) @ torch.ones(8, 8)
            return F.dropout(self.second(h).float(), 0.1).square().mean()


class SeveralResults(nn.Module):
    """Operators with several results of which some go unused."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.split = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(x).split(8, -1)
        mixed, _ = self.attention(q, k, v)
        ordered, _ = torch.sort(mixed, -1)
        variance, mean = torch.var_mean(ordered, -1)
        return variance.sum() + mean.square().sum() + ordered.amax()


class Halved(torch.autograd.Function):
    """A gradient that is not the derivative: replays must use the function's own."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient * (x > 0) * 0.5


class CustomFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Halved.apply(torch.tanh(self.layer(x))).square().mean()  # type: ignore[no-untyped-call, no-any-return]


class Averaged(nn.Module):
    """Batch norm that averages over all batches, twice in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(8, 8), nn.BatchNorm1d(8, momentum=None), nn.Tanh(), nn.BatchNorm1d(8, momentum=None, affine=False)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).square().mean() + self.body(x * 2).abs().mean()


FORMS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "recurrent": (Recurrent, (2, 5, 4)),
    "spectral": (Spectral, (6, 6)),
    "channels_last": (ChannelsLast, (2, 3, 8, 8)),
    "island": (Island, (3, 8)),
    "several_results": (SeveralResults, (2, 4, 8)),
    "custom_function": (CustomFunction, (3, 8)),
    "averaged": (Averaged, (6, 8)),
    "encoder_layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 4, 8)),  # type: ignore[dict-item]
    "power_iteration": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)), (4, 6)),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", list(FORMS))
def test_two_steps_equal_the_plain_model_bit_for_bit(name: str) -> None:
    make, shape = FORMS[name]
    torch.manual_seed(0)
    model, args = make(), (torch.randn(shape, requires_grad=True),)
    plain = train(plain_copy(model), args, {}, steps=2)
    graph = profile(model, args).graph
    schedule = schedule_of(graph, random_runs(graph, random.Random(name), 1.0))
    assert schedule.recomputed > 0
    apply(model, schedule, on_mismatch="error")
    assert_identical(train(model, args, {}, steps=2), plain)


def test_a_sparse_gradient_stays_sparse() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 4, sparse=True), nn.Tanh(), nn.Linear(4, 2))
    ids = torch.randint(0, 20, (7,))
    twin = plain_copy(model)
    graph = lower(capture(model, (ids,))).graph
    schedule = schedule_of(profile(model, (ids,)).graph, random_runs(graph, random.Random(0), 1.0))
    apply(model, schedule, on_mismatch="error")
    for m in (model, twin):
        m(ids).square().mean().backward()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert mine.grad.layout == theirs.grad.layout
        assert torch.equal(mine.grad.to_dense(), theirs.grad.to_dense())


def test_lstm_is_refused_on_cpu_with_a_way_out_that_works() -> None:
    model, x = nn.LSTM(4, 6), torch.randn(3, 2, 4)
    with pytest.raises(UnsupportedModelError, match="mkldnn"):
        profile(model, (x,))
    with torch.backends.mkldnn.flags(enabled=False):
        assert profile(model, (x,)).graph.ops


def test_packed_sequences_are_refused_with_their_place() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(4, 6, batch_first=True)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return self.gru(packed)[0].data.sum()

    with pytest.raises(UnsupportedModelError, match="pack_padded_sequence"):
        profile(Packed(), (torch.randn(2, 3, 4), torch.tensor([3, 2])))
