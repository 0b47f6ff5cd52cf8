"""Prediction equals measurement, and would not if anything of the accounting were left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rematopt.executor import apply, measure
from rematopt.graph import Kind
from rematopt.profiler import builder, lowering, profile, profiling, roles, stopwatch, storages, trace
from rematopt.solver.result import unplanned
from tests.executor.schedules import schedule_of

TOLERANCE = 0.001


class Network(nn.Module):
    """Convolutions with workspaces, views that are long in use, and a large output."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 5, padding=2)
        self.head = nn.Linear(width * 64, 500)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = F.gelu(self.first(x))
        rows = h.flatten(2).transpose(1, 2) * 0.5
        h = F.avg_pool2d(F.gelu(self.second(h)), 4)
        return self.head(h.flatten(1)).square().mean() + rows.mean(), rows


CASES = {"plain": (False, False), "optimizer": (True, False), "accumulate": (False, True)}
"""Whether an optimizer steps, and whether gradients are there before."""


def step(case: str) -> tuple[nn.Module, tuple[torch.Tensor], dict[str, Any]]:
    """A model, arguments of a call, and options of the step."""
    torch.manual_seed(0)
    model, args = Network(), (torch.randn(4, 3, 32, 32),)
    stepped, accumulate = CASES[case]
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True) if stepped else None
    return model, args, {"optimizer": optimizer, "accumulate": accumulate}


def predicted(case: str) -> int:
    model, args, options = step(case)
    return unplanned(profile(model, args, **options).graph).peak_bytes


@pytest.fixture(scope="module")
def measured() -> dict[str, int]:
    """The real peak of each case, replayed without recomputation."""
    found = {}
    for case in CASES:
        model, args, options = step(case)
        graph = trace(model, args, **options)
        with apply(model, schedule_of(graph, list(range(len(graph.ops)))), on_mismatch="error"):
            real = measure(model, args, loss=lambda out: out[0], repeats=1, **options)
        found[case] = real.peak_bytes
    return found


def halved_workspaces(patch: pytest.MonkeyPatch) -> None:
    original = profiling.op_costs

    def halved(*args: Any) -> Any:
        costs = original(*args)
        return {
            node: replace(cost, workspace_bytes=cost.workspace_bytes // 2)
            if "convolution" in str(node.target)
            else cost
            for node, cost in costs.items()
        }

    patch.setattr(profiling, "op_costs", halved)


def views_with_bytes_of_their_own(patch: pytest.MonkeyPatch) -> None:
    original = storages.storage_key

    def by_form(tensor: torch.Tensor) -> int:
        return hash((original(tensor), tensor.shape, tensor.stride()))

    for module in (storages, builder, lowering, roles):
        patch.setattr(module, "storage_key", by_form)


def results_without_bytes(patch: pytest.MonkeyPatch) -> None:
    original = builder.storage_bytes
    patch.setattr(builder, "storage_bytes", lambda t: 0 if t.shape == (4, 16, 32, 32) else original(t))


def forgotten(kind: Kind) -> Callable[[pytest.MonkeyPatch], None]:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        original = builder.Builder.mark
        patch.setattr(builder.Builder, "mark", lambda self, nodes, k: None if k is kind else original(self, nodes, k))

    return mutate


def no_optimizer_step(patch: pytest.MonkeyPatch) -> None:
    original = profiling.optimizer_bytes
    patch.setattr(profiling, "optimizer_bytes", lambda *args: replace(original(*args), step=0))


def no_accumulated_gradients(patch: pytest.MonkeyPatch) -> None:
    original = profiling.surrounded
    patch.setattr(profiling, "surrounded", lambda *args, accumulate: original(*args))


def no_workspaces(patch: pytest.MonkeyPatch) -> None:
    original = stopwatch.OpCost
    patch.setattr(stopwatch, "OpCost", lambda seconds, _workspace: original(seconds, 0))


MUTATIONS = {
    "halved workspaces": (halved_workspaces, "plain"),
    "no workspaces": (no_workspaces, "plain"),
    "views with bytes of their own": (views_with_bytes_of_their_own, "plain"),
    "results without bytes": (results_without_bytes, "plain"),
    "no gradients": (forgotten(Kind.GRADIENT), "accumulate"),
    "no outputs": (forgotten(Kind.OUTPUT), "plain"),
    "no optimizer step": (no_optimizer_step, "optimizer"),
    "no accumulated gradients": (no_accumulated_gradients, "accumulate"),
}


@pytest.mark.parametrize("case", CASES)
def test_prediction_equals_measurement(case: str, measured: dict[str, int]) -> None:
    assert predicted(case) == pytest.approx(measured[case], rel=TOLERANCE)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutated_accounting_is_noticed(
    mutation: str, measured: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate, case = MUTATIONS[mutation]
    mutate(monkeypatch)
    assert predicted(case) != pytest.approx(measured[case], rel=TOLERANCE)
