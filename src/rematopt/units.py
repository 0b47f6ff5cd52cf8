"""Reading and writing sizes and memory limits."""

from __future__ import annotations

import math
import re

from rematopt.errors import InvalidInputError

_FACTORS = {"": 1, "b": 1}
for _i, _letter in enumerate("kmgt", start=1):
    _FACTORS[f"{_letter}ib"] = 1024**_i
    _FACTORS[f"{_letter}b"] = 1000**_i

SMALLEST = "min"
"""The limit that stands for the smallest peak for which a schedule is found."""


def parse_bytes(text: str) -> int:
    """Read a size such as ``8GiB``, ``1.5 GB``, ``2048``; fractions of a byte are dropped.

    Raises
    ------
    InvalidInputError
        If the text is no size, or a negative one.
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _FACTORS:
        raise InvalidInputError(f"cannot read {text!r} as a size; write bytes, or a number with a unit: 8GiB, 500MB")
    return (
        math.floor(float(match[1]) * _FACTORS[match[2]])
        if "." in match[1] or "e" in match[1]
        else (int(match[1]) * _FACTORS[match[2]])
    )


def format_bytes(size: float) -> str:
    """Write a size with a binary unit and three or four digits: ``1.50 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def format_seconds(seconds: float) -> str:
    """Write a duration with a unit that suits it: ``12.3 ms``."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def limit_in_bytes(limit: int | float | str, *, unplanned_peak_bytes: int) -> int | None:
    """Turn a memory limit as people write it into bytes.

    Parameters
    ----------
    limit : int, float or str
        Bytes as an integer, a size (``"8GiB"``), a share of the unplanned peak (``"60%"`` or a float
        between 0 and 1), or ``"min"``.
    unplanned_peak_bytes : int
        What a share refers to.

    Returns
    -------
    int or None
        Bytes; None for ``"min"``.

    Raises
    ------
    InvalidInputError
        If it is none of these, or not positive.
    """
    bad = InvalidInputError(
        f"memory limit {limit!r} is not usable; give positive bytes (8589934592), a size ('8GiB'), "
        "a share of the unplanned peak ('60%') or 'min'"
    )
    if isinstance(limit, bool) or not isinstance(limit, int | float | str):
        raise bad
    if isinstance(limit, float):
        if not 0 < limit < 1:
            raise bad
        return math.floor(limit * unplanned_peak_bytes)
    if isinstance(limit, str):
        text = limit.strip().lower()
        if text == SMALLEST:
            return None
        try:
            size = (
                math.floor(float(text[:-1]) / 100 * unplanned_peak_bytes) if text.endswith("%") else parse_bytes(text)
            )
        except (ValueError, OverflowError):
            raise bad from None
    else:
        size = limit
    if size <= 0:
        raise bad
    return size
