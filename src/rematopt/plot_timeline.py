"""The memory timeline: resident bytes while the training step runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from rematopt.graph import Graph
from rematopt.plot_style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, byte_unit, decorate, legend_below, new_axes
from rematopt.schedule import Compute, Schedule, Step
from rematopt.simulator import simulate
from rematopt.solver.sequence import first_runs, steps_from_runs
from rematopt.units import format_bytes, format_seconds


@dataclass(frozen=True)
class Curve:
    """A measured step: what was resident, and since when.

    Parameters
    ----------
    seconds : tuple of float
        Times since the step began, rising.
    resident_bytes : tuple of int
        Resident bytes from each of them on.
    """

    seconds: tuple[float, ...]
    resident_bytes: tuple[int, ...]


def plot_timeline(
    graph: Graph, schedule: Schedule, *, measured: Curve | None = None, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw what is resident over time under a schedule, and without one.

    Parameters
    ----------
    graph : Graph
        The graph that the schedule was made for.
    schedule : Schedule
        The schedule to draw.
    measured : Curve, optional
        A measured step; its clock is stretched so that it ends where the prediction does.
    title : str
        Title; by default peak and extra time.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Raises
    ------
    InvalidScheduleError
        If the schedule was made for another graph and cannot run on this one.
    """
    ax = new_axes(ax, size=(8.4, 4.2))
    steps = schedule.steps
    seconds, resident = timeline(graph, steps)
    plain_seconds, plain_resident = timeline(graph, steps_from_runs(graph, first_runs(graph)))
    unit, factor = byte_unit(max(plain_resident.max(initial=1), resident.max(initial=1)))
    scale, time_unit = (1e3, "ms") if seconds[-1] < 2 else (1.0, "s")
    ax.fill_between(seconds * scale, resident / factor, step="post", color=BLUE, alpha=0.25, lw=0, label="_resident")
    ax.plot(seconds * scale, resident / factor, drawstyle="steps-post", color=BLUE, lw=1.3, label="this schedule")
    ax.plot(
        plain_seconds * scale,
        plain_resident / factor,
        drawstyle="steps-post",
        color=GREY,
        lw=1.0,
        label="without rematerialization",
    )
    ax.axhline(graph.static.total / factor, color=GREEN, ls=":", lw=1.3, label="parameters and other static memory")
    if measured is not None:
        _draw_measured(ax, measured, end=seconds[-1] * scale, factor=factor)
    if schedule.limit_bytes is not None:
        ax.axhline(schedule.limit_bytes / factor, color=RED, ls="--", lw=1.3, label="limit")
    _mark_recomputation(ax, graph, steps, scale)
    boundary = _seconds_before(graph, steps, schedule.forward_end) * scale
    ax.axvline(boundary, color="black", lw=0.8)
    highest = max(measured.resident_bytes, default=0) if measured is not None else 0
    top = 1.04 * max(resident.max(initial=0), plain_resident.max(initial=0), highest) / factor
    ax.text(boundary, top, "forward ", ha="right", va="bottom", fontsize=8.5)
    ax.text(boundary, top, " backward", ha="left", va="bottom", fontsize=8.5)
    ax.set_ylim(0, top)
    ax.margins(x=0.01)
    decorate(
        ax,
        pad=18,
        title=title or _title(schedule),
        x=f"{'estimated ' if graph.estimated else ''}time in the step [{time_unit}]",
        y=f"resident memory [{unit}]",
    )
    legend_below(ax, columns=3)
    return ax


def timeline(graph: Graph, steps: tuple[Step, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return start times in seconds and resident bytes, an entry an op run and one for the end.

    An entry is what is resident while the op runs; frees take no time and have no entry.
    """
    resident = simulate(graph, steps).resident_bytes
    runs = [(step.op, resident[at]) for at, step in enumerate(steps) if isinstance(step, Compute)]
    starts = np.cumsum([0.0, *(graph.ops[i].seconds for i, _ in runs)])
    return starts, np.array([*(level for _, level in runs), *resident[-1:]], dtype=np.float64)


def _title(schedule: Schedule) -> str:
    if not schedule.recomputed:
        return f"Peak {format_bytes(schedule.peak_bytes)} without rematerialization, {format_seconds(schedule.seconds)}"
    return (
        f"Peak {format_bytes(schedule.peak_bytes)} instead of {format_bytes(schedule.unplanned_peak_bytes)}, "
        f"{100 * schedule.overhead:+.1f} % time ({format_seconds(schedule.seconds)})"
    )


def _draw_measured(ax: Axes, measured: Curve, *, end: float, factor: int) -> None:
    times = np.array(measured.seconds)
    stretch = end / times[-1] if times[-1] else 1.0
    levels = np.array(measured.resident_bytes) / factor
    ax.plot(times * stretch, levels, drawstyle="steps-post", color=PURPLE, lw=0.9, label="measured")


def _seconds_before(graph: Graph, steps: tuple[Step, ...], end: int) -> float:
    return sum(graph.ops[step.op].seconds for step in steps[:end] if isinstance(step, Compute))


def _mark_recomputation(ax: Axes, graph: Graph, steps: tuple[Step, ...], scale: float) -> None:
    """Draw a strip below the curve wherever an op runs again."""
    seen: set[int] = set()
    spans: list[tuple[float, float]] = []
    now = 0.0
    for step in steps:
        if isinstance(step, Compute):
            duration = graph.ops[step.op].seconds * scale
            if step.op in seen:
                spans.append((now, duration))
            seen.add(step.op)
            now += duration
    if spans:
        strip = (0.0, 0.025)
        ax.broken_barh(spans, strip, transform=ax.get_xaxis_transform(), color=ORANGE, label="recomputing", zorder=4)
