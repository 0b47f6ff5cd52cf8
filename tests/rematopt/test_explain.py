"""What ``rematopt.explain`` finds: the peak, its cause, and what to do about it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rematopt
from rematopt import cli, explain, profiler
from rematopt.errors import InvalidInputError, ScheduleMismatchError
from rematopt.explanation.peak import Role, cause_of, grouped, peak_of
from rematopt.explanation.view import show_explanation
from rematopt.graph import OPTIMIZER_STEP, Data, Graph, Kind, Op, Phase, StaticBytes
from rematopt.profile import Profile
from rematopt.solver.sequence import steps_from_runs
from tests.rematopt.conftest import chain


def test_the_peak_adds_up_and_names_the_op(profile: Profile) -> None:
    found = explain(profile, limits=0)
    peak = found.peak
    assert peak.bytes == found.unplanned.peak_bytes
    assert peak.bytes == peak.static_bytes + peak.alive_bytes + peak.transient_bytes
    assert (peak.name, peak.phase, peak.recomputed, peak.module) == ("b5", Phase.BACKWARD, False, "block.5")
    assert [item.bytes for item in peak.alive] == sorted((item.bytes for item in peak.alive), reverse=True)
    roles = {item.producer: item.role for item in peak.alive}
    assert roles["b5"] is Role.RESULT
    assert roles["f4"] is Role.READ
    assert roles["f0"] is Role.BACKWARD
    assert roles["f5"] is Role.OUTPUT


def test_equal_layers_are_one_row_and_the_cause_is_what_most_is_kept_for(profile: Profile) -> None:
    peak = explain(profile, limits=0).peak
    first = grouped(peak.alive)[0]
    assert (first.count, first.bytes, first.like.module) == (4, 400, "block.*")
    cause = cause_of(peak)
    assert cause is not None
    assert (cause.role, cause.bytes, cause.module) == (Role.BACKWARD, 400, "block")


def test_a_schedule_is_explained_with_what_it_runs_again(profile: Profile) -> None:
    schedule = rematopt.solve(profile, "min", time_limit=2)
    found = explain(profile, schedule, limits=0)
    assert found.peak.bytes == schedule.peak_bytes
    whole = found.modules().iloc[0]
    assert whole["module"] == ""
    assert whole["recomputed_ops"] == schedule.recomputed > 0
    assert whole["recomputed_seconds"] == pytest.approx(schedule.seconds - schedule.unplanned_seconds)
    assert whole["retained_bytes"] < whole["unplanned_retained_bytes"] == 504
    blocks = found.modules().query("module == 'block'")
    assert blocks["retained_bytes"].item() == whole["retained_bytes"]


def test_limits_go_from_the_smallest_to_the_unplanned_peak(profile: Profile) -> None:
    found = explain(profile, limits=3, time_limit=2, jobs=1, progress=False)
    assert [s.limit_bytes for s in found.front.schedules][-1] == found.unplanned.peak_bytes
    assert found.smallest_limit_bytes == found.front.schedules[0].peak_bytes >= found.floor.bytes
    saving = found.next_saving
    assert saving is not None
    assert saving.peak_bytes < found.peak.bytes
    json.dumps(found.record())


def test_no_gain_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    graph = chain(layers=2, size=100, static=50)
    found = explain(graph, limits=2, time_limit=1, jobs=1, progress=False)
    assert found.advice[0].startswith("No gain possible")
    show_explanation(found, depth=1)
    assert "next saving     none" in capsys.readouterr().out
    assert not any("No gain" in text for text in explain(chain(layers=8, size=100, static=0), limits=0).advice)


class Classifier(nn.Module):
    """A small body, and a loss over many classes."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.head = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(self.body(x)), labels)


@pytest.mark.parametrize(("classes", "dominates"), [(2000, True), (2, False)])
def test_logits_that_dominate_are_named_with_the_way_out(classes: int, dominates: bool) -> None:
    graph = profiler.trace(Classifier(classes), (torch.randn(64, 8), torch.zeros(64, dtype=torch.long)))
    advice = explain(graph, limits=0).advice
    assert any("chunks" in text and f"[64, {classes}]" in text for text in advice) is dominates


