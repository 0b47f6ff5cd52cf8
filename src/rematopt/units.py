"""Reading and writing sizes and memory limits."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

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


def parse_share(text: str) -> float:
    """Read a share written in percent, ``20%``, or as a number, ``0.2``.

    Raises
    ------
    InvalidInputError
        If the text is none, or a negative one.
    """
    try:
        share = _percent(text.strip()) if text.strip().endswith("%") else float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < math.inf:
        raise InvalidInputError(f"cannot read {text!r} as a share; write 20% or 0.2")
    return share


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


@dataclass(frozen=True)
class AboveSmallest:
    """A limit on the way from the smallest feasible limit (share 0) to the unplanned peak (share 1)."""

    share: float

    def in_bytes(self, *, smallest_limit_bytes: int, unplanned_peak_bytes: int) -> int:
        """Bytes, once both ends are known."""
        return smallest_limit_bytes + math.floor(self.share * max(0, unplanned_peak_bytes - smallest_limit_bytes))


def read_limit(limit: int | float | str, *, unplanned_peak_bytes: int) -> int | AboveSmallest:
    """Read a memory limit as people write it.

    Parameters
    ----------
    limit : int, float or str
        Bytes as an integer, a size (``"8GiB"``), a share of the unplanned peak (``"60%"`` or a float
        between 0 and 1), ``"min"`` for the smallest peak for which a schedule is found, or
        ``"min+50%"`` for a share of the way from there to the unplanned peak.
    unplanned_peak_bytes : int
        What a share refers to.

    Returns
    -------
    int or AboveSmallest
        Bytes, or what becomes bytes once the smallest feasible limit is known.

    Raises
    ------
    InvalidInputError
        If it is none of these, or not positive.
    """
    try:
        found = _read(limit, unplanned_peak_bytes)
    except (ValueError, OverflowError):
        found = 0
    if isinstance(found, int) and found <= 0:
        raise InvalidInputError(
            f"memory limit {limit!r} is not usable; give positive bytes (8589934592), a size ('8GiB'), "
            "a share of the unplanned peak ('60%'), 'min', or a share of the way from there to the unplanned "
            "peak ('min+50%')"
        )
    return found


def check_one_limit(memory_limit: object, activation_limit: object) -> None:
    """Make sure that one limit is given, and only one.

    Raises
    ------
    InvalidInputError
        If there is none, or both.
    """
    if (memory_limit is None) == (activation_limit is None):
        both = "both memory_limit and activation_limit are" if memory_limit is not None else "no limit is"
        raise InvalidInputError(
            f"{both} given; give memory_limit (--limit) for the whole step, or activation_limit (--activation-limit) "
            "for what comes on top of parameters, gradients that are present, optimizer state and inputs"
        )


def read_limits(
    memory_limit: int | float | str | None,
    activation_limit: int | float | str | None,
    *,
    unplanned_peak_bytes: int,
    static_bytes: int,
) -> int | AboveSmallest:
    """Read whichever of the two limits is given, and return the limit on the whole step.

    Parameters
    ----------
    memory_limit : int, float, str or None
        As for :func:`read_limit`.
    activation_limit : int, float, str or None
        Written alike; a limit on what comes on top of static memory. A share of it is a share of
        what the unplanned step needs there.
    unplanned_peak_bytes, static_bytes : int
        Peak of the unplanned step, and the static memory in it.

    Raises
    ------
    InvalidInputError
        If none or both are given, or the one that is cannot be used.
    """
    check_one_limit(memory_limit, activation_limit)
    if activation_limit is None:
        assert memory_limit is not None
        return read_limit(memory_limit, unplanned_peak_bytes=unplanned_peak_bytes)
    found = read_limit(activation_limit, unplanned_peak_bytes=unplanned_peak_bytes - static_bytes)
    return found if isinstance(found, AboveSmallest) else found + static_bytes


def _read(limit: object, unplanned_peak_bytes: int) -> int | AboveSmallest:
    """Bytes, 0 where the limit is no limit."""
    match limit:
        case bool():
            return 0
        case int():
            return limit
        case float() if 0 < limit < 1:
            return math.floor(limit * unplanned_peak_bytes)
        case str():
            text = limit.strip().lower()
            if text == SMALLEST:
                return AboveSmallest(0.0)
            if text.startswith(SMALLEST):
                share = _percent(text.removeprefix(SMALLEST).strip().removeprefix("+"))
                return AboveSmallest(share) if 0 <= share <= 1 else 0
            return math.floor(_percent(text) * unplanned_peak_bytes) if text.endswith("%") else parse_bytes(text)
    return 0


def _percent(text: str) -> float:
    """A share written in percent; ValueError for anything else."""
    if not text.endswith("%"):
        raise ValueError(text)
    return float(text[:-1]) / 100
