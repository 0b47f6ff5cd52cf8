from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import rematopt
from rematopt.executor.backend import ScheduleBackend
from tests.executor.models import Mixed
from tests.executor.schedules import assert_identical, plain_copy, train


class Deep(nn.Module):
    """A chain whose activations dominate, so that limits bind."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.1)) for _ in range(8)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).square().mean()


@pytest.fixture
def planned() -> tuple[nn.Module, rematopt.Schedule]:
    torch.manual_seed(0)
    model = Deep()
    schedule = rematopt.solve(rematopt.profile(model, (torch.randn(256, 16),)), "60%", time_limit=5)
    assert schedule.recomputed > 0
    return model, schedule


def test_a_smaller_batch_runs_by_the_same_steps(
    planned: tuple[nn.Module, rematopt.Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, schedule = planned
    used: list[object] = []
    original = ScheduleBackend._plan

    def spy(self: ScheduleBackend, joint: object) -> object:
        lowered, found = original(self, joint)  # type: ignore[arg-type]
        used.append(found)
        return lowered, found

    monkeypatch.setattr(ScheduleBackend, "_plan", spy)
    x = torch.randn(100, 16)
    plain = train(plain_copy(model), (x,), {}, steps=2)
    rematopt.apply(model, schedule)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_identical(train(model, (x,), {}, steps=2), plain)
    assert used == [schedule]


def test_a_larger_batch_is_planned_for_the_same_limit(planned: tuple[nn.Module, rematopt.Schedule]) -> None:
    model, schedule = planned
    x = torch.randn(300, 16)
    plain = train(plain_copy(model), (x,), {}, steps=2)
    unplanned = rematopt.measure(plain_copy(model), (x,), repeats=1).peak_bytes
    rematopt.apply(model, schedule)
    assert_identical(train(model, (x,), {}, steps=2), plain)
    assert schedule.limit_bytes is not None
    assert rematopt.measure(model, (x,), repeats=1).peak_bytes <= schedule.limit_bytes < unplanned


def test_a_call_that_cannot_fit_runs_plainly_with_one_warning(planned: tuple[nn.Module, rematopt.Schedule]) -> None:
    model, schedule = planned
    x = torch.randn(4096, 16)
    plain = train(plain_copy(model), (x,), {}, steps=2)
    rematopt.apply(model, schedule)
    with pytest.warns(RuntimeWarning, match="without a plan.*smallest") as caught:
        found = train(model, (x,), {}, steps=2)
    assert len(caught) == 1
    assert_identical(found, plain)


def test_frozen_parameters_make_another_plan() -> None:
    torch.manual_seed(0)
    model = Mixed()
    x = torch.randn(5, 12)
    schedule = rematopt.solve(rematopt.profile(model, (x,)), "min", time_limit=5)
    rematopt.apply(model, schedule)
    twin = plain_copy(model)
    for m in (model, twin):
        m.norm.requires_grad_(False)
    assert_identical(train(model, (x,), {}, steps=2), train(twin, (x,), {}, steps=2))
