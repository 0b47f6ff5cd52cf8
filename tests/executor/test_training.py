"""Whole training loops at the smallest limit: accumulation, clipping, loss scaling, adapters on a frozen base."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import rematopt
from rematopt import zoo
from rematopt.model import run_backward
from tests.executor.schedules import assert_identical, plain_copy, seed_all

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Make = Callable[[], tuple[nn.Module, Arguments]]


class Adapted(nn.Module):
    """A frozen linear layer with a trained low-rank adapter and dropout on it."""

    def __init__(self, base: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(self.drop(x)))


def gpt2() -> tuple[nn.Module, Arguments]:
    model, args, kwargs = zoo.gpt2(layers=2, width=32, heads=2, sequence=16, batch=2, vocabulary=50)
    return model, (args, kwargs)


def resnet() -> tuple[nn.Module, Arguments]:
    torch.manual_seed(0)
    body = [
        nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        for _ in range(4)
    ]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 3, padding=1)
            self.blocks = nn.ModuleList(body)
            self.head = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            for block in self.blocks:
                x = x + block(x)
            return self.head(x.mean((2, 3))).square().mean()

    return Net(), ((torch.randn(4, 3, 8, 8),), {})


def adapters() -> tuple[nn.Module, Arguments]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(30, 16).requires_grad_(False),
        *(
            nn.Sequential(Adapted(nn.Linear(16, 16)), nn.LayerNorm(16).requires_grad_(False), nn.GELU())
            for _ in range(4)
        ),
        nn.Linear(16, 4),
    )
    return model, ((torch.randint(0, 30, (3, 7)),), {})


def train(model: nn.Module, arguments: Arguments, steps: int) -> list[torch.Tensor]:
    """AdamW over two micro-batches a step, with clipping; losses, weights, optimizer state, buffers, random state."""
    args, kwargs = arguments
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.1)
    seed_all(3)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(2):
            output = model(*args, **kwargs)
            loss = output if isinstance(output, torch.Tensor) else output.loss
            found.append(loss.detach().clone())
            run_backward(loss if loss.numel() == 1 else loss.square().mean())
        nn.utils.clip_grad_norm_(trained, 0.5)
        optimizer.step()
    found += [p.detach().clone() for p in model.parameters()]
    found += [b.detach().clone() for b in model.buffers()]
    found += [t.clone() for state in optimizer.state.values() for t in state.values()]
    return [*found, torch.get_rng_state()]


@pytest.mark.parametrize("make", [gpt2, resnet, adapters])
def test_fifty_steps_at_the_smallest_limit_equal_the_plain_model(
    make: Callable[[], tuple[nn.Module, Arguments]],
) -> None:
    model, arguments = make()
    plain = train(plain_copy(model), arguments, 50)
    schedule = rematopt.solve(rematopt.profile(model, *arguments), "min", time_limit=5)
    assert schedule.recomputed > 0
    rematopt.apply(model, schedule, on_mismatch="error")
    assert_identical(train(model, arguments, 50), plain)


def test_a_step_that_loss_scaling_skips_leaves_nothing_behind() -> None:
    model, (args, _) = resnet()
    twin = plain_copy(model)
    schedule = rematopt.solve(rematopt.profile(model, args), "min", time_limit=5)
    rematopt.apply(model, schedule, on_mismatch="error")
    results = []
    for m in (model, twin):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        for step in range(4):
            optimizer.zero_grad()
            loss = m(*args) * (float("inf") if step == 1 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        results.append([*(p.detach().clone() for p in m.parameters()), torch.tensor(scaler.get_scale())])
    assert_identical(*results)


@pytest.mark.parametrize("limit", ["100%", "min"])
def test_a_hundred_steps_leave_as_many_tensors_as_the_plain_model(limit: str) -> None:
    def live(model: nn.Module, args: tuple[Any, ...], steps: int) -> int:
        for _ in range(steps):
            model.zero_grad()
            model(*args).backward()
        gc.collect()
        return sum(type(o) in (torch.Tensor, nn.Parameter) for o in gc.get_objects())

    model, (args, _) = resnet()
    twin = plain_copy(model)
    live(twin, args, 1)
    by_plain = live(twin, args, 2) - live(twin, args, 1)
    rematopt.apply(model, rematopt.solve(rematopt.profile(model, args), limit, time_limit=5), on_mismatch="error")
    live(model, args, 2)
    before = live(model, args, 1)
    assert live(model, args, 100) - before == by_plain == 0
