"""What the pictures show, read back from the axes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rematopt.comparison import Comparison
from rematopt.front import pareto
from rematopt.plot_front import plot_front
from rematopt.plot_losses import plot_losses
from rematopt.plot_timeline import plot_timeline, timeline
from rematopt.profile import Profile
from rematopt.solver import solve
from rematopt.solver.sequence import first_runs, steps_from_runs


def line(ax: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    found = next(drawn for drawn in ax.lines if drawn.get_label() == label)
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def test_timeline_is_the_simulators(profile: Profile) -> None:
    graph = profile.graph
    schedule = solve(profile, "min", time_limit=2)
    starts, resident = timeline(graph, schedule.steps)
    assert resident.max() == schedule.peak_bytes
    assert starts[-1] == pytest.approx(schedule.seconds)
    plain_starts, plain = timeline(graph, steps_from_runs(graph, first_runs(graph)))
    assert plain.max() == schedule.unplanned_peak_bytes
    assert plain_starts[-1] == pytest.approx(schedule.unplanned_seconds)

    ax = plot_timeline(graph, schedule)
    x, y = line(ax, "this schedule")
    assert y.max() == schedule.peak_bytes  # drawn in bytes, since the graph is tiny
    assert x[-1] == pytest.approx(schedule.seconds)
    assert line(ax, "limit")[1][0] == schedule.limit_bytes
    assert "recomputing" in ax.get_legend_handles_labels()[1]


def test_timeline_without_recomputation_has_no_strip(profile: Profile) -> None:
    ax = plot_timeline(profile.graph, solve(profile, 2**30))
    assert "recomputing" not in ax.get_legend_handles_labels()[1]


def test_front_shows_schedules_bound_baselines_and_measurements(profile: Profile) -> None:
    front = pareto(profile, limits=4, time_limit=2, jobs=1)
    run = Comparison(
        limit_bytes=300,
        predicted_peak_bytes=300,
        measured_peak_bytes=290,
        predicted_ratio=1.1,
        measured_ratio=1.2,
        losses=(),
    )
    axes = Figure().add_subplot()
    assert plot_front(front, measured=[run], ax=axes) is axes
    x, y = line(axes, "schedules found")
    assert list(x) == [s.peak_bytes for s in front.schedules]
    assert list(y) == pytest.approx([100 * s.overhead for s in front.schedules])
    assert line(axes, "measured") == (pytest.approx([290]), pytest.approx([20.0]))
    labels = axes.get_legend_handles_labels()[1]
    assert "bound: no schedule can be here" in labels
    assert "store-all" in labels
    low, high = axes.get_ylim()
    assert low < 0
    assert high >= 20


def test_baseline_off_the_scale_is_named_with_its_value(profile: Profile) -> None:
    front = pareto(profile, limits=["90%"], strategy="greedy", jobs=1)
    costly = replace(front.baselines[-1], seconds=20 * front.baselines[-1].unplanned_seconds)
    labels = plot_front(replace(front, baselines=(costly,))).get_legend_handles_labels()[1]
    assert f"{costly.strategy} (off the scale: +1900 %)" in labels


def test_losses_say_whether_they_agree() -> None:
    same = plot_losses({"plain": [2.0, 1.0], "planned": [2.0, 1.0]})
    assert same.get_title(loc="left") == "Training loss, 2 runs: identical at every step"
    other = plot_losses({"plain": [2.0, 1.0], "planned": [2.0, 1.0000001]})
    assert "NOT identical" in other.get_title(loc="left")
