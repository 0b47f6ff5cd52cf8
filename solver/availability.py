"""Availability cuts: valid inequalities that keep a relaxation from making much out of little.

A fraction of an input allows the relaxation to run its reader by that fraction, in every period anew, until
the whole result is there: a hundred runs by one percent, all fed by the same percent of the input. In a
schedule, whatever is available at the end of some stages was there when they began, or was made in
them from something for which the same holds. For data ``d0`` and any path ``d0, d1, ..., dm`` of data,
each made from the next, and stages ``a`` to ``b``:

    available(d0, b) <= sum over the path of alive(d, a) + runs of dm's producer in a to b

where ``available`` is 1 if a first run in ``b`` reads ``d0``, or what of ``d0`` is alive behind ``b``. The
smallest right sides over all paths satisfy a recursion over the graph, so that the most violated cuts
are found exactly, by arrays over all pairs of stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rematopt.solver.arrays import Floats
from rematopt.solver.relaxation import NONE, Relaxation

VIOLATION = 1e-3
"""Least violation of a cut that is worth a row."""

CUTS_A_DATA = 6
"""Most cuts that one data gives in one round."""

MOST_BEGINNINGS = 128
"""Most stages at which the stretches of cuts begin; of larger graphs an even choice of them."""

FAR = 9.0
"""More than any share of a data; marks what no cut should use."""

Shares = NDArray[np.float32]


@dataclass(frozen=True)
class Cut:
    """What is available of ``path[0]`` at the end of stages ``first`` to ``last``.

    Parameters
    ----------
    path : tuple of int
        Data, each made from the next.
    first, last : int
        The stages.
    read : bool
        Whether a first run in stage ``last`` reads ``path[0]``; else it is alive behind ``last``.
    """

    path: tuple[int, ...]
    first: int
    last: int
    read: bool

    @property
    def upper(self) -> float:
        """Upper bound of its row, wherever it is written."""
        return -1.0 if self.read else 0.0

    def row(self, program: Relaxation) -> tuple[dict[int, float], float]:
        """Entries and upper bound of the cut's row, in whatever periods the program has."""
        graph, grid = program.grid.stages.graph, program.grid
        entries: dict[int, float] = {}

        def add(column: int, value: float) -> None:
            if column != NONE:
                entries[column] = entries.get(column, 0.0) + value

        if not self.read:
            own = grid.at[graph.data[self.path[0]].producer]
            add(int(program.alive[self.path[0]][own[self.last + 1]]), 1.0)
        for d in self.path:
            add(int(program.alive[d][grid.at[graph.data[d].producer][self.first]]), -1.0)
        maker = graph.data[self.path[-1]].producer
        begin, end = grid.at[maker][self.first], grid.at[maker][self.last]
        for column in program.runs[maker][begin : end + 1]:
            add(int(column), -1.0)
        return entries, self.upper


def violated_cuts(program: Relaxation, values: Floats) -> list[Cut]:
    """The cuts that a point of the program violates most, for each data a few."""
    return _Separation(program, values).cuts()


class _Separation:
    """The least right sides of cuts: for each data an array over first (rows) and last stages (columns)."""

    def __init__(self, program: Relaxation, values: Floats) -> None:
        self.program = program
        self.grid = program.grid
        self.graph = program.grid.stages.graph
        self.values = values
        count = len(self.grid.stages.starts)
        step = -(-count // MOST_BEGINNINGS)
        self.beginnings = np.arange(0, count, step)
        self.least: dict[int, Shares] = {}
        self.source: dict[int, NDArray[np.int16]] = {}
        """Position among its producer's inputs of the next data on the best path, or NONE."""

    def cuts(self) -> list[Cut]:
        waiting = self._readers()
        found: list[tuple[float, Cut]] = []
        for i in sorted(self.grid.periods):
            outputs = [d for d in self.graph.ops[i].outputs if d in self.program.alive]
            making, source = self._making(i)
            for d in outputs:
                self.least[d] = making + self._alive(d)[self.beginnings, None]
                self.source[d] = source
                found += sorted(self._violations(d), key=lambda item: -item[0])[:CUTS_A_DATA]
            for d in self.graph.ops[i].inputs:
                waiting[d] = waiting.get(d, 0) - 1
            for d in (*outputs, *self.graph.ops[i].inputs):
                if waiting[d] == 0:
                    # Sources stay, for they tell the paths.
                    self.least.pop(d, None)
        return [cut for _, cut in sorted(found, key=lambda item: -item[0])]

    def _readers(self) -> dict[int, int]:
        """For each data how many of its readers may run again."""
        return {d: sum(j in self.grid.periods for j in self.graph.consumers[d]) for d in self.program.alive}

    def _making(self, i: int) -> tuple[Shares, NDArray[np.int16]]:
        """At most how much op ``i`` makes between stages, and which input says so."""
        total = np.concatenate(([0.0], np.cumsum(self.values[self.program.runs[i]]))).astype(np.float32)
        at = self.grid.at[i]
        least: Shares = total[at + 1][None, :] - total[at[self.beginnings]][:, None]
        source = np.full(least.shape, NONE, dtype=np.int16)
        for position, d in enumerate(self.graph.ops[i].inputs):
            if d in self.program.alive:
                closer = self.least[d] < least - 1e-9
                least = np.where(closer, self.least[d], least)
                source[closer] = position
        first = self.grid.periods[i][0][0]
        least[self.beginnings < first] = FAR
        return least, source

    def _alive(self, d: int) -> Shares:
        """What of ``d`` is alive when the period of each stage begins."""
        columns = self.program.alive[d]
        shares = np.where(columns == NONE, 0.0, self.values[columns])
        alive: Shares = shares[self.grid.at[self.graph.data[d].producer]].astype(np.float32)
        return alive

    def _violations(self, d: int) -> Iterator[tuple[float, Cut]]:
        """Violated cuts of ``d``, for each last stage the worst."""
        periods, columns = self.grid.periods[self.graph.data[d].producer], self.program.alive[d]
        wanted = [(first - 1, float(self.values[c]), False)
                  for (first, _), c in zip(periods[1:], columns[1:], strict=True) if c != NONE]  # fmt: skip
        wanted += [(k, 1.0, True) for k in self.program.reads[d] if k <= periods[-1][1]]
        wanted = [item for item in wanted if item[1] > VIOLATION]
        if not wanted:
            return
        last = np.array([k for k, _, _ in wanted])
        # Without another data on the path a cut is nothing new.
        sides = np.where(self.source[d][:, last] == NONE, FAR, self.least[d][:, last])
        sides[self.beginnings[:, None] > last[None, :]] = FAR
        rows = sides.argmin(axis=0)
        for at, (k, share, read) in enumerate(wanted):
            excess = share - float(sides[rows[at], at])
            if excess > VIOLATION:
                yield excess, Cut(self._path(d, int(rows[at]), k), int(self.beginnings[rows[at]]), k, read)

    def _path(self, d: int, row: int, last: int) -> tuple[int, ...]:
        path = [d]
        while (position := int(self.source[d][row, last])) != NONE:
            d = self.graph.ops[self.graph.data[d].producer].inputs[position]
            path.append(d)
        return tuple(path)
