"""Memory in integer units: solvers go wrong on byte-sized coefficients.

HiGHS has called feasible problems infeasible, and CP-SAT has proved wrong optima, on coefficients
above some millions. All sizes therefore become whole numbers of a unit below :data:`MOST_UNITS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_UNITS = 2**19
"""Largest number of units of a limit; HiGHS's row tolerance of 1e-6 is then well below one unit."""


@dataclass(frozen=True)
class Units:
    """Bytes a unit, and which way to round.

    Parameters
    ----------
    bytes : int
        Size of one unit.
    optimistic : bool
        Round sizes down, so that a bound holds for the true sizes; else up, so that a schedule fits.
    exact : bool
        Whether a unit divides all sizes, so that nothing is rounded but the limit.
    """

    bytes: int
    optimistic: bool = False
    exact: bool = True

    def size(self, size_bytes: int) -> int:
        """Units of something that must be held."""
        return size_bytes // self.bytes if self.optimistic else -(-size_bytes // self.bytes)

    def relief(self, size_bytes: int) -> int:
        """Units that are subtracted when something is not held: rounded the other way."""
        return -(-size_bytes // self.bytes) if self.optimistic else size_bytes // self.bytes

    def room(self, room_bytes: int) -> float:
        """Units that are free: fractions count for a bound, and are dropped for a schedule."""
        return room_bytes / self.bytes if self.optimistic else float(room_bytes // self.bytes)


def units_for(sizes: Iterable[int], largest: int, *, optimistic: bool = False) -> Units:
    """Units that divide all sizes where that is fine enough, else that times a power of two.

    Parameters
    ----------
    sizes : iterable of int
        Bytes of the data that the model decides on.
    largest : int
        The largest number of bytes that appears, the limit usually.
    optimistic : bool
        As in :class:`Units`.
    """
    divisor = unit = math.gcd(*sizes) or 1
    while largest // unit > MOST_UNITS:
        unit *= 2
    return Units(unit, optimistic, exact=unit == divisor)
