"""The largest batch: found by sizes, confirmed on the device."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from experiments.max_batch import row
from rematopt.cli import app
from rematopt.errors import InvalidInputError
from rematopt.max_batch import Question, Search, largest_true

FACTORY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(32, 32), nn.GELU())))
    def forward(self, x):
        return self.layers(x).square().mean()

def make(*, batch=64):
    return Net(), (torch.ones(batch, 32),), {}

def fixed():
    return make()
"""


@pytest.fixture
def factory(tmp_path):
    (tmp_path / "net.py").write_text(FACTORY)
    return f"{tmp_path / 'net.py'}:make"


@pytest.mark.parametrize("largest", [0, 1, 7, 8, 63, 100])
@pytest.mark.parametrize("first", [1, 8, 1000])
def test_the_largest_number_is_found(largest: int, first: int) -> None:
    asked = []

    def holds(number: int) -> bool:
        asked.append(number)
        return number <= largest

    found = largest_true(holds, first)
    assert largest - largest // 64 <= found <= largest
    assert len(asked) == len(set(asked)) <= 24
    assert largest_true(holds, first, most=5) == min(5, largest)


def test_a_plan_fits_a_larger_batch_and_keeps_limit_and_time(factory: str) -> None:
    limit = 150_000
    question = Question(factory=factory, sizes={}, limit_bytes=limit, optimizer="none", time_limit=3)
    lines: list[str] = []
    search = Search(question, lines.append)
    plain, ours = search.largest("store-all"), search.largest("auto")
    assert 0 < plain.batch < ours.batch
    for found in (plain, ours):
        assert found.schedule is not None
        assert found.measured_peak_bytes is not None
        assert found.measured_peak_bytes <= limit
    assert plain.schedule is not None
    assert plain.schedule.overhead == 0
    assert any("measured" in line for line in lines)
    graph = search.profile(ours.batch, real=True).graph
    assert ours.schedule is not None
    forward = sum(op.seconds for op in graph.ops[: graph.forward_count])
    assert ours.schedule.seconds <= graph.seconds + forward


def test_no_batch_fits_a_tiny_limit(factory: str) -> None:
    question = Question(factory=factory, sizes={}, limit_bytes=100, optimizer="none")
    assert Search(question).largest("store-all").batch == 0
    result = CliRunner().invoke(app, ["max-batch", factory, "--limit", "100", "--optimizer", "none"])
    assert result.exit_code == 3
    assert "not even a batch of 1" in result.stderr


def test_command_prints_the_record(factory: str) -> None:
    options = ["--optimizer", "none", "--no-verify", "--max-overhead", "30%", "--json"]
    result = CliRunner().invoke(app, ["max-batch", factory, "--limit", "150kB", *options])
    assert result.exit_code == 0
    record = json.loads(result.stdout)
    assert record["batch"] >= record["unplanned_batch"] > 0
    assert record["measured_peak_bytes"] is None
    assert record["overhead"] <= record["max_overhead"] == 0.3


def test_what_cannot_be_searched_is_refused(factory: str) -> None:
    with pytest.raises(InvalidInputError, match="leave --set batch"):
        Question(factory=factory, sizes={"batch": 2}, limit_bytes=1)
    with pytest.raises(InvalidInputError, match="no argument named batch"):
        Question(factory=factory.replace(":make", ":fixed"), sizes={}, limit_bytes=1)
    with pytest.raises(InvalidInputError, match="'nowhere' cannot be used"):
        Search(Question(factory=factory, sizes={}, limit_bytes=1, device="nowhere"))


def test_published_ratios_stand_beside_ours() -> None:
    record = {
        "model": "unet",
        "limit_bytes": 2**20,
        "plain_batch": 8,
        "best_baseline": "revolve",
        "best_baseline_batch": 16,
        "batch": 32,
        "measured_peak_bytes": None,
        "ratio": 4.0,
        "published_ratio": 3.8,
        "ratio_to_baseline": 2.0,
        "published_ratio_to_baseline": None,
    }
    shown = row(record)
    assert (shown["to plain"], shown["Checkmate's"], shown["Checkmate's to baseline"]) == ("4.00 x", "3.80 x", "-")
