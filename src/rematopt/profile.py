"""The profile of a model: its graph with sizes and times, and where they come from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from rematopt.graph import Graph
from rematopt.units import format_bytes, format_seconds

if TYPE_CHECKING:
    import pandas as pd


class Timing(StrEnum):
    """How the time of an op was obtained.

    ``MEASURED`` on the device; ``MODELLED`` by the bytes that it moves and the rate of the measured ops, or
    0 for ops that stand for no kernel; ``ROOFLINE`` from FLOPs, bytes and the rates of a device.
    """

    MEASURED = "measured"
    MODELLED = "modelled"
    ROOFLINE = "roofline"


@dataclass(frozen=True, kw_only=True, repr=False)
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

    def __repr__(self) -> str:
        graph = self.graph
        backward = len(graph.ops) - graph.forward_count
        return (
            f"Profile({graph.signature.model or 'model'}: {graph.forward_count} forward and {backward} backward ops, "
            f"{format_seconds(graph.seconds)} a step, {format_bytes(graph.static.total)} static, {self.device})"
        )

    @property
    def modelled_ops(self) -> int:
        """Number of ops whose time was inferred from others', since they could not be run by themselves."""
        pairs = zip(self.graph.ops, self.timings, strict=True)
        return sum(op.seconds > 0 and timing is Timing.MODELLED for op, timing in pairs)

    def to_dataframe(self, by: Literal["op", "module"] = "op") -> pd.DataFrame:
        """Tabulate times and sizes, a row an op or a module (see :mod:`rematopt.frames`).

        Raises
        ------
        InvalidInputError
            If ``by`` is something else.
        """
        from rematopt.frames import profile_frame

        return profile_frame(self, by)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile to a JSON file.

        Raises
        ------
        ArtefactError
            If the file cannot be written.
        """
        from rematopt.artefacts import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """Read a profile that :meth:`save` wrote.

        Raises
        ------
        ArtefactError
            If the file is missing, damaged or holds something else.
        """
        from rematopt.artefacts import load

        return load(path, Profile)
