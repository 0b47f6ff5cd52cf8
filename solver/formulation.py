"""The exact model: which ops run again in which stage, such that memory never exceeds the limit.

The only decisions are binary columns, one for each slot of the staged time axis where an op may run
again. What must be alive follows from them (:mod:`rematopt.solver.lifetimes`). With ``level`` the
bytes alive before a slot, the slot's row is

    level + (bytes of its op's outputs + workspace) * run <= limit

which is the simulator's definition: outputs are allocated, a second time if they are alive already,
before inputs are freed. ``level`` changes from slot to slot by what begins and ceases to be alive.
Compared with the FREE variables of Checkmate this needs no product terms and relaxes more tightly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rematopt.solver.arrays import INFINITY, Floats, Model, ModelBuilder
from rematopt.solver.lifetimes import ALWAYS, NEVER, Change, Expr, Lifetimes, evaluate, lifetimes
from rematopt.solver.scaling import Units, units_for
from rematopt.solver.stages import Slot, Stages


class Goal(StrEnum):
    """What is minimised."""

    SECONDS = "seconds"
    PEAK = "peak"


@dataclass(frozen=True, slots=True)
class LevelStep:
    """Column ``column`` is the level that follows ``previous`` after some changes, in units."""

    column: int
    previous: int | None
    terms: tuple[tuple[int, float], ...]


@dataclass(frozen=True, kw_only=True)
class Formulation:
    """A model with what is needed to read its solutions and to write them.

    Parameters
    ----------
    model : Model
        Costs are seconds divided by ``cost_scale``, or peak bytes divided by ``units.bytes``.
    stages : Stages
        The staged form it describes.
    runs : tuple of Expr
        For each slot whether its op runs.
    units : Units
        Scale of memory.
    cost_scale : float
        Scale of seconds.
    peak_column : int or None
        The column that holds the peak above static bytes, where the peak is minimised.
    lifetimes : Lifetimes
        When each data is alive.
    levels : tuple of LevelStep
        How the columns that hold the level of memory follow from each other.
    """

    model: Model
    stages: Stages
    runs: tuple[Expr, ...]
    units: Units
    cost_scale: float
    peak_column: int | None
    lifetimes: Lifetimes
    levels: tuple[LevelStep, ...]

    def sequence(self, values: Floats) -> list[int]:
        """The op runs that a solution describes."""
        return [slot.op for slot, run in zip(self.stages.slots, self.runs, strict=True) if evaluate(run, values) > 0.5]

    def solution(self, sequence: Sequence[int]) -> Floats:
        """Values of all columns for a sequence of op runs, as near to it as the staged form allows.

        A run outside its place is moved to the same stage's slot of its op, where there is one.
        """
        wanted = _slots_of(self.stages, sequence)
        values = np.zeros(len(self.model.cost))
        for slot, run in zip(self.stages.slots, self.runs, strict=True):
            if run.column is not None and (slot.op, slot.stage) in wanted:
                values[run.column] = 1.0
        for item in self.lifetimes.definitions:
            first, second = evaluate(item.first, values), evaluate(item.second, values)
            values[item.column] = max(0.0, first - second) if item.difference else max(first, second)
        for level in self.levels:
            before = values[level.previous] if level.previous is not None else 0.0
            values[level.column] = before + sum(factor * values[column] for column, factor in level.terms)
        if self.peak_column is not None:
            values[self.peak_column] = self.model.upper[self.peak_column]
        return values


def _slots_of(stages: Stages, sequence: Sequence[int]) -> set[tuple[int, int]]:
    """The (op, stage) pairs of the runs in a sequence that are not first runs."""
    found: set[tuple[int, int]] = set()
    seen: set[int] = set()
    stage_of = {start: k for k, start in enumerate(stages.starts)}
    stage = 0
    for i in sequence:
        if i in seen:
            found.add((i, stage + 1))
            continue
        seen.add(i)
        stage = stage_of.get(i, stage)
    return found


def formulate(
    stages: Stages,
    limit_bytes: int,
    *,
    goal: Goal = Goal.SECONDS,
    optimistic: bool = False,
) -> Formulation:
    """Build the model.

    Parameters
    ----------
    stages : Stages
        The staged form.
    limit_bytes : int
        Limit on the peak, static bytes included; when the peak is minimised, a peak that is known to
        be reachable.
    goal : Goal
        What is minimised.
    optimistic : bool
        Build a smaller model whose optimum bounds that of the true sizes: sizes are rounded down, data
        that the reduction keeps weigh nothing instead of being always alive, and memory is limited
        during first runs only (the other rows leave the linear relaxation as it is, in practice).
    """
    builder = ModelBuilder()
    scale = _cost_scale(stages)
    runs = _run_columns(stages, builder, scale if goal is Goal.SECONDS else 0.0)
    alive = lifetimes(stages, runs, builder)
    weights = [0 if optimistic and d in stages.reduction.keep else x.bytes for d, x in enumerate(stages.graph.data)]
    room = limit_bytes - stages.graph.static.total
    sizes = {weights[change.data] for row in alive.changes for change in row if change.behind is not NEVER}
    if goal is Goal.PEAK:
        # The peak is a sum of everything, of what is certain as well.
        sizes |= set(weights) | {op.workspace_bytes for op in stages.graph.ops}
    units = units_for(sizes, max(room, 1), optimistic=optimistic)
    peak = None
    if goal is Goal.PEAK:
        peak = builder.column("peak", upper=max(0.0, units.room(room)), cost=1.0)
    memory = _MemoryRows(stages, weights, units, room, peak, builder)
    for slot, run, changes in zip(stages.slots, runs, alive.changes, strict=True):
        memory.limit(slot, run)
        memory.advance(changes)
    memory.settle()
    return Formulation(
        model=builder.build(),
        stages=stages,
        runs=tuple(runs),
        units=units,
        cost_scale=scale,
        peak_column=peak,
        lifetimes=alive,
        levels=tuple(memory.levels),
    )


def _cost_scale(stages: Stages) -> float:
    """Mean time of the ops that may run again, so that costs are near one."""
    seconds = [stages.graph.ops[i].seconds for again in stages.again for i in again]
    return sum(seconds) / len(seconds) or 1.0 if seconds else 1.0


def _run_columns(stages: Stages, builder: ModelBuilder, scale: float) -> list[Expr]:
    """One binary column for each slot where an op may run again; tied ops share one."""
    columns: dict[tuple[int, int], int] = {}
    runs = []
    for slot in stages.slots:
        if not slot.again:
            runs.append(ALWAYS)
            continue
        key = (stages.reduction.head(slot.op), slot.stage)
        if key not in columns:
            columns[key] = builder.column("run", integer=True)
        if scale:
            builder.add_cost(columns[key], stages.graph.ops[slot.op].seconds / scale)
        runs.append(Expr(0, columns[key], 1))
    return runs


class _MemoryRows:
    """The level of memory along the slots, and the limit on it."""

    def __init__(
        self, stages: Stages, weights: list[int], units: Units, room: int, peak: int | None, builder: ModelBuilder
    ) -> None:
        self.stages = stages
        self.weights = weights
        self.units = units
        self.room = room
        self.peak = peak
        self.builder = builder
        self.levels: list[LevelStep] = []
        self.level: int | None = None
        self.terms: dict[int, float] = {}
        """What makes up the level, in units."""
        self.largest = 0.0
        """The most that the level can be."""
        self.fixed = 0
        """Bytes alive whatever is decided; ``level`` holds the rest."""
        self.certain = 0
        """Most bytes that a first run at this level is certain to need, what is fixed included."""

    def limit(self, slot: Slot, run: Expr) -> None:
        """Hold the limit while the slot's op runs."""
        op = self.stages.graph.ops[slot.op]
        needs = sum(self.weights[d] for d in op.outputs) + op.workspace_bytes
        if run.column is None:
            self.certain = max(self.certain, self.fixed + needs)
            return
        if self.units.optimistic:
            return
        level = {} if self.level is None else {self.level: 1.0}
        if self.peak is not None:
            size = float(self.units.size(needs))
        else:
            # The difference of two roundings: with the run, the level's room is rounded only once.
            room = self.room - self.fixed
            size = self.units.room(room) - self.units.room(room - needs)
        self._hold(level | {run.column: size}, self.fixed, at_most=self.largest + size)

    def settle(self) -> None:
        """Hold the limit during the first runs since the level last changed.

        First runs are where memory binds. Their row spells the level out, so that the solver finds
        covers among the columns that must be integral.
        """
        if self.certain:
            self._hold(self.terms, self.certain, at_most=self.largest)
        self.certain = 0

    def _hold(self, entries: dict[int, float], certain: int, *, at_most: float) -> None:
        """Add the row: entries in units and certain bytes within the limit or the peak."""
        if self.peak is not None:
            self.builder.row(entries | {self.peak: -1.0}, upper=-float(self.units.size(certain)))
            return
        upper = self.units.room(self.room - certain)
        if at_most > upper:
            self.builder.row(entries, upper=upper)

    def advance(self, changes: Sequence[Change]) -> None:
        """Go past a slot."""
        terms: dict[int, float] = {}
        for change in changes:
            weight = self.weights[change.data]
            self.fixed += weight * (change.behind.constant - change.before.constant)
            for expr, direction in ((change.behind, 1), (change.before, -1)):
                if expr.column is not None:
                    share = self.units.size(weight) if expr.sign > 0 else self.units.relief(weight)
                    terms[expr.column] = terms.get(expr.column, 0.0) + direction * expr.sign * share
        terms = {column: factor for column, factor in terms.items() if factor}
        if not terms:
            return
        self.settle()
        for column, factor in terms.items():
            before = self.terms.pop(column, 0.0)
            self.largest += max(0.0, before + factor) - max(0.0, before)
            if before + factor:
                self.terms[column] = before + factor
        if self.units.optimistic:
            return
        level = self.builder.column("level", lower=-INFINITY, upper=INFINITY)
        row = {level: 1.0} | {column: -factor for column, factor in terms.items()}
        if self.level is not None:
            row[self.level] = -1.0
        self.builder.row(row, lower=0.0, upper=0.0)
        self.levels.append(LevelStep(level, self.level, tuple(terms.items())))
        self.level = level
