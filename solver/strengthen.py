"""Availability cuts as rows of the exact model, whose search then begins at a tighter root."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from rematopt.solver.availability import Cut
from rematopt.solver.formulation import Formulation
from rematopt.solver.lifetimes import NEVER, Expr


def strengthened(form: Formulation, cuts: Iterable[Cut]) -> Formulation:
    """The formulation with a row for each cut, all of which every staged schedule satisfies."""
    cuts = list(cuts)
    alive, runs = _alive_at(form, cuts), _runs(form)
    rows = [_row(form, cut, alive, runs) for cut in cuts]
    return replace(form, model=form.model.with_rows([row for row in rows if row[0]]))


def _row(
    form: Formulation, cut: Cut, alive: dict[tuple[int, int], Expr], runs: dict[tuple[int, int], Expr]
) -> tuple[dict[int, float], float]:
    """Entries and upper bound of a cut's row."""
    maker = form.stages.graph.data[cut.path[-1]].producer
    terms = [(alive[d, cut.first], -1.0) for d in cut.path]
    terms += [(runs[maker, k], -1.0) for k in range(cut.first, cut.last + 1) if (maker, k) in runs]
    if not cut.read:
        terms.append((alive[cut.path[0], cut.last + 1], 1.0))
    entries: dict[int, float] = {}
    upper = cut.upper
    for expr, factor in terms:
        upper -= factor * expr.constant
        if expr.column is not None:
            entries[expr.column] = entries.get(expr.column, 0.0) + factor * expr.sign
    return entries, upper


def _runs(form: Formulation) -> dict[tuple[int, int], Expr]:
    """For (op, stage) whether the op runs again there."""
    return {(slot.op, slot.stage): run for slot, run in zip(form.stages.slots, form.runs, strict=True) if slot.again}


def _alive_at(form: Formulation, cuts: list[Cut]) -> dict[tuple[int, int], Expr]:
    """For every (data, stage) that the cuts mention whether the data is alive when the stage begins."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for cut in cuts:
        wanted[cut.first].update(cut.path)
        if not cut.read:
            wanted[cut.last + 1].add(cut.path[0])
    now: dict[int, Expr] = {}
    found: dict[tuple[int, int], Expr] = {}
    stage = -1
    for slot, changes in zip(form.stages.slots, form.lifetimes.changes, strict=True):
        for k in range(stage + 1, slot.stage + 1):
            found.update({(d, k): now.get(d, NEVER) for d in wanted[k]})
        stage = slot.stage
        now.update({change.data: change.behind for change in changes})
    return found
