"""The Pareto curve: extra time against the memory limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from rematopt.graph import is_estimate
from rematopt.plot_style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    byte_unit,
    decorate,
    legend_below,
    new_axes,
    signed_percent,
)
from rematopt.schedule import Schedule, Status

if TYPE_CHECKING:
    from rematopt.comparison import Comparison
    from rematopt.front import Front

_BASELINE_STYLES = {"store-all": ("s", GREY), "recompute-all": ("X", RED), "chen-sqrt": ("^", PURPLE)}
_HEADROOM = 2.0
"""Baselines beyond this multiple of the curve's largest overhead are named at the edge instead of drawn."""


def plot_front(front: Front, *, measured: Sequence[Comparison] = (), title: str = "", ax: Axes | None = None) -> Axes:
    """Draw a front.

    The curve is a staircase, since a schedule serves every limit from its peak on. The shaded region
    below the bound holds no schedule; between two limits the bound of the upper one is drawn, which
    holds there, too.

    Parameters
    ----------
    front : Front
        Schedules by limit, and baselines.
    measured : sequence of Comparison
        Measured runs, drawn at their measured peak and time.
    title : str
        Title; by default what is shown.
    ax : Axes, optional
        Where to draw; by default a new figure.
    """
    ax = new_axes(ax)
    schedules = front.schedules
    unplanned = max((s.unplanned_peak_bytes for s in (*schedules, *front.baselines)), default=1)
    unit, factor = byte_unit(unplanned)
    highest = max((s.overhead for s in schedules), default=0.0)
    highest = max([highest, *(m.measured_ratio - 1 for m in measured), 0.01])
    if schedules:
        _draw_curve(ax, schedules, factor)
        _draw_bound(ax, schedules, factor)
    edge = _draw_baselines(ax, front.baselines, factor, highest)
    if measured:
        ax.plot(
            [m.measured_peak_bytes / factor for m in measured],
            [100 * (m.measured_ratio - 1) for m in measured],
            "D",
            color=GREEN,
            mfc="none",
            mew=1.6,
            ms=8,
            label="measured",
            zorder=5,
        )
    ax.set_ylim(-0.06 * edge, 1.12 * edge)
    signed_percent(ax)
    decorate(
        ax,
        title=title or "Cheapest training step by memory limit",
        x=f"peak memory of the step [{unit}]",
        y="extra time, estimated" if any(is_estimate(s.timing) for s in schedules) else "extra time",
    )
    legend_below(ax, columns=3)
    return ax


def _draw_curve(ax: Axes, schedules: Sequence[Schedule], factor: int) -> None:
    corners = [(s.peak_bytes / factor, 100 * s.overhead) for s in schedules]
    x, y = zip(*corners, strict=True)
    ax.plot(x, y, drawstyle="steps-post", color=BLUE, lw=1.4, alpha=0.7)
    ax.plot(x, y, "o", color=BLUE, ms=5.5, label="schedules found", zorder=4)
    proved = [corner for s, corner in zip(schedules, corners, strict=True) if s.status is Status.OPTIMAL]
    if proved:
        ax.plot(
            *zip(*proved, strict=True), "o", mfc="white", mec=BLUE, mew=1.6, ms=5.5, label="proved optimal", zorder=5
        )


def _draw_bound(ax: Axes, schedules: Sequence[Schedule], factor: int) -> None:
    limits = [(s.limit_bytes or s.peak_bytes) / factor for s in schedules]
    bounds = [100 * (s.bound_seconds / s.unplanned_seconds - 1) for s in schedules]
    ax.fill_between(
        limits,
        bounds,
        y2=-100,
        step="pre",
        color=ORANGE,
        alpha=0.3,
        lw=0,
        label="bound: no schedule can be here",
    )


def _draw_baselines(ax: Axes, baselines: Sequence[Schedule], factor: int, highest: float) -> float:
    """Draw the baselines and return the upper edge of the picture in percent."""
    inside = [s for s in baselines if s.overhead <= _HEADROOM * highest]
    edge = 100 * max([highest, *(s.overhead for s in inside)])
    for schedule in baselines:
        marker, color = _BASELINE_STYLES.get(schedule.strategy, ("P", GREY))
        height, label = 100 * schedule.overhead, schedule.strategy
        if schedule not in inside:
            label += f" (off the scale: {height:+.0f} %)"
            height = 1.06 * edge
        ax.plot(schedule.peak_bytes / factor, height, marker, color=color, ms=8, label=label, zorder=3, clip_on=False)
    return edge
