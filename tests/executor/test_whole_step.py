"""The peak of the whole training step: optimizer and accumulated gradients included."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from rematopt.errors import InfeasibleLimitError
from rematopt.executor import apply, measure
from rematopt.graph import OPTIMIZER_STEP
from rematopt.profiler import profile
from rematopt.solver import solve

NUMBERS = 64
"""Allowance of the prediction for wrapped numbers."""

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer] | None] = {
    "none": None,
    "momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "adamw": torch.optim.AdamW,
    "adamw foreach": partial(torch.optim.AdamW, foreach=True),
    "adamw fused": partial(torch.optim.AdamW, fused=True),
}


def example(rows: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Few rows: weights dominate, and the optimizer sets the peak; many rows: activations do."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.GELU()) for _ in range(2)))
    return model, (torch.randn(rows, 64),)


@pytest.mark.parametrize(
    ("name", "rows", "accumulate"),
    [
        ("none", 512, False),
        ("none", 16, True),
        ("momentum", 16, False),
        ("adamw", 16, False),
        ("adamw", 512, True),
        ("adamw foreach", 16, False),
        ("adamw foreach", 16, True),
        ("adamw fused", 512, False),
    ],
)
def test_the_whole_step_peaks_where_it_was_predicted(name: str, rows: int, accumulate: bool) -> None:
    model, args = example(rows)
    make = OPTIMIZERS[name]
    optimizer = None if make is None else make(model.parameters())
    graph = profile(model, args, optimizer=optimizer, accumulate=accumulate).graph
    schedule = solve(graph, "min", time_limit=2)
    apply(model, schedule, on_mismatch="error")
    found = measure(model, args, optimizer=optimizer, accumulate=accumulate, repeats=1)
    assert found.static == graph.static
    assert schedule.peak_bytes - 2 * NUMBERS <= found.peak_bytes <= schedule.peak_bytes


def test_a_limit_below_the_optimizers_step_names_it() -> None:
    model, args = example(16)
    graph = profile(model, args, optimizer=torch.optim.AdamW(model.parameters(), foreach=True)).graph
    weights = graph.static.parameters
    assert graph.ops[-1].target == OPTIMIZER_STEP
    assert graph.optimizer_step_bytes >= weights
    with pytest.raises(InfeasibleLimitError, match=r"optimizer.step.*foreach=False") as caught:
        solve(graph, graph.static.total + weights + graph.optimizer_step_bytes - 1, time_limit=2)
    loop = profile(model, args, optimizer=torch.optim.AdamW(model.parameters(), foreach=False)).graph
    assert solve(loop, "min", time_limit=2).peak_bytes < caught.value.smallest_limit_bytes


def test_accumulated_gradients_are_alive_twice_as_predicted() -> None:
    """Plain PyTorch adds each gradient as it comes; a compiled backward hands over all at its end."""
    torch.manual_seed(0)
    model, args = nn.Sequential(*(nn.Linear(128, 128) for _ in range(8))), (torch.randn(2, 128),)
    weights = sum(p.numel() * 4 for p in model.parameters())
    plain = measure(model, args, accumulate=True, repeats=1)
    schedule = solve(profile(model, args, accumulate=True), "min", time_limit=2)
    apply(model, schedule, on_mismatch="error")
    planned = measure(model, args, accumulate=True, repeats=1)
    assert 2 * weights < plain.peak_bytes < 2.3 * weights
    assert 3 * weights < planned.peak_bytes < 3.1 * weights
    assert planned.peak_bytes == pytest.approx(schedule.peak_bytes, rel=0.001)


def test_gradients_that_are_present_count_without_being_asked() -> None:
    model, args = example(16)
    fresh = profile(model, args).graph
    model(*args).sum().backward()
    later = profile(model, args).graph
    assert later.static.gradients == fresh.static.parameters
    assert later.static == profile(example(16)[0], args, accumulate=True).graph.static
    assert later.fingerprint == fresh.fingerprint


def test_measuring_steps_neither_the_model_nor_its_optimizer() -> None:
    model, args = example(16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    before = [p.detach().clone() for p in model.parameters()]
    measure(model, args, optimizer=optimizer, repeats=1)
    assert not optimizer.state
    model(*args).sum().backward()
    optimizer.step()
    moments = [s["exp_avg"].clone() for s in optimizer.state.values()]
    after = [p.detach().clone() for p in model.parameters()]
    assert not torch.equal(before[0], after[0])
    measure(model, args, optimizer=optimizer, accumulate=True, repeats=1)
    assert all(map(torch.equal, after, model.parameters()))
    assert all(map(torch.equal, moments, (s["exp_avg"] for s in optimizer.state.values())))
