"""A linear program that grows by rows and is solved again from where it stood."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rematopt.solver.arrays import Floats, Model, Row, flattened
from rematopt.solver.drive import Poll, run_interruptible


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """The optimum of a linear program.

    Parameters
    ----------
    cost : float
        Its cost.
    values : array
        Values of the columns.
    prices : array
        For each row by how much the cost falls if its bound is moved by one; 0 where it does not bind.
    rows : array
        Values of the rows.
    """

    cost: float
    values: Floats
    prices: Floats
    rows: Floats


class LinearProgram:
    """HiGHS on a model whose integrality is ignored.

    Parameters
    ----------
    model : Model
        What to minimise.
    poll : callable, optional
        See :data:`rematopt.solver.drive.Poll`.
    """

    def __init__(self, model: Model, poll: Poll | None = None) -> None:
        from rematopt.solver.write_highs import to_highs

        self._highs = to_highs(model.relaxed())
        self._highs.setOptionValue("threads", 1)
        self._highs.setOptionValue("solver", "simplex")
        self._poll = poll

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        if not rows:
            return
        starts, columns, values, upper = flattened(rows)
        lower = np.full(len(rows), -np.inf)
        self._highs.addRows(len(rows), lower, upper, len(columns), starts[:-1], columns, values)

    def minimise(self, deadline: float) -> Optimum | None:
        """Solve until ``deadline`` (of ``time.perf_counter()``); None if that was too soon.

        Raises
        ------
        KeyboardInterrupt
            If the user stopped it.
        """
        import highspy

        seconds = deadline - time.perf_counter()
        if seconds <= 0:
            return None
        # The limit counts from the first run of the instance.
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + seconds)
        if run_interruptible(self._highs, deadline, self._poll):
            raise KeyboardInterrupt
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        return Optimum(
            cost=float(self._highs.getInfo().objective_function_value),
            values=np.array(solution.col_value, dtype=np.float64),
            prices=-np.array(solution.row_dual, dtype=np.float64),
            rows=np.array(solution.row_value, dtype=np.float64),
        )
