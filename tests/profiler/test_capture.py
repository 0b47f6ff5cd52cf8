from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rematopt.errors import UnsupportedModelError
from rematopt.profiler.capture import capture
from tests.executor.models import Mixed


@dataclasses.dataclass
class Result:
    loss: torch.Tensor
    extra: dict[str, torch.Tensor]


class Nested(nn.Module):
    """Keyword, None and nested arguments; a dataclass as the result."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, *, more: dict[str, Any], scale: float = 1.0, mask: Any = None) -> Result:
        y = self.layer(x) * scale + more["shift"]
        if mask is not None:
            y = y * mask
        return Result(y.square().mean(), {"y": y})


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if y.sum() > 0:
            return y.mean()
        return -y.mean()


def test_nothing_runs_and_nothing_moves() -> None:
    model = Mixed()
    before = [t.clone() for t in (*model.parameters(), *model.buffers())]
    states = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())  # noqa: NPY002
    capture(model, (torch.randn(4, 12, generator=torch.Generator().manual_seed(0)),))
    after = [*model.parameters(), *model.buffers()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert "_compiled_call_impl" not in vars(model)
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert (states[2] == np.random.get_state()[1]).all()  # noqa: NPY002


def test_arguments_and_results_of_any_form_are_captured() -> None:
    joint = capture(Nested(), (torch.randn(2, 4),), {"more": {"shift": torch.ones(4)}, "scale": 2.0, "mask": None})
    assert joint.forward_outputs == 2


def test_a_branch_on_a_value_is_refused_with_its_place_and_the_way_out() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        capture(Branching(), (torch.randn(2, 4),))
    message = str(caught.value)
    assert "Branching" in message
    assert "if y.sum() > 0" in message
    assert "torch.where" in message
    assert "\n" not in message


def test_a_refusal_names_the_module() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh(), Branching()))
    with pytest.raises(UnsupportedModelError, match=r"Sequential cannot .* in module 1\.1 at .*if y.sum\(\) > 0"):
        capture(model, (torch.randn(2, 4),))


def test_a_model_without_gradients_is_refused() -> None:
    model = Mixed().requires_grad_(False)
    with pytest.raises(UnsupportedModelError, match="requires a gradient"):
        capture(model, (torch.randn(4, 12),))


def test_a_frozen_model_with_a_trained_input_is_captured() -> None:
    model = Mixed().requires_grad_(False)
    assert capture(model, (torch.randn(4, 12, requires_grad=True),)).forward_outputs >= 1
