"""Random modules trained by random schedules: three optimizer steps, every bit equal to the plain model's."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import nn

from rematopt.executor import apply
from rematopt.graph import Graph, Signature
from rematopt.model import parameter_lines
from rematopt.schedule import Schedule
from tests.executor.schedules import assert_identical, plain_copy, random_runs, schedule_of, train

BLOCKS = (
    "linear",
    "conv",
    "batch_norm",
    "layer_norm",
    "dropout",
    "attention",
    "in_place",
    "reuse",
    "noise",
    "residual",
)
CHANNELS, SIZE = 4, 6


class RandomNet(nn.Module):
    """A chain of blocks on images of CHANNELS x SIZE x SIZE; some add to what they were given."""

    def __init__(self, blocks: list[str]) -> None:
        super().__init__()
        self.blocks = blocks
        self.shared = nn.Linear(SIZE, SIZE)
        self.layers = nn.ModuleList(self._layer(b) for b in blocks)
        self.head = nn.Linear(CHANNELS * SIZE * SIZE, 3)

    def _layer(self, block: str) -> nn.Module:
        match block:
            case "linear" | "residual":
                return nn.Linear(SIZE, SIZE)
            case "conv":
                return nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
            case "batch_norm":
                return nn.BatchNorm2d(CHANNELS)
            case "layer_norm":
                return nn.LayerNorm(SIZE)
            case "dropout":
                return nn.Dropout(0.4)
            case "attention":
                return nn.Linear(SIZE, 3 * SIZE)
        return nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block, layer in zip(self.blocks, self.layers, strict=True):
            x = self._run(block, layer, x)
        return F.log_softmax(self.head(x.flatten(1)), -1)[:, 0].mean()

    def _run(self, block: str, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        match block:
            case "attention":
                q, k, v = layer(x).chunk(3, -1)
                return F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)
            case "in_place":
                y = x * 0.5
                y[:, ::2] += 1
                return y.relu_()
            case "reuse":
                return torch.tanh(self.shared(x))
            case "noise":
                return x + 0.1 * torch.randn_like(x)
            case "residual":
                return x + F.gelu(layer(x))
        return layer(x)


def made_for_nothing(model: nn.Module) -> Schedule:
    """A schedule that fits the model's parameters and no call of it, so that each call asks for a plan."""
    signature = Signature(model="RandomNet", parameters=parameter_lines(model))
    return schedule_of(Graph(ops=(), data=(), signature=signature), [])


@pytest.fixture(autouse=True)
def _forget_compiled_code() -> None:
    """Hundreds of compiled models would fill the compiler's caches."""
    torch._dynamo.reset()


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4),
    dropped=st.sampled_from([0.3, 0.7, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_any_module_by_any_schedule_trains_as_it_would_plainly(blocks: list[str], dropped: float, seed: int) -> None:
    torch.manual_seed(seed)
    model = RandomNet(blocks)
    args = (torch.randn(2, CHANNELS, SIZE, SIZE),)
    plain = train(plain_copy(model), args, {}, steps=3, seed=seed)
    chosen: list[float] = []

    def plan(lowered: object, _error: object) -> object:
        """Draw the schedule from the graph that training captured: one compilation an example."""
        graph = lowered.graph  # type: ignore[attr-defined]
        chosen.append(dropped)
        return schedule_of(graph, random_runs(graph, random.Random(seed), dropped))

    apply(model, made_for_nothing(model), on_mismatch=plan)  # type: ignore[arg-type]
    assert_identical(train(model, args, {}, steps=3, seed=seed), plain)
    assert chosen == [dropped]
