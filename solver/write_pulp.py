"""A model written with PuLP, which reaches every solver that PuLP knows."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pulp

from rematopt.errors import SolverUnavailableError
from rematopt.solver.arrays import Floats, Model

if TYPE_CHECKING:
    import highspy

_CBC = ("PULP_CBC_CMD", "COIN_CMD")
"""The CBC that PuLP 3 brings, and one that is installed beside PuLP 4."""


def to_pulp(model: Model) -> tuple[pulp.LpProblem, list[pulp.LpVariable]]:
    """Write the model as a PuLP problem; the variables come in the order of the columns.

    PuLP hands variables to solvers sorted by name, so each name begins with its column's number.
    """
    problem = pulp.LpProblem("rematopt", pulp.LpMinimize)
    columns = zip(model.names, model.lower, model.upper, model.integer, strict=True)
    variables = [
        problem.add_variable(
            f"x{j:08d}_{name}", _finite(low), _finite(up), pulp.LpInteger if whole else pulp.LpContinuous
        )
        for j, (name, low, up, whole) in enumerate(columns)
    ]
    problem += pulp.LpAffineExpression((variables[j], float(cost)) for j, cost in enumerate(model.cost))
    for i, (low, up) in enumerate(zip(model.row_lower, model.row_upper, strict=True)):
        entries = range(model.row_starts[i], model.row_starts[i + 1])
        row = pulp.LpAffineExpression(
            (variables[model.entry_columns[e]], float(model.entry_values[e])) for e in entries
        )
        if low == up:
            problem += row == float(low)
            continue
        if np.isfinite(low):
            problem += row >= float(low)
        if np.isfinite(up):
            problem += row <= float(up)
    return problem, variables


def _finite(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None


def to_highs_through_pulp(model: Model) -> highspy.Highs:
    """Let PuLP build the HiGHS instance."""
    from rematopt.solver.write_highs import SilentHighs

    problem, _ = to_pulp(model)
    problem.solverModel = SilentHighs()  # type: ignore[no-untyped-call]
    pulp.HiGHS(msg=False).buildSolverModel(problem)
    highs: highspy.Highs = problem.solverModel
    return highs


def solve_with_cbc(model: Model, *, seconds: float, absolute_gap: float) -> Floats | None:
    """Solve with CBC, for machines without highspy; None without a solution.

    CBC's status is no proof (PuLP reports "Optimal" after a time-out), so none is returned.

    Raises
    ------
    SolverUnavailableError
        If there is no CBC either.
    """
    name = next((n for n in _CBC if n in pulp.listSolvers(onlyAvailable=True)), None)
    if name is None:
        raise SolverUnavailableError(
            "no solver for integer programs is installed; run: pip install highspy (or pip install 'pulp[cbc]')"
        )
    problem, variables = to_pulp(model)
    with tempfile.TemporaryDirectory(prefix="rematopt") as folder:
        solver = pulp.getSolver(name, msg=False, timeLimit=max(1.0, seconds), gapAbs=absolute_gap)
        solver.tmpDir = folder
        problem.solve(solver)
    values = [variable.value() for variable in variables]
    if problem.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible) or None in values:
        return None
    return np.array(values, dtype=np.float64)