def test_attention_scores_and_static_memory_are_named() -> None:
    def attention(weights: str) -> Graph:
        label = f"f32[2, 4, {weights}]"
        softmax = Op(name="p", target="aten._softmax.default", phase=Phase.FORWARD, outputs=(0,))
        loss = Op(name="s", target="aten.sum.default", phase=Phase.FORWARD, inputs=(0,), outputs=(1,))
        back = Op(name="b", target="aten.mul.Tensor", phase=Phase.BACKWARD, inputs=(0,))
        data = (Data(bytes=800, producer=0, label=label), Data(bytes=4, producer=1, kind=Kind.OUTPUT, label="f32[]"))
        return Graph(ops=(softmax, loss, back), data=data)

    assert "Attention scores" in explain(attention("16, 16"), limits=0).advice[-1]
    assert not any("Attention" in text for text in explain(attention("16, 8"), limits=0).advice)
    heavy = replace(attention("16, 8"), static=StaticBytes(optimizer=5000))
    assert "optimizer state" in explain(heavy, limits=0).advice[-1]


def test_a_peak_in_the_optimizers_step_is_named_as_such() -> None:
    graph = chain(layers=6, size=100, static=50)
    low = rematopt.solve(graph, "min", time_limit=2)

    def advice(workspace_bytes: int) -> list[str]:
        step = Op(name="optimizer_step", target=OPTIMIZER_STEP, phase=Phase.BACKWARD, workspace_bytes=workspace_bytes)
        stepped = replace(graph, ops=(*graph.ops, step))
        runs = [*low.runs, len(graph.ops)]
        steps = tuple(steps_from_runs(stepped, runs))
        schedule = replace(low, fingerprint=stepped.fingerprint, steps=steps)
        found = explain(stepped, schedule, limits=0).advice
        assert not any("smaller batch" in text for text in found)
        return [text for text in found if "foreach=False" in text]

    (above_all,) = advice(5000)
    assert above_all.startswith("No gain possible")
    (between,) = advice(low.peak_bytes - 50)
    assert between.startswith("The optimizer's step sets the peak: it allocates ")


def test_peak_in_a_forward_op_that_runs_again() -> None:
    graph = chain(layers=4, size=100, static=0)
    ops = [replace(op, workspace_bytes=150 if op.name == "f1" else 0) for op in graph.ops]
    graph = replace(graph, ops=tuple(ops))
    peak = peak_of(graph, steps_from_runs(graph, [0, 1, 2, 3, 1, 4, 5, 6]))
    assert (peak.name, peak.recomputed, peak.phase) == ("f1", True, Phase.BACKWARD)
    assert peak.bytes == 3 * 100 + 4 + 150
    assert peak.transient_bytes == 150


def test_errors_name_what_is_wrong(profile: Profile) -> None:
    with pytest.raises(InvalidInputError, match="limits=1"):
        explain(profile, limits=1)
    other = rematopt.solve(chain(layers=3, size=100, static=0), "100%", time_limit=1)
    with pytest.raises(ScheduleMismatchError, match="another graph"):
        explain(profile, other, limits=0)


def test_command_line(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profile.save(tmp_path / "p.json")
    arguments = ["explain", str(tmp_path / "p.json"), "--limits", "0", "--plot", str(tmp_path / "t.png")]
    monkeypatch.setattr(sys, "argv", ["rematopt", *arguments])
    cli.app(standalone_mode=False)
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[:3] == ["peak", "662", "B"]
    assert (tmp_path / "t.png").stat().st_size > 1000
    monkeypatch.setattr(sys, "argv", ["rematopt", *arguments, "--json"])
    cli.app(standalone_mode=False)
    record = json.loads(capsys.readouterr().out)
    assert record["peak"]["bytes"] == 662
    assert record["modules"][0]["unplanned_retained_bytes"] == 504
