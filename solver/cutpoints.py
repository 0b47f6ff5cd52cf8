"""Where to cut the forward pass into a chain of blocks.

A boundary is narrow when few bytes pass it: everything that a later forward op reads of earlier ones,
residual streams and long skips included. Blocks end at the narrowest boundaries that keep their size
within a range, so a graph without real cut points is split where the least passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rematopt.graph import Graph

MOST_BLOCKS = 48
"""Aim for no more blocks than this."""

FEWEST_OPS = 18
"""Aim for no smaller blocks than this."""

SMALLEST, LARGEST = 0.6, 1.6
"""Range of a block's size as shares of the size aimed for."""


def passing_bytes(graph: Graph, length: int) -> NDArray[np.int64]:
    """For each boundary ``b`` of the first ``length`` ops the bytes from ops before ``b`` to ops from ``b`` on."""
    change = np.zeros(length + 1, dtype=np.int64)
    for item, readers in zip(graph.data, graph.consumers, strict=True):
        forward = [i for i in readers if i < length]
        if item.producer < length and forward:
            change[item.producer + 1] += item.bytes
            change[forward[-1] + 1] -= item.bytes
    return change.cumsum()


def block_starts(graph: Graph, length: int) -> list[int]:
    """First ops of consecutive blocks of the first ``length`` ops."""
    passing = passing_bytes(graph, length)
    aim = max(FEWEST_OPS, length / MOST_BLOCKS)
    low, high = max(1, round(SMALLEST * aim)), round(LARGEST * aim)
    starts = [0]
    while length - starts[-1] > high:
        window = passing[starts[-1] + low : starts[-1] + high + 1]
        starts.append(starts[-1] + low + int(window.argmin()))
    return starts
