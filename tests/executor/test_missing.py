from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from rematopt.executor import apply
from rematopt.profiler import profile
from tests.executor.schedules import plain_copy, random_runs, schedule_of


class TwoHeads(nn.Module):
    """Two outputs with a common trunk; the second is a view of what is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
        self.first = nn.Linear(6, 3)
        self.second = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.trunk(x)
        return self.first(h), self.second(h)[:, :2]


def gradients(model: nn.Module, x: torch.Tensor, which: int) -> list[torch.Tensor | None]:
    model(x)[which].square().sum().backward()
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize("which", [0, 1])
def test_what_the_loss_does_not_use_gets_no_gradient(which: int) -> None:
    torch.manual_seed(0)
    model, x = TwoHeads(), torch.randn(4, 6)
    expected = gradients(plain_copy(model), x, which)
    graph = profile(model, (x,)).graph
    apply(model, schedule_of(graph, random_runs(graph, random.Random(0), 1.0)), on_mismatch="error")
    found = gradients(model, x, which)
    assert [g is None for g in found] == [g is None for g in expected]
    assert sum(g is None for g in found) == 2
    assert all(a is None or torch.equal(a, b) for a, b in zip(found, expected, strict=True) if b is not None)


def test_gradients_of_a_subset_and_a_second_backward() -> None:
    torch.manual_seed(0)
    model, x = TwoHeads(), torch.randn(4, 6)

    def run(model: nn.Module) -> list[torch.Tensor | None]:
        first, second = model(x)
        some = torch.autograd.grad(first.square().sum(), [model.first.weight, model.trunk[0].bias], retain_graph=True)
        second.square().sum().backward(inputs=[model.trunk[0].weight], retain_graph=True)
        (first.sum() + second.sum()).backward()
        return [*some, *(p.grad for p in model.parameters())]

    expected = run(plain_copy(model))
    graph = profile(model, (x,)).graph
    apply(model, schedule_of(graph, random_runs(graph, random.Random(1), 0.7)), on_mismatch="error")
    for mine, theirs in zip(run(model), expected, strict=True):
        assert mine is not None
        assert theirs is not None
        assert torch.equal(mine, theirs)
