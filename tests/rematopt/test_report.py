"""The report: one page that holds everything, and the pictures of schedules by module."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from typer.testing import CliRunner

from rematopt import plot_schedule
from rematopt.cli import app
from rematopt.errors import ArtefactError, InvalidScheduleError
from rematopt.plot_schedule import MOST_ROWS, plot_kept, plot_runs
from rematopt.profile import Profile, Timing
from rematopt.report import write_report
from rematopt.schedule import Schedule
from rematopt.solver import solve
from tests.solver.vgg import vgg16


@pytest.fixture(scope="module")
def profile() -> Profile:
    graph = vgg16()
    ops = tuple(replace(op, module=f"features.{i % 50}.<conv>") for i, op in enumerate(graph.ops))
    graph = replace(graph, ops=ops)
    return Profile(graph=graph, device="a device", versions={}, timings=(Timing.MEASURED,) * len(graph.ops))


@pytest.fixture(scope="module")
def schedule(profile: Profile) -> Schedule:
    return solve(profile, "min+40%", time_limit=3)


def test_page_holds_models_tables_and_pictures(profile: Profile, schedule: Schedule, tmp_path: Path) -> None:
    profile.save(tmp_path / "profile.json")
    schedule.save(tmp_path / "schedule.json")
    (tmp_path / "rows.csv").write_text("method,measured_ratio\n<plain>,1.23456789\n")
    (tmp_path / "figure.png").write_bytes(b"PNG")
    (tmp_path / "other.json").write_text("[]")
    result = CliRunner().invoke(app, ["report", str(tmp_path), "-o", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text()
    assert "&lt;plain&gt;" in page
    assert "1.235" in page
    assert page.count("data:image/png;base64,") == 5
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "<conv>" not in page


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="holds no profile"):
        write_report(tmp_path, tmp_path / "page.html")
    with pytest.raises(ArtefactError, match="no folder"):
        write_report(tmp_path / "none", tmp_path / "page.html")


def test_a_broken_table_is_named_and_an_empty_one_left_out(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ArtefactError, match="holds no profile"):
        write_report(tmp_path, tmp_path / "page.html")
    for content in (b"a,b\n1\n", b"a,b\n1,2,3\n", b"a\n\xff\n"):
        (tmp_path / "rows.csv").write_bytes(content)
        with pytest.raises(ArtefactError, match=r"rows\.csv cannot be read as a table"):
            write_report(tmp_path, tmp_path / "page.html")


def test_of_schedules_for_one_limit_the_cheapest_is_shown(profile: Profile, schedule: Schedule, tmp_path: Path) -> None:
    profile.save(tmp_path / "profile.json")
    schedule.save(tmp_path / "a.json")
    replace(schedule, seconds=2 * schedule.seconds, strategy="dearer").save(tmp_path / "b.json")
    write_report(tmp_path, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "dearer" not in page
    assert schedule.strategy in page


def image(ax: Axes) -> np.ndarray:
    return np.asarray(ax.images[0].get_array())


def test_pictures_show_runs_and_kept_bytes(
    profile: Profile, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot_schedule, "COLUMNS", 10**6)
    graph = profile.graph
    runs = image(plot_runs(graph, schedule))
    assert runs.shape[0] <= MOST_ROWS
    assert (runs == 3).sum() == schedule.recomputed > 0
    assert (runs > 0).sum() == len(list(schedule.runs))
    monkeypatch.setattr(plot_schedule, "byte_unit", lambda _: ("B", 1))
    sizes = [data.bytes for data in graph.data if data.producer < graph.forward_count]
    kept = image(plot_kept(graph, schedule)).sum(axis=0)
    unplanned = image(plot_kept(graph, solve(profile, "100%"))).sum(axis=0)
    assert 0 <= kept.min() <= kept.max() < unplanned.max() <= sum(sizes)


def test_columns_are_joined(profile: Profile, schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_schedule, "COLUMNS", 7)
    assert image(plot_runs(profile.graph, schedule)).shape[1] <= 7


def test_another_graphs_schedule_is_refused(profile: Profile, schedule: Schedule) -> None:
    smaller = replace(schedule, steps=schedule.steps[:-3])
    for plot in (plot_kept, plot_runs):
        with pytest.raises(InvalidScheduleError):
            plot(profile.graph, smaller)
