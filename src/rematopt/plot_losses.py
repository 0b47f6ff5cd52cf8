"""Loss curves of training runs that must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from rematopt.plot_style import BLUE, GREEN, ORANGE, PURPLE, RED, decorate, new_axes, whole_numbers

_STYLES = ((BLUE, 6.0, "-"), (ORANGE, 3.6, "-"), (GREEN, 1.8, "--"), (PURPLE, 1.4, ":"), (RED, 1.0, "-."))
"""Colour, width and dashes; each later curve is thinner, so that equal curves all remain visible."""


def plot_losses(losses: Mapping[str, Sequence[float]], *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the loss at each step, a curve a run.

    Parameters
    ----------
    losses : mapping
        Name of the run and its losses in order.
    title : str
        Title; by default whether all runs are identical.
    ax : Axes, optional
        Where to draw; by default a new figure.
    """
    ax = new_axes(ax)
    for number, (name, values) in enumerate(losses.items()):
        color, width, dashes = _STYLES[number % len(_STYLES)]
        ax.plot(range(1, len(values) + 1), values, color=color, lw=width, ls=dashes, label=name)
    identical = len({tuple(values) for values in losses.values()}) <= 1
    verdict = "identical at every step" if identical else "NOT identical"
    decorate(ax, title=title or f"Training loss, {len(losses)} runs: {verdict}", x="training step", y="loss")
    whole_numbers(ax)
    ax.legend(fontsize=8.5)
    return ax
