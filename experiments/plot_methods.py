"""All methods on one model: memory against time, or against recomputed operations."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from experiments.side_by_side import OURS, dominates
from rematopt.plot_style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, byte_unit, decorate, new_axes, signed_percent
from rematopt.records import Record

_LIGHT = "#C4C4C4"
_STYLES: dict[str, tuple[str, str]] = {
    "plain": ("s", GREY),
    "aot_eager": ("s", "black"),
    "checkpoint blocks": ("^", PURPLE),
    "checkpoint 1 block in 2": ("v", PURPLE),
    "checkpoint_sequential": ("<", PURPLE),
    "gradient_checkpointing_enable": (">", PURPLE),
    "selective checkpoint": ("P", GREEN),
    "memory budget": ("D", ORANGE),
    "inductor budget": ("d", ORANGE),
    "chen-sqrt": ("*", RED),
    "chen-greedy": ("X", RED),
    "revolve": ("h", RED),
    "chain": ("p", RED),
    "lp-rounding": ("8", RED),
    "milp": ("o", "#56B4E9"),
}
_LOWEST_TOP = 25.0
"""The picture reaches at least to this many percent."""

_SPREAD = 3.0
"""Points beyond this multiple of our curve's largest extra time are drawn at the edge."""


def plot_methods(
    records: Sequence[Record], *, value: str = "measured_ratio", title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw peak memory against extra time of every method on one model.

    Dominated points are grey, wrong gradients crossed out. Our schedules are joined to a staircase, as each serves
    every larger limit, too; in the shaded region below their bound there is no schedule.

    Parameters
    ----------
    records : sequence of dict
        Of one model, as :class:`experiments.race.Race` gives them.
    value : str
        ``measured_ratio``, or ``recomputed_flops`` for what does not depend on the machine's mood.
    title : str
        Title; by default what is shown.
    ax : Axes, optional
        Where to draw; by default a new figure.
    """
    ax = new_axes(ax, size=(8.6, 4.8))
    ran = [record for record in records if not record["error"]]
    unit, factor = byte_unit(max((r["measured_peak_bytes"] for r in ran), default=1))
    height = _Height(value, ran)
    ours = sorted((r for r in ran if r["method"] == OURS), key=lambda r: float(r["measured_peak_bytes"]))
    # The bound is a multiple of the captured graph's step, heights are multiples of the plain model's.
    unplanned = next((r["measured_ratio"] for r in ran if r["method"] == "aot_eager"), 1.0)
    if ours:
        _draw_ours(ax, ours, height, factor, unplanned if value == "measured_ratio" else None)
    for method in dict.fromkeys(r["method"] for r in ran if r["method"] != OURS):
        _draw_method(ax, method, [r for r in ran if r["method"] == method], ran, height, factor)
    ax.set_ylim(height.bottom, 1.15 * height.top)
    signed_percent(ax)
    what = "extra time" if value == "measured_ratio" else "operations run again"
    decorate(ax, title=title or f"Peak memory against {what}", x=f"measured peak of the step [{unit}]", y=what)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8.5, frameon=False)
    return ax


class _Height:
    """Turns a record into its height in percent, and keeps outliers inside the picture."""

    def __init__(self, value: str, records: Sequence[Record]) -> None:
        self.value = value
        ours = [self.percent(r) for r in records if r["method"] == OURS]
        everything = [self.percent(r) for r in records]
        highest = max(everything, default=1.0)
        self.top = max(_LOWEST_TOP, min(highest, _SPREAD * max(ours, default=highest)))
        self.bottom = min(-0.05 * self.top, 1.1 * min(everything, default=0.0))

    def percent(self, record: Record) -> float:
        if self.value == "measured_ratio":
            return float(100 * (record["measured_ratio"] - 1))
        return float(100 * record["recomputed_flops"] / max(1, record["step_flops"]))

    def shown(self, record: Record) -> float:
        return min(self.percent(record), self.top)


def _draw_ours(ax: Axes, ours: Sequence[Record], height: _Height, factor: int, unplanned: float | None) -> None:
    x = [r["measured_peak_bytes"] / factor for r in ours]
    y = [height.percent(r) for r in ours]
    ax.plot(x, y, drawstyle="steps-post", color=BLUE, lw=1.4, alpha=0.7, zorder=4)
    ax.plot(x, y, "o", color=BLUE, ms=6.5, label="rematopt (auto)", zorder=6)
    if unplanned is not None:
        low = [100 * (r["ratio_low"] - 1) for r in ours]
        high = [100 * (r["ratio_high"] - 1) for r in ours]
        ax.vlines(x, low, high, color=BLUE, lw=1.0, alpha=0.6, zorder=4)
        bounds = [(r["limit_bytes"] / factor, 100 * (r["bound_ratio"] * unplanned - 1)) for r in ours]
        ax.fill_between(
            [at for at, _ in bounds],
            [level for _, level in bounds],
            y2=height.bottom,
            step="pre",
            color=BLUE,
            alpha=0.12,
            lw=0,
            label="below the proved bound",
        )


def _draw_method(
    ax: Axes, method: str, own: Sequence[Record], everything: Sequence[Record], height: _Height, factor: int
) -> None:
    marker, color = _STYLES.get(method, ("o", GREY))
    label: str | None = method
    for record in sorted(own, key=lambda r: _beaten(r, everything, height.value)):
        beaten = _beaten(record, everything, height.value)
        x, y = record["measured_peak_bytes"] / factor, height.shown(record)
        ax.plot(x, y, marker, color=_LIGHT if beaten else color, mec=color, mew=0.6, ms=7, ls="none", label=label)
        label = None
        if height.percent(record) > height.top:
            text = f"{height.percent(record):+.0f} %"
            ax.annotate(text, (x, y), (2, 7), textcoords="offset points", fontsize=7, rotation=60)
        if record["gradients"] == "wrong":
            ax.plot(x, y, "x", color="black", ms=11, mew=1.4, ls="none", zorder=7)


def _beaten(record: Record, everything: Sequence[Record], value: str) -> bool:
    others = (r for r in everything if r["gradients"] != "wrong")
    return any(dominates(other, record, value) for other in others)
