"""What a running search tells about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """State of a search.

    Parameters
    ----------
    strategy : str
        Who found the best schedule so far, or what is running when there is none.
    seconds : float
        Time of the step under the best schedule; infinity without one.
    bound : float
        No schedule takes less.
    elapsed : float
        Wall time since the search began.
    """

    strategy: str
    seconds: float
    bound: float
    elapsed: float

    @property
    def gap(self) -> float:
        """Distance of ``seconds`` and ``bound`` as a share of the step's time."""
        return max(0.0, 1 - self.bound / self.seconds) if 0 < self.seconds < float("inf") else float("inf")


Report = Callable[[Progress], None]
