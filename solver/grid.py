"""Periods: consecutive stages in which a relaxation lets an op run once and asks no further.

The staged form has a place for every op in every stage, far too many for large graphs. A bound needs few
of them: near the stage in which an op's results are read, every stage is a period of its own; the further
ahead of that, the longer the periods. What a long period leaves open is refined where a relaxation makes
use of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rematopt.solver.stages import Stages

Period = tuple[int, int]
"""First and last stage."""


@dataclass(frozen=True)
class Grid:
    """For every op that may run again the periods of its stages.

    Parameters
    ----------
    stages : Stages
        The staged form.
    periods : dict of int to tuple of (int, int)
        For each op its periods, which follow each other from the first stage behind its first run to
        the last in which it is useful.
    """

    stages: Stages
    periods: Mapping[int, tuple[Period, ...]]

    @cached_property
    def at(self) -> dict[int, NDArray[np.intp]]:
        """For each op the index of the period of each stage; stages outside take the nearest period."""
        count = len(self.stages.starts)
        found = {}
        for i, periods in self.periods.items():
            lengths = [last - first + 1 for first, last in periods]
            index = np.empty(count, dtype=np.intp)
            first, last = periods[0][0], periods[-1][1]
            index[:first] = 0
            index[first : last + 1] = np.repeat(np.arange(len(periods)), lengths)
            index[last + 1 :] = len(periods) - 1
            found[i] = index
        return found

    def refined(self, used: Collection[tuple[int, int]], hot: Collection[int]) -> Grid:
        """Split periods: ``used`` ones (op, index) in halves, and all of them around ``hot`` stages.

        The grid itself is returned if nothing is left to split.
        """
        wanted, borders = set(used), sorted(hot)
        changed = False
        periods = {}
        for i, old in self.periods.items():
            new: list[Period] = []
            for q, period in enumerate(old):
                parts = _isolated(period, borders)
                if (i, q) in wanted:
                    parts = [half for part in parts for half in _halved(part)]
                new += parts
            changed = changed or len(new) > len(old)
            periods[i] = tuple(new)
        return Grid(self.stages, periods) if changed else self


def grid_for(stages: Stages, near: int) -> Grid:
    """A grid whose periods are single stages up to ``near`` stages ahead of a read, and then grow by one stage each."""
    segment = stages.segment_of
    last: dict[int, int] = {}
    for k, again in enumerate(stages.again):
        last.update(dict.fromkeys(again, k))
    readers = stages.graph.consumers
    periods = {}
    for i, end in last.items():
        first = segment[i] + 1
        reads = {segment[j] for d in stages.graph.ops[i].outputs for j in readers[d]}
        periods[i] = _growing(first, end, sorted(k for k in reads if first <= k <= end), near)
    return Grid(stages, periods)


def _growing(first: int, last: int, reads: Sequence[int], near: int) -> tuple[Period, ...]:
    """Periods from ``first`` to ``last``, none of which reaches over a stage that reads."""
    found: list[Period] = []
    end = last
    while end >= first:
        at = bisect_left(reads, end)
        ahead = (reads[at] if at < len(reads) else last) - end
        begin = max(first, end - max(0, ahead - near), reads[at - 1] + 1 if at else first)
        found.append((begin, end))
        end = begin - 1
    return tuple(reversed(found))


def _isolated(period: Period, borders: Sequence[int]) -> list[Period]:
    """The period with every border stage inside it as a part of its own."""
    first, last = period
    parts = []
    for k in borders[bisect_left(borders, first) :]:
        if k > last:
            break
        if k > first:
            parts.append((first, k - 1))
        parts.append((k, k))
        first = k + 1
    if first <= last:
        parts.append((first, last))
    return parts


def _halved(period: Period) -> list[Period]:
    first, last = period
    if first == last:
        return [period]
    middle = (first + last) // 2
    return [(first, middle), (middle + 1, last)]
