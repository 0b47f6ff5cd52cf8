"""A linear program over periods, whose optimum no staged schedule can undercut.

For an op and one of its periods (:mod:`rematopt.solver.grid`) a column says whether the op runs again in
it, however often; for its data another says whether they are alive when the period begins. A row for
each of the graph's dependencies says that what is read was alive at the beginning of the reader's period
or made since. Within a period longer than one stage a data weighs only what it must: it is there at the
end and was not made in between. Memory is limited while first runs run; sizes are rounded down. Every
schedule therefore gives a point of the program that costs no more than the schedule.

With all periods of one stage this is the relaxation of the exact model's memory rows for first runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rematopt.graph import Graph
from rematopt.solver.arrays import Model, ModelBuilder
from rematopt.solver.grid import Grid
from rematopt.solver.scaling import Units, units_for

NONE = -1
"""In place of a column: what it would say is settled, the value is 0."""

Columns = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Relaxation:
    """The program and what its columns mean.

    Parameters
    ----------
    grid : Grid
        The periods.
    model : Model
        The linear program; costs are seconds divided by ``cost_scale``.
    cost_scale : float
        Scale of seconds.
    runs : dict of int to array
        For each op that may run again a column a period: it runs in it.
    alive : dict of int to array
        For each data of such ops that may be dropped a column a period of its producer: it is alive
        when the period begins (:data:`NONE` where nobody reads it any more).
    reads : dict of int to tuple of int
        For each of these data the stages whose first runs read it, without the one of its own first run.
    memory_stages : dict of int to int
        For each row that limits memory the stage it belongs to.
    """

    grid: Grid
    model: Model
    cost_scale: float
    runs: Mapping[int, Columns]
    alive: Mapping[int, Columns]
    reads: Mapping[int, tuple[int, ...]]
    memory_stages: Mapping[int, int]


def relaxation(grid: Grid, limit_bytes: int) -> Relaxation:
    """Build the program for a limit on the peak, static bytes included."""
    return _Builder(grid, limit_bytes).build()


class _Builder:
    def __init__(self, grid: Grid, limit_bytes: int) -> None:
        self.grid = grid
        self.stages = grid.stages
        self.graph: Graph = grid.stages.graph
        self.program = ModelBuilder()
        self.scale = self.graph.seconds / len(self.graph.ops) or 1.0
        self.runs = {i: self._run_columns(i) for i in grid.periods}
        self.last_reads = self._last_reads()
        self.alive = {d: self._alive_columns(d) for d in self.last_reads}
        self.room = limit_bytes - self.graph.static.total
        sizes = {self.graph.data[d].bytes for d in self.alive}
        self.units: Units = units_for(sizes, max(self.room, 1), optimistic=True)
        self.memory_stages: dict[int, int] = {}

    def build(self) -> Relaxation:
        for d in self.alive:
            self._hand_on(d)
        for j in self.runs:
            self._supply(j)
        self._limit_memory()
        return Relaxation(
            grid=self.grid,
            model=self.program.build(),
            cost_scale=self.scale,
            runs=self.runs,
            alive=self.alive,
            reads={d: self._read_stages(d) for d in self.alive},
            memory_stages=self.memory_stages,
        )

    def _run_columns(self, i: int) -> Columns:
        cost = self.graph.ops[i].seconds / self.scale
        return np.array([self.program.column("run", cost=cost) for _ in self.grid.periods[i]], dtype=np.intp)

    def _last_reads(self) -> dict[int, dict[int, int]]:
        """For each data that may be dropped the last first run that reads it, by stage."""
        stages, found = self.stages, {}
        for i in self.grid.periods:
            for d in self.graph.ops[i].outputs:
                if not self.graph.data[d].kept and d not in stages.reduction.keep:
                    # Readers come in order, so that the last one of a stage stays.
                    found[d] = {stages.segment_of[j]: j for j in self.graph.consumers[d]}
        return found

    def _read_stages(self, d: int) -> tuple[int, ...]:
        own = self.stages.segment_of[self.graph.data[d].producer]
        return tuple(k for k in self.last_reads[d] if k > own)

    def _alive_columns(self, d: int) -> Columns:
        periods = self.grid.periods
        readers = [periods[j][-1][1] for j in self.graph.consumers[d] if j in periods]
        end = max([*self.last_reads[d], *readers], default=NONE)
        own = periods[self.graph.data[d].producer]
        return np.array([self.program.column("alive") if first <= end else NONE for first, _ in own], dtype=np.intp)

    def _hand_on(self, d: int) -> None:
        """What is alive when a period begins was alive before the last one, or made in it; so is what is read."""
        i = self.graph.data[d].producer
        alive, runs = self.alive[d], self.runs[i]
        for q, (before, behind) in enumerate(pairwise(alive)):
            if behind != NONE:
                self.program.row({behind: 1.0, before: -1.0, runs[q]: -1.0}, upper=0.0)
        for q in {int(self.grid.at[i][k]) for k in self._read_stages(d)}:
            self.program.row({alive[q]: 1.0, runs[q]: 1.0}, lower=1.0)

    def _supply(self, j: int) -> None:
        """An op that runs in a period finds each of its inputs alive, or made in the periods that meet it."""
        for d in self.graph.ops[j].inputs:
            if d not in self.alive:
                continue
            i = self.graph.data[d].producer
            for run, (first, last) in zip(self.runs[j], self.grid.periods[j], strict=True):
                begin, end = self.grid.at[i][first], self.grid.at[i][last]
                makers = {int(column): -1.0 for column in self.runs[i][begin : end + 1]}
                self.program.row({int(run): 1.0, int(self.alive[d][begin]): -1.0, **makers}, upper=0.0)

    def _limit_memory(self) -> None:
        """One row for the first runs between two changes of what is alive."""
        graph = self.graph
        changes, fixed = self._weights()
        terms: dict[int, float] = {}
        certain = 0
        for t, op in enumerate(graph.ops):
            if t in changes:
                self._hold(terms, certain, t - 1)
                certain = 0
                for column, size in changes[t]:
                    terms[column] = terms.get(column, 0.0) + size
                    if not terms[column]:
                        del terms[column]
            certain = max(certain, int(fixed[t]) + op.workspace_bytes)
        self._hold(terms, certain, len(graph.ops) - 1)

    def _hold(self, terms: Mapping[int, float], certain: int, t: int) -> None:
        upper = self.units.room(self.room - certain)
        if terms and sum(terms.values()) > upper:
            self.memory_stages[self.program.rows] = self.stages.segment_of[t]
            self.program.row(terms, upper=upper)

    def _weights(self) -> tuple[dict[int, list[tuple[int, float]]], NDArray[np.int64]]:
        """By first run the columns that begin or cease to weigh, and the bytes that are alive in any case."""
        graph = self.graph
        changes: dict[int, list[tuple[int, float]]] = defaultdict(list)
        fixed = np.zeros(len(graph.ops) + 1, dtype=np.int64)
        for d, item in enumerate(graph.data):
            if d in self.stages.reduction.keep and not item.kept:
                continue
            if d not in self.alive:
                end = len(graph.ops) if item.kept else max((item.producer, *graph.consumers[d])) + 1
                fixed[item.producer] += item.bytes
                fixed[end] -= item.bytes
                continue
            size = float(self.units.size(item.bytes))
            now = NONE
            for begin, certain, column in self._course(d):
                if certain:
                    fixed[begin] += item.bytes
                    fixed[certain] -= item.bytes
                    column = NONE
                if column != now:
                    changes[begin] += [(c, s) for c, s in ((now, -size), (column, size)) if c != NONE]
                    now = column
        return changes, fixed.cumsum()

    def _course(self, d: int) -> Iterator[tuple[int, int, int]]:
        """From which first run on a data weighs what: (run, end of certain bytes or 0, column or NONE)."""
        i = self.graph.data[d].producer
        own = self.stages.segment_of[i]
        end = max(self.last_reads[d].get(own, i), i) + 1
        yield i, end, NONE
        yield end, 0, int(self.alive[d][0])
        for q, (first, last) in enumerate(self.grid.periods[i]):
            behind = int(self.alive[d][q + 1]) if q + 1 < len(self.alive[d]) else NONE
            within = self._within(d, q, behind) if first < last else NONE
            for k in range(first, last + 1):
                column = behind if k == last else within
                start = self.stages.starts[k]
                if k in self.last_reads[d]:
                    end = self.last_reads[d][k] + 1
                    yield start, end, NONE
                    start = end
                yield start, 0, column
        yield self.stages.segment(self.grid.periods[i][-1][1]).stop, 0, NONE

    def _within(self, d: int, q: int, behind: int) -> int:
        """A column for what is alive throughout a long period: alive behind it and not made in it."""
        if behind == NONE:
            return NONE
        column = self.program.column("within")
        made = int(self.runs[self.graph.data[d].producer][q])
        self.program.row({column: 1.0, behind: -1.0, made: 1.0}, lower=0.0)
        return column
