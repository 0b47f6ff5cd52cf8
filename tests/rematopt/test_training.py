"""Comparisons of training runs, and the commands built on them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from rematopt import cli
from rematopt.demo import Sizes, run_demo
from rematopt.errors import InvalidInputError
from rematopt.profile import Profile
from rematopt.schedule import Schedule
from rematopt.solver import solve
from rematopt.training import Run, prepare, profile_run, unplanned_schedule
from rematopt.turns import compare
from rematopt.views import show_demo

SIZES = {"batch": 64, "width": 32, "depth": 2}


def make() -> Run:
    return prepare("zoo:mlp", SIZES)


def test_runs_in_turns_do_not_disturb_one_another() -> None:
    planned = solve(profile_run(make()), "min", time_limit=2)
    before = torch.get_rng_state()
    unplanned, tight, plain = compare(make, [unplanned_schedule(make()), planned, None], steps=3)
    (alone,) = compare(make, [None], steps=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert unplanned.losses == tight.losses == plain.losses == alone.losses
    assert len(set(plain.losses)) == 3
    assert unplanned.measured_ratio == 1.0
    assert tight.predicted_ratio == pytest.approx(1 + planned.overhead)
    assert tight.measured_peak_bytes <= planned.peak_bytes < unplanned.measured_peak_bytes
    (other,) = compare(make, [None], steps=3, seed=1)
    assert other.losses != plain.losses


def test_optimizer_state_is_part_of_the_peak() -> None:
    (adam,) = compare(lambda: prepare("zoo:mlp", SIZES, optimizer="adam"), [None], steps=2)
    (none,) = compare(lambda: prepare("zoo:mlp", SIZES, optimizer="none"), [None], steps=2)
    weights = sum(p.numel() * 4 for p in make().model.parameters())
    assert adam.measured_peak_bytes - none.measured_peak_bytes == pytest.approx(2 * weights, rel=0.05)


def test_a_single_step_cannot_be_timed() -> None:
    with pytest.raises(InvalidInputError, match="steps=1"):
        compare(make, [None], steps=1)


def test_unknown_device() -> None:
    with pytest.raises(InvalidInputError, match="device 'nowhere' cannot be used"):
        prepare("zoo:mlp", SIZES, device="nowhere")


def test_commands_profile_solve_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The flow of the README on a factory in a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(
        "from rematopt.zoo import mlp\ndef make(batch=64):\n    return mlp(batch=batch, width=32, depth=2)\n"
    )

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["rematopt", *arguments])
        cli.main()
        return capsys.readouterr().out

    with pytest.raises(SystemExit, match="0"):
        run("profile", "model.py:make", "-o", "p.json", "--set", "batch=96", "--accumulate")
    assert Profile.load("p.json").graph.signature.arguments[0] == "args[0] float32[96, 64]"
    with pytest.raises(SystemExit, match="0"):
        run("solve", "p.json", "--limit", "min", "-o", "s.json", "--time-limit", "2")
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        run(
            "train",
            "model.py:make",
            "--schedule",
            "s.json",
            "--steps",
            "3",
            "--accumulate",
            "2",
            "--set",
            "batch=96",
            "--json",
        )
    record = json.loads(capsys.readouterr().out)
    assert record["measured_peak_bytes"] <= record["limit_bytes"] == Schedule.load("s.json").limit_bytes
    assert len(record["losses"]) == 3
    assert record["identical"] is True
    with pytest.raises(SystemExit, match="1"):
        run("train", "model.py:make", "--schedule", "s.json", "--steps", "3")
    assert "the schedule was made for" in capsys.readouterr().err


def test_pareto_measures_each_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profile_run(make()).save(tmp_path / "p.json")
    sizes = [part for name, value in SIZES.items() for part in ("--set", f"{name}={value}")]
    arguments = [
        "pareto",
        str(tmp_path / "p.json"),
        "--limits",
        "min",
        "--time-limit",
        "2",
        "--jobs",
        "1",
        "--measure",
        "zoo:mlp",
    ]
    monkeypatch.setattr(sys, "argv", ["rematopt", *arguments, *sizes, "-o", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    header, row = capsys.readouterr().out.splitlines()[1:3]
    assert header.split()[-4:] == ["measured", "peak", "measured", "time"]
    assert row.split()[-1] == "%"
    assert (tmp_path / "out" / "pareto.png").exists()


def test_demo_on_a_tiny_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = Sizes(layers=1, width=32, heads=2, batch=2, sequence=32)
    result = run_demo(tmp_path / "out", steps=2, sizes=sizes, time_limit=2)
    assert result.identical
    assert result.within_limits
    assert len(result.planned) == 4
    show_demo(result)
    shown = capsys.readouterr().out
    assert "identical to the plain model's at every step (2 steps, 4 schedules)" in shown
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written >= {"profile.json", "pareto.csv", "pareto.png", "timeline.png", "losses.png"}
    assert len([name for name in written if name.startswith("schedule-")]) == 4
