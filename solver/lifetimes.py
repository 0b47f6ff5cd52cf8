"""When each data is alive, as expressions of which ops run again.

On the staged time axis a data has *events*: runs that produce it and runs that read it. Between two
events it is alive or not. Given which ops run again, the least that must be alive follows backwards
from the last event: before a read the data is alive if the read takes place or if it is needed later;
before a production it is alive if it is needed later and not produced here. Both rules are monotone,
so a schedule needs no decision of its own about what is kept, and the continuous columns below take
whole values once the runs are decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rematopt.graph import Graph
from rematopt.solver.arrays import Floats, ModelBuilder
from rematopt.solver.stages import Stages


@dataclass(frozen=True, slots=True)
class Expr:
    """``constant + sign * column``: a share of a data that is alive, between 0 and 1."""

    constant: int
    column: int | None = None
    sign: int = 0


NEVER, ALWAYS = Expr(0), Expr(1)
"""The only expressions without a column; compare with ``is``."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to a data at a slot: the share alive before and behind it."""

    data: int
    before: Expr
    behind: Expr


@dataclass(frozen=True, slots=True)
class Definition:
    """Column ``column`` is the larger of two expressions, or of zero and ``first - second``."""

    column: int
    first: Expr
    second: Expr
    difference: bool


@dataclass(frozen=True, kw_only=True)
class Lifetimes:
    """Every change of what is alive, slot by slot, and how the added columns follow from the runs."""

    changes: tuple[tuple[Change, ...], ...]
    definitions: tuple[Definition, ...]


class _Shares:
    """Adds columns and rows for shares where no simpler expression exists."""

    def __init__(self, builder: ModelBuilder) -> None:
        self.builder = builder
        self.definitions: list[Definition] = []

    def before_read(self, run: Expr, later: Expr, integer: bool) -> Expr:
        """The larger of ``run`` and ``later``."""
        if run is ALWAYS or later is ALWAYS:
            return ALWAYS
        if later is NEVER or later == run:
            return run
        column = self.builder.column("alive", integer=integer)
        self._at_least(column, run)
        self._at_least(column, later)
        self.definitions.append(Definition(column, run, later, False))
        return Expr(0, column, 1)

    def before_production(self, run: Expr, later: Expr, integer: bool) -> Expr:
        """What is left of ``later`` if ``run`` produces it: ``max(0, later - run)``."""
        if run is ALWAYS or later is NEVER or later == run:
            return NEVER
        if later is ALWAYS:
            return Expr(1, run.column, -1)
        column = self.builder.column("alive", integer=integer)
        entries = {column: 1.0}
        for expr, sign in ((later, -1), (run, 1)):
            if expr.column is not None:
                entries[expr.column] = entries.get(expr.column, 0.0) + sign * expr.sign
        self.builder.row(entries, lower=later.constant - run.constant)
        self.definitions.append(Definition(column, later, run, True))
        return Expr(0, column, 1)

    def _at_least(self, column: int, expr: Expr) -> None:
        entries = {column: 1.0}
        if expr.column is not None:
            entries[expr.column] = -float(expr.sign)
        self.builder.row(entries, lower=expr.constant)


def lifetimes(stages: Stages, runs: Sequence[Expr], builder: ModelBuilder) -> Lifetimes:
    """Work out when each data is alive.

    Columns for what is alive across the border of two stages are declared integral: they are so
    anyway, but branching on them, and covers of the memory rows, prove optima several times sooner.

    Parameters
    ----------
    stages : Stages
        The staged form.
    runs : sequence of Expr
        For each slot whether its op runs: :data:`ALWAYS` for first runs, a column else.
    builder : ModelBuilder
        Takes the columns and rows that are needed.
    """
    graph = stages.graph
    shares = _Shares(builder)
    changes: list[list[Change]] = [[] for _ in stages.slots]
    for d, events in enumerate(_events(graph, stages)):
        for at, change in _data_changes(stages, d, events, runs, shares):
            changes[at].append(change)
    return Lifetimes(changes=tuple(map(tuple, changes)), definitions=tuple(shares.definitions))


def _events(graph: Graph, stages: Stages) -> list[list[int]]:
    """For each data the slots that produce or read it, in order."""
    events: list[list[int]] = [[] for _ in graph.data]
    for at, slot in enumerate(stages.slots):
        op = graph.ops[slot.op]
        for d in (*op.inputs, *op.outputs):
            events[d].append(at)
    return events


def _data_changes(
    stages: Stages, d: int, events: list[int], runs: Sequence[Expr], shares: _Shares
) -> list[tuple[int, Change]]:
    data = stages.graph.data[d]
    pinned = d in stages.reduction.keep and not data.kept
    found = []
    behind = ALWAYS if data.kept else NEVER
    for at, earlier in zip(reversed(events), [*reversed(events[:-1]), None], strict=True):
        slot = stages.slots[at]
        crosses = earlier is not None and stages.slots[earlier].stage < slot.stage
        if earlier is None:
            before = NEVER
        elif slot.op == data.producer:
            lasting = behind is ALWAYS and (data.kept or pinned)
            before = ALWAYS if lasting else shares.before_production(runs[at], behind, crosses)
        else:
            before = ALWAYS if pinned else shares.before_read(runs[at], behind, crosses)
        if before is not behind:
            found.append((at, Change(d, before, behind)))
        behind = before
    return found


def evaluate(expr: Expr, values: Floats) -> float:
    """Value of an expression at a point."""
    return expr.constant + (expr.sign * float(values[expr.column]) if expr.column is not None else 0.0)
