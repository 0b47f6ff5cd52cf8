"""Running HiGHS on a model: own clock, silent, interruptible, and no status taken at its word."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np

from rematopt.solver.arrays import Floats, Model

if TYPE_CHECKING:
    import highspy

PULP_UP_TO = 20_000
"""Largest number of matrix entries for which PuLP's building time does not matter (below a second)."""

Poll = Callable[[], bool]
"""Called several times a second by a running search; True asks it to end with what it has."""

_GRACE_SECONDS = 2.0
"""How long a solver may overrun its own limit before it is interrupted from outside."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a solver left behind.

    Parameters
    ----------
    values : array or None
        The best point that satisfies the model, None without one.
    bound : float
        No point of the model costs less; minus infinity where nothing was proved.
    proved : bool
        Whether the solver finished: ``values`` are optimal, or None because the model is infeasible.
    interrupted : bool
        Whether the user stopped it.
    """

    values: Floats | None
    bound: float
    proved: bool
    interrupted: bool = False


def highs_available() -> bool:
    """Whether highspy is installed."""
    return find_spec("highspy") is not None


def default_writer(model: Model) -> Callable[[Model], highspy.Highs]:
    """PuLP, or arrays where building through PuLP would take long."""
    from rematopt.solver.write_highs import to_highs
    from rematopt.solver.write_pulp import to_highs_through_pulp

    return to_highs_through_pulp if len(model.entry_values) <= PULP_UP_TO else to_highs


def run(
    model: Model,
    *,
    deadline: float,
    absolute_gap: float = 1e-6,
    start: Floats | None = None,
    heuristics: bool = True,
    writer: Callable[[Model], highspy.Highs] | None = None,
    poll: Poll | None = None,
) -> Answer:
    """Minimise the model.

    Parameters
    ----------
    model : Model
        What to minimise; a linear program if no column is integral.
    deadline : float
        ``time.perf_counter()`` at which to stop.
    absolute_gap : float
        Distance of cost and bound at which to stop, in the model's costs.
    start : array, optional
        Values of all columns to start from.
    heuristics : bool
        Whether HiGHS may search for solutions by solving smaller programs, beside its tree.
    writer : callable, optional
        How to build the solver's model; :func:`default_writer` if not given.
    poll : callable, optional
        See :data:`Poll`.
    """
    seconds = deadline - time.perf_counter()
    if seconds <= 0:
        return Answer(values=None, bound=-math.inf, proved=False)
    if not len(model.cost):
        return _without_columns(model)
    if not highs_available():
        from rematopt.solver.write_pulp import solve_with_cbc

        values = solve_with_cbc(model, seconds=seconds, absolute_gap=absolute_gap)
        return Answer(values=values, bound=-math.inf, proved=False)
    highs = (writer or default_writer(model))(model)
    _configure(highs, deadline - time.perf_counter(), absolute_gap, model, start, heuristics)
    interrupted = run_interruptible(highs, deadline, poll)
    return _read(highs, model, interrupted)


def _without_columns(model: Model) -> Answer:
    """Nothing to decide (HiGHS calls such a model empty whatever its rows say)."""
    holds = bool(np.all(model.row_lower <= 0) and np.all(model.row_upper >= 0))
    return Answer(values=np.zeros(0) if holds else None, bound=0.0, proved=True)


def _configure(
    highs: highspy.Highs, seconds: float, absolute_gap: float, model: Model, start: Floats | None, heuristics: bool
) -> None:
    import highspy

    options: dict[str, bool | int | float] = {
        "output_flag": False,
        "threads": 1,
        "time_limit": max(0.01, seconds),
        "mip_rel_gap": 0.0,
        "mip_abs_gap": absolute_gap,
    }
    for heuristic in ("rins", "rens", "root_reduced_cost"):
        options[f"mip_heuristic_run_{heuristic}"] = heuristics
    for name, value in options.items():
        highs.setOptionValue(name, value)
    if start is not None and np.any(model.integer):
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        highs.setSolution(solution)


def run_interruptible(highs: highspy.Highs, deadline: float, poll: Poll | None = None) -> bool:
    """Run in a thread of its own, so that Ctrl-C, an overrun clock or ``poll`` end it; tell about Ctrl-C."""
    highs.HandleUserInterrupt = True
    # Not highspy's own startSolve: it now and then takes a fresh instance for a running one.
    thread = Thread(target=highs.run, daemon=True)
    thread.start()
    interrupted = False
    while thread.is_alive():
        try:
            thread.join(0.1)
            if time.perf_counter() > deadline + _GRACE_SECONDS or (poll is not None and poll()):
                highs.cancelSolve()  # type: ignore[no-untyped-call]
        except KeyboardInterrupt:
            interrupted = True
            highs.cancelSolve()  # type: ignore[no-untyped-call]
    return interrupted


def _read(highs: highspy.Highs, model: Model, interrupted: bool) -> Answer:
    import highspy

    status = highs.getModelStatus()
    info = highs.getInfo()
    optimal = status == highspy.HighsModelStatus.kOptimal
    infeasible = status in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    )
    feasible = info.primal_solution_status == highspy.kSolutionStatusFeasible and math.isfinite(
        info.objective_function_value
    )
    values = np.array(highs.getSolution().col_value, dtype=np.float64) if feasible and not infeasible else None
    if values is not None and len(values) != len(model.cost):
        values = None
    if np.any(model.integer):
        bound = info.mip_dual_bound if math.isfinite(info.mip_dual_bound) else -math.inf
    else:
        bound = info.objective_function_value if optimal else -math.inf
    return Answer(values=values, bound=bound, proved=optimal or infeasible, interrupted=interrupted)
