"""A bound that grows: solve a relaxation, cut off what no schedule does, refine its periods, again.

Every optimum on the way bounds the seconds of all staged schedules, so that the search may be stopped at
any time. It begins with few periods. After the first optimum, and whenever cuts gain little, periods are
split: those in which ops run again, and those of all ops around the stages where memory is dearest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from rematopt.solver.availability import Cut, violated_cuts
from rematopt.solver.drive import Poll, highs_available
from rematopt.solver.grid import Grid, grid_for
from rematopt.solver.incremental import LinearProgram, Optimum
from rematopt.solver.presolve import reduce_for_bound
from rematopt.solver.problem import Problem
from rematopt.solver.relaxation import NONE, Relaxation, relaxation
from rematopt.solver.stages import staged

NEARNESS = (1_000_000, 32, 16, 8, 4, 2)
"""Stages ahead of a read that are periods of their own; the first that gives few enough periods counts."""

MOST_PERIODS = 5_000
"""Number of periods at which a grid is fine enough to begin with."""

HOT_STAGES = 8
"""Stages with the dearest memory around which all periods are split."""

LITTLE_GAIN = 3e-3
"""Relative gain of the bound's further seconds below which a round is followed by a refinement."""

ROUNDS_BETWEEN = 4
"""Most rounds of cuts between two refinements."""

MEMORY = 6
"""Rounds for which a cut that does not bind is kept."""

SLACK = 1e-6
"""Distance to its bound from which a row does not bind."""

USED = 0.02
"""Share of a run from which a relaxation makes use of a period."""

SAFETY = 1e-7
"""Share of an optimum's further seconds that is not claimed, for the solver's tolerances."""


class Tightening:
    """The search for a bound.

    Parameters
    ----------
    problem : Problem
        Graph and limit.
    poll : callable, optional
        Asked while a step runs; see :data:`rematopt.solver.drive.Poll`.

    Attributes
    ----------
    bound : float
        Seconds below which no staged schedule lies, so far.
    finished : bool
        Whether nothing is left to cut off or refine.
    """

    def __init__(self, problem: Problem, poll: Poll | None = None) -> None:
        self.problem = problem
        self.bound = problem.graph.seconds
        self.finished = not highs_available()
        self._poll = poll
        self._cuts: dict[Cut, int] = {}
        """In the order of their rows, each with the last round in which it was new or bound the optimum."""
        self._program: Relaxation | None = None
        self._lp: LinearProgram | None = None
        self._rounds = 0
        self._refined = 0
        self._latest = 0.0

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The cuts that the latest relaxation holds."""
        return tuple(self._cuts)

    def run(self, deadline: float) -> float:
        """Go on until finished or until ``deadline`` (of ``time.perf_counter()``); return the bound."""
        while time.perf_counter() < deadline and self.step(deadline):
            pass
        return self.bound

    def step(self, deadline: float) -> bool:
        """Solve once and add what cuts the optimum off; False when finished or ``deadline`` is over.

        Raises
        ------
        KeyboardInterrupt
            If the user stopped it.
        """
        if self.finished:
            return False
        if self._program is None:
            self._build(_first_grid(self.problem))
        assert self._program is not None
        assert self._lp is not None
        if not self._program.runs:
            self.finished = True
            return False
        optimum = self._lp.minimise(deadline)
        if optimum is None:
            return False
        gained = self._raise(optimum.cost)
        found = violated_cuts(self._program, optimum.values)
        self._rounds += 1
        self._remember(optimum)
        grid = self._program.grid
        if self._rounds == 1 or not found or self._worth_refining(gained):
            grid = _refined(self._program, optimum)
        if grid is not self._program.grid:
            self._forget()
            self._cuts.update(dict.fromkeys(found, self._rounds))
            self._build(grid)
            return True
        found = [cut for cut in found if cut not in self._cuts]
        self._cuts.update(dict.fromkeys(found, self._rounds))
        self._lp.add_rows([cut.row(self._program) for cut in found])
        self.finished = not found
        return not self.finished

    def _worth_refining(self, gained: float) -> bool:
        """Whether cuts alone have had their time."""
        rounds = self._rounds - self._refined
        return rounds >= ROUNDS_BETWEEN or (rounds > 1 and gained < LITTLE_GAIN)

    def _raise(self, cost: float) -> float:
        """Take an optimum into the bound; return its relative gain over the last one."""
        assert self._program is not None
        further = max(0.0, cost) * self._program.cost_scale
        self.bound = max(self.bound, self.problem.graph.seconds + further * (1 - SAFETY))
        gained = math.inf if not self._latest else further / self._latest - 1
        self._latest = further
        return gained

    def _build(self, grid: Grid) -> None:
        self._refined = self._rounds
        self._program = relaxation(grid, self.problem.limit_bytes)
        self._lp = LinearProgram(self._program.model, self._poll)
        self._lp.add_rows([cut.row(self._program) for cut in self._cuts])

    def _remember(self, optimum: Optimum) -> None:
        """Note which cuts the optimum meets with equality."""
        assert self._program is not None
        own = optimum.rows[len(self._program.model.row_lower) :]
        for cut, value in zip(self._cuts, own, strict=True):
            if value > cut.upper - SLACK:
                self._cuts[cut] = self._rounds

    def _forget(self) -> None:
        """Drop the cuts that have not bound for some rounds."""
        self._cuts = {cut: seen for cut, seen in self._cuts.items() if seen > self._rounds - MEMORY}


def _first_grid(problem: Problem) -> Grid:
    stages = staged(problem.graph, reduction=reduce_for_bound(problem.graph, problem.limit_bytes))
    for near in NEARNESS:
        grid = grid_for(stages, near)
        if sum(map(len, grid.periods.values())) <= MOST_PERIODS:
            break
    return grid


def _refined(program: Relaxation, optimum: Optimum) -> Grid:
    """The grid with periods split that the optimum makes use of: by runs or, where none is left, by what is dropped."""
    hot = _hot_stages(program, optimum)
    grid = program.grid.refined(_used(program, optimum), hot)
    return grid if grid is not program.grid else grid.refined(_falling(program, optimum), hot)


def _used(program: Relaxation, optimum: Optimum) -> list[tuple[int, int]]:
    """Periods (op, index) in which ops run again."""
    return [(i, int(q)) for i, columns in program.runs.items() for q in np.flatnonzero(optimum.values[columns] > USED)]


def _falling(program: Relaxation, optimum: Optimum) -> list[tuple[int, int]]:
    """Periods (op, index) in whose course the share of some result that is alive falls."""
    found = []
    for d, columns in program.alive.items():
        shares = np.where(columns == NONE, 0.0, optimum.values[columns])
        maker = program.grid.stages.graph.data[d].producer
        found += [(maker, int(q)) for q in np.flatnonzero(shares[:-1] - shares[1:] > USED)]
    return found


def _hot_stages(program: Relaxation, optimum: Optimum) -> Sequence[int]:
    price: dict[int, float] = {}
    for row, stage in program.memory_stages.items():
        price[stage] = price.get(stage, 0.0) + float(optimum.prices[row])
    dearest = sorted(price, key=price.__getitem__, reverse=True)[:HOT_STAGES]
    return [k for k in dearest if price[k] > 0]
