"""A schedule by module: what runs when, and what is kept until when (the matrices R and S of the literature)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from numpy.typing import NDArray

from rematopt.graph import Graph, Phase
from rematopt.plot_style import BLUE, GREEN, ORANGE, byte_unit, new_axes
from rematopt.schedule import Compute, Schedule
from rematopt.simulator import simulate

MOST_ROWS = 30
"""Modules are joined to those they lie in until no more rows than this are left."""

COLUMNS = 240
"""Most moments of the step that are told apart."""

_NOTHING, _FORWARD, _BACKWARD, _AGAIN = range(4)
_COLORS = ("white", BLUE, GREEN, ORANGE)


def plot_kept(graph: Graph, schedule: Schedule, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw how many bytes of each module's forward results are alive during the step.

    Parameters
    ----------
    graph : Graph
        The graph that the schedule was made for.
    schedule : Schedule
        The schedule.
    title : str
        Title; by default what is shown.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Raises
    ------
    InvalidScheduleError
        If the schedule was made for another graph and cannot run on this one.
    """
    simulate(graph, schedule.steps)
    names, rows = _rows(graph)
    kept = _kept(graph, schedule, rows, len(names))
    unit, factor = byte_unit(kept.max(initial=1))
    ax = _new(ax, names)
    image = ax.imshow(
        _joined(kept) / factor, aspect="auto", cmap="Blues", interpolation="nearest", extent=_extent(names)
    )
    ax.figure.colorbar(image, ax=ax, label=f"alive [{unit}]", pad=0.02)
    _decorate(ax, names, _boundary(schedule), title or "Forward results that are alive, by module")
    return ax


def plot_runs(graph: Graph, schedule: Schedule, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw when the ops of each module run for the first time, and when again.

    Parameters and errors are those of :func:`plot_kept`.
    """
    simulate(graph, schedule.steps)
    names, rows = _rows(graph)
    ax = _new(ax, names)
    image = _joined(_runs(graph, schedule, rows, len(names)))
    ax.imshow(
        image,
        aspect="auto",
        cmap=ListedColormap(_COLORS),
        vmin=_NOTHING,
        vmax=_AGAIN,
        interpolation="nearest",
        extent=_extent(names),
    )
    _decorate(ax, names, _boundary(schedule), title or "Ops that run, by module")
    parts = (("forward", BLUE), ("backward", GREEN), ("again", ORANGE))
    ax.legend(
        handles=[Patch(color=color, label=label) for label, color in parts],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.45 / _height(names)),
        ncols=3,
        fontsize=8.5,
        frameon=False,
    )
    return ax


def _rows(graph: Graph) -> tuple[list[str], list[int]]:
    """Names of the rows, and the row of each op."""
    deepest = max((op.module.count(".") + 1 for op in graph.ops), default=1)
    for depth in range(deepest, -1, -1):
        paths = [".".join(op.module.split(".")[:depth]) or "(model)" for op in graph.ops]
        names = list(dict.fromkeys(paths))
        if len(names) <= MOST_ROWS:
            break
    where = {name: at for at, name in enumerate(names)}
    return names, [where[path] for path in paths]


def _kept(graph: Graph, schedule: Schedule, rows: Sequence[int], count: int) -> NDArray[np.float64]:
    """For each row and op run the bytes of forward results alive while it runs."""
    alive = np.zeros(count)
    held: set[int] = set()
    columns = []
    for step in schedule.steps:
        if isinstance(step, Compute):
            fresh = [d for d in graph.ops[step.op].outputs if d not in held]
            held.update(fresh)
            if graph.ops[step.op].phase is Phase.FORWARD:
                alive[rows[step.op]] += sum(graph.data[d].bytes for d in fresh)
            columns.append(alive.copy())
        else:
            held.discard(step.data)
            producer = graph.data[step.data].producer
            if graph.ops[producer].phase is Phase.FORWARD:
                alive[rows[producer]] -= graph.data[step.data].bytes
    return np.array(columns).T


def _runs(graph: Graph, schedule: Schedule, rows: Sequence[int], count: int) -> NDArray[np.float64]:
    """For each row and op run what kind of run it is."""
    runs = list(schedule.runs)
    kinds = np.full((count, len(runs)), _NOTHING, dtype=np.float64)
    seen: set[int] = set()
    for at, op in enumerate(runs):
        first = _FORWARD if graph.ops[op].phase is Phase.FORWARD else _BACKWARD
        kinds[rows[op], at] = _AGAIN if op in seen else first
        seen.add(op)
    return kinds


def _joined(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Join neighbouring columns, of which the largest value counts, until they can be told apart."""
    width = -(-values.shape[1] // COLUMNS)
    starts = np.arange(0, values.shape[1], width)
    joined: NDArray[np.float64] = np.maximum.reduceat(values, starts, axis=1)
    return joined


def _boundary(schedule: Schedule) -> float:
    """Where backward begins, as a share of the op runs."""
    runs = [at for at, step in enumerate(schedule.steps) if isinstance(step, Compute)]
    return sum(at < schedule.forward_end for at in runs) / max(1, len(runs))


def _height(names: Sequence[str]) -> float:
    return 1.1 + 0.2 * len(names)


def _new(ax: Axes | None, names: Sequence[str]) -> Axes:
    return new_axes(ax, size=(8.4, _height(names)))


def _extent(names: Sequence[str]) -> tuple[float, float, float, float]:
    return 0.0, 1.0, len(names) - 0.5, -0.5


def _decorate(ax: Axes, names: Sequence[str], boundary: float, title: str) -> None:
    ax.axvline(boundary, color="black", lw=0.8)
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_xticks([boundary / 2, (1 + boundary) / 2], ["forward", "backward"], fontsize=8.5)
    ax.tick_params(length=0)
    ax.set_title(title, loc="left", fontsize=11)
