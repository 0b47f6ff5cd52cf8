"""The commands that need no torch: output, files, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rematopt import cli
from rematopt.profile import Profile
from rematopt.schedule import Schedule

SOLVE_FIELDS = [
    "status",
    "strategy",
    "limit_bytes",
    "peak_bytes",
    "unplanned_peak_bytes",
    "smallest_limit_bytes",
    "step_seconds",
    "unplanned_seconds",
    "overhead",
    "bound_seconds",
    "gap",
    "solve_seconds",
    "timing",
]


class Result:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> object:
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, profile: Profile):
    """Run the command line in a folder that holds ``p.json``."""
    profile.save(tmp_path / "p.json")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["rematopt", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Result(code, *capsys.readouterr())

    return call


def test_solve_writes_a_schedule_and_tells_about_it(run, tmp_path: Path) -> None:
    result = run("solve", "p.json", "--limit", "60%", "-o", "s.json", "--time-limit", "2")
    assert result.code == 0
    schedule = Schedule.load(tmp_path / "s.json")
    assert schedule.peak_bytes <= 0.6 * schedule.unplanned_peak_bytes
    assert f"peak              {schedule.peak_bytes} B (unplanned {schedule.unplanned_peak_bytes} B)" in result.out
    assert result.err == ""


def test_solve_json(run) -> None:
    record = run("solve", "p.json", "--limit", "min", "--json").json
    assert list(record) == SOLVE_FIELDS
    assert record["status"] in ("optimal", "feasible")
    assert record["peak_bytes"] == record["limit_bytes"] == record["smallest_limit_bytes"]
    assert record["overhead"] == pytest.approx(record["step_seconds"] / record["unplanned_seconds"] - 1)


def test_an_activation_limit_leaves_static_memory_out(run, profile: Profile) -> None:
    record = run("solve", "p.json", "--activation-limit", "420", "--json").json
    assert record["limit_bytes"] == profile.graph.static.total + 420
    assert record["peak_bytes"] <= record["limit_bytes"] < record["unplanned_peak_bytes"]
    result = run("solve", "p.json", "--activation-limit", "10", "--json")
    assert result.code == 3
    assert result.json["limit_bytes"] == profile.graph.static.total + 10


def test_infeasible_limit_exits_with_3_and_names_the_smallest(run, tmp_path: Path) -> None:
    smallest = run("solve", "p.json", "--limit", "min", "--json").json["peak_bytes"]
    result = run("solve", "p.json", "--limit", "60", "-o", "s.json", "--json")
    assert result.code == 3
    assert list(result.json) == SOLVE_FIELDS
    assert result.json["status"] == "infeasible"
    assert result.json["limit_bytes"] == 60
    assert result.json["smallest_limit_bytes"] == smallest
    assert f"({smallest} bytes" in result.err
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["solve", "p.json", "--limit", "-5"], 2, "limit '-5' is not usable"),
        (["solve", "p.json", "--limit", "much"], 2, "limit 'much' is not usable"),
        (["solve", "p.json", "--limit", "60%", "--strategy", "magic"], 2, "'magic'"),
        (["solve", "p.json"], 2, "no limit is given"),
        (["solve", "p.json", "--limit", "60%", "--activation-limit", "1GiB"], 2, "both memory_limit and"),
        (["solve", "missing.json", "--limit", "60%"], 1, "cannot read missing.json"),
        (["solve", "damaged.json", "--limit", "60%"], 1, "damaged.json is not a rematopt file"),
        (["solve", "foreign.json", "--limit", "60%"], 1, "foreign.json is not a rematopt file"),
        (["solve", "p.json", "--limit", "60%", "-o", "missing/s.json"], 1, "no folder missing"),
        (["pareto", "p.json", "--limits", "1"], 2, "limits=1"),
        (["pareto", "p.json", "--limits", "60%,x"], 2, "'x'"),
        (["inspect", "p.json", "--by", "layer"], 2, "expected module or op"),
        (["train", "zoo:mlp", "--schedule", "p.json"], 1, "expected a schedule"),
        (["profile", "missing.py:make"], 2, "no file missing.py"),
        (["profile", "zoo:mlp", "--set", "layers"], 2, "NAME=VALUE"),
        (["profile", "zoo:mlp", "--set", "layers=3"], 2, "it takes batch"),
        (["profile", "zoo:mlp", "--timing", "roofline:gameboy"], 2, "no rates are known for 'gameboy'"),
        (["profile", "zoo:mlp", "--sizes-only", "--timing", "measured"], 2, "roofline:local"),
        (["profile", "zoo:mlp", "--optimizer", "magic"], 2, "optimizer 'magic' is unknown"),
    ],
)
def test_errors_are_one_clear_line(run, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (tmp_path / "damaged.json").write_text((tmp_path / "p.json").read_text()[:-40])
    (tmp_path / "foreign.json").write_text('{"a": 1}')
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run(*arguments)
    assert result.code == code
    assert message in result.err
    assert "Traceback" not in result.err
    if not result.err.startswith("Usage"):
        assert result.err.startswith("error: ")
        assert result.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_pareto_writes_table_picture_and_schedules(run, tmp_path: Path) -> None:
    result = run("pareto", "p.json", "--limits", "3", "-o", "out", "--jobs", "1", "--time-limit", "2")
    assert result.code == 0
    assert "store-all" in result.out
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".csv", ".png", ".json"}
    records = run("pareto", "p.json", "--limits", "90%,min,10", "--jobs", "1", "--time-limit", "2", "--json").json
    assert [list(record) for record in records] == [SOLVE_FIELDS] * 3
    assert [record["status"] == "infeasible" for record in records] == [True, False, False]


def test_published_graphs_can_be_solved(run, tmp_path: Path) -> None:
    chain = {"cost": [1.0] * 4, "mem": [8] * 4, "edges": [[0, 1], [1, 2], [0, 3], [2, 3]]}
    (tmp_path / "published.json").write_text(json.dumps(chain))
    assert run("import-graph", "published.json", "-o", "g.json").code == 0
    assert run("solve", "g.json", "--limit", "min", "--json").json["status"] in ("optimal", "feasible")
    assert run("inspect", "g.json", "--json").json["forward_ops"] == 4


def test_inspect(run) -> None:
    assert [line.split()[0] for line in run("inspect", "p.json").out.splitlines()[-2:]] == ["4", "5"]
    assert run("inspect", "p.json", "--depth", "1").out.splitlines()[-1].startswith("  block")
    ops = run("inspect", "p.json", "--by", "op", "--top", "2").out.splitlines()[-2:]
    assert [line.split()[0] for line in ops] == ["f0", "f1"]
    run("solve", "p.json", "--limit", "60%", "-o", "s.json", "--time-limit", "2")
    assert "ops run again" in run("inspect", "s.json").out
    assert list(run("inspect", "s.json", "--json").json) == SOLVE_FIELDS
    modules = run("inspect", "p.json", "--json").json
    assert modules[0]["module"] == ""
    assert modules[0]["retained_bytes"] == 504


def test_version_and_help_start_without_torch() -> None:
    code = "import sys; from rematopt.cli import main; sys.argv = ['rematopt', '--version']\n"
    code += "try: main()\nexcept SystemExit: print('torch' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == ["rematopt 0.1.0", "False"]
