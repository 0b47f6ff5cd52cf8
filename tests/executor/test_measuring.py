from __future__ import annotations

import pytest
import torch
from torch import nn

from rematopt.errors import InvalidInputError
from rematopt.executor import measure, measure_curve
from tests.executor.models import examples


class Wide(nn.Module):
    """Allocates one big tensor for a moment."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.unsqueeze(0) * torch.ones(1000, 1)).sum()


def test_the_peak_contains_static_memory_and_temporaries() -> None:
    x = torch.randn(256, requires_grad=True)
    found = measure(Wide(), (x,), repeats=1)
    assert found.static.inputs == 256 * 4
    assert found.peak_bytes > 1000 * 256 * 4
    assert found.peak_bytes < 3 * 1000 * 256 * 4


def test_the_model_is_left_as_it_was() -> None:
    model, args = examples()["mixed"]
    model.inner.weight.grad = torch.ones_like(model.inner.weight)
    gradient = model.inner.weight.grad
    buffers = [b.clone() for b in model.buffers()]
    state = torch.get_rng_state()
    measure(model, args, repeats=2)
    assert model.inner.weight.grad is gradient
    assert torch.equal(gradient, torch.ones_like(gradient))
    assert model.norm.weight.grad is None
    assert all(torch.equal(a, b) for a, b in zip(buffers, model.buffers(), strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_an_optimizers_state_counts() -> None:
    model, args = examples()["tied"]
    plain = measure(model, args, repeats=1)
    adam = measure(model, args, repeats=1, optimizer=torch.optim.Adam(model.parameters()))
    size = sum(p.numel() for p in model.parameters()) * 4
    assert adam.static.optimizer == pytest.approx(2 * size, abs=100)
    assert adam.peak_bytes - plain.peak_bytes == adam.static.optimizer


def test_a_loss_may_be_given_or_found() -> None:
    model = nn.Linear(4, 4)
    x = torch.randn(8, 4)
    assert measure(model, (x,), repeats=1).seconds > 0
    assert measure(model, (x,), loss=lambda y: y.square().mean(), repeats=3).repeats.__len__() == 3


def test_a_model_without_gradients_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="requires a gradient"):
        measure(nn.Identity(), (torch.randn(3),), repeats=1)


def test_the_curve_has_the_measured_peak_and_ends_where_the_step_ends() -> None:
    x = torch.randn(256, requires_grad=True)
    curve = measure_curve(Wide(), (x,))
    assert max(size for _, size in curve) == measure(Wide(), (x,), repeats=1).peak_bytes
    assert [at for at, _ in curve] == sorted(at for at, _ in curve)
    assert curve[0][1] == 256 * 4
