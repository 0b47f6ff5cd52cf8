"""Profile, solve, apply, measure: the whole way on a small model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import rematopt
import rematopt.zoo
from rematopt import api
from rematopt.errors import InfeasibleLimitError

SIZES: dict[str, Any] = {"batch": 512, "width": 32, "depth": 3}


def example(**sizes: Any) -> rematopt.zoo.Example:
    return rematopt.zoo.mlp(**{**SIZES, **sizes})


def state_after_training(model: torch.nn.Module, args: tuple[Any, ...], steps: int = 2) -> list[torch.Tensor]:
    torch.manual_seed(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = model(*args)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *(value for value in model.state_dict().values()), torch.get_rng_state()]


@pytest.mark.parametrize("limit", ["min", "85%"])
def test_training_by_a_schedule_gives_the_plain_numbers_within_the_limit(limit: str) -> None:
    model, args, kwargs = example()
    plain = copy.deepcopy(model)
    profile = rematopt.profile(model, args, kwargs)
    schedule = rematopt.solve(profile, limit, time_limit=2)
    handle = rematopt.apply(model, schedule)
    for found, wanted in zip(state_after_training(model, args), state_after_training(plain, args), strict=True):
        assert torch.equal(found, wanted)
    measured = rematopt.measure(model, args, kwargs, repeats=1)
    assert measured.peak_bytes <= schedule.limit_bytes
    assert measured.peak_bytes == pytest.approx(schedule.peak_bytes, rel=0.05)
    handle.remove()
    assert rematopt.measure(model, args, kwargs, repeats=1).peak_bytes > schedule.limit_bytes


def test_optimize_solves_once_for_the_same_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []
    solve = api.solve
    monkeypatch.setattr(api, "solve", lambda *args, **options: solved.append(1) or solve(*args, **options))

    def optimized(limit: str = "85%", cache: Any = tmp_path, **sizes: Any) -> rematopt.Schedule:
        model, args, kwargs = example(**sizes)
        handle = rematopt.optimize(model, args, kwargs, memory_limit=limit, cache=cache, time_limit=2)
        model(*args, **kwargs).backward()
        return handle.schedule

    first = optimized()
    assert optimized() == first
    assert len(solved) == 1
    optimized(limit="95%")
    optimized(batch=256)
    assert len(solved) == 3
    optimized(cache=False)
    assert len(solved) == 4
    assert len(list(tmp_path.iterdir())) == 3


def test_optimize_keeps_schedules_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model, args, kwargs = example()
    rematopt.optimize(model, args, kwargs, memory_limit="95%", time_limit=2)
    assert [path.suffix for path in (tmp_path / "rematopt").iterdir()] == [".json"]


def test_optimize_refuses_an_infeasible_limit(tmp_path: Path) -> None:
    model, args, kwargs = example()
    with pytest.raises(InfeasibleLimitError, match="smallest feasible limit"):
        rematopt.optimize(model, args, kwargs, memory_limit="1KiB", cache=tmp_path, time_limit=2)
    assert list(tmp_path.iterdir()) == []
