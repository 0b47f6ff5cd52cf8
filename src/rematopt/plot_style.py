"""What the pictures share: colours that colour-blind people can tell apart, axes, units, saving."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rematopt.artefacts import write_atomically
from rematopt.errors import InvalidInputError

# Okabe and Ito's palette.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
RED = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#6B6B6B"

_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


def new_axes(ax: Axes | None, *, size: tuple[float, float] = (7.2, 4.4)) -> Axes:
    """Return ``ax``, or the axes of a new figure that no global state holds on to."""
    return ax if ax is not None else Figure(figsize=size, layout="constrained", dpi=150).add_subplot()


def decorate(ax: Axes, *, title: str, x: str, y: str, pad: float = 8.0) -> None:
    """Set title (``pad`` points above the axes) and labels, and take away what carries no information."""
    ax.set_title(title, loc="left", fontsize=11, pad=pad)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)


def legend_below(ax: Axes, *, columns: int) -> None:
    """Put the legend below the axes, where it covers no data."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns, fontsize=8.5, frameon=False)


def byte_unit(largest: float) -> tuple[str, int]:
    """Return the unit in which ``largest`` bytes are a number of one to four digits, and its size."""
    return next(((name, size) for name, size in _UNITS if largest >= 2 * size), _UNITS[-1])


def whole_numbers(ax: Axes) -> None:
    """Put the ticks of the x axis at whole numbers."""
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def signed_percent(ax: Axes) -> None:
    """Label the y axis in percent with a sign; the values are percent already."""
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.3g} %" if value else "0 %"))


def finish(ax: Axes, path: str | os.PathLike[str] | None) -> Figure:
    """Save the picture that ``ax`` belongs to, where a path is given, and return it.

    Raises
    ------
    InvalidInputError
        If the suffix of the path is no picture format.
    ArtefactError
        If the file cannot be written.
    """
    figure = cast(Figure, ax.get_figure(root=True))
    if path is not None:
        form = Path(path).suffix.lstrip(".") or "png"
        if form not in figure.canvas.get_supported_filetypes():
            raise InvalidInputError(f"cannot draw {path}: {form!r} is no picture format; use .png, .svg or .pdf")
        buffer = io.BytesIO()
        figure.savefig(buffer, format=form)
        write_atomically(path, buffer.getvalue())
    return figure
