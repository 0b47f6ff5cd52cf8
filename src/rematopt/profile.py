"""The profile of a model: its graph with sizes and times, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rematopt.graph import Graph


class Timing(StrEnum):
    """How the time of an op was obtained."""

    MEASURED = "measured"
    MODELLED = "modelled"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A graph, the device it was profiled on, and how each time was obtained.

    Parameters
    ----------
    graph : Graph
        Ops with seconds and workspace, data with bytes.
    device : str
        The device in words, e.g. ``cpu: AMD EPYC, 2 threads``.
    versions : dict of str to str
        Versions of rematopt, Python and torch.
    timings : tuple of Timing
        One entry an op.
    """

    graph: Graph
    device: str
    versions: dict[str, str]
    timings: tuple[Timing, ...]
