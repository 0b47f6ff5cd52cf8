"""A mixed integer program as sparse arrays: built once, handed to whichever writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

INFINITY = float("inf")


@dataclass(frozen=True, kw_only=True)
class Model:
    """Minimise ``cost @ x`` over columns within bounds such that each row lies within its bounds.

    Parameters
    ----------
    lower, upper, cost : array of float
        One entry a column.
    integer : array of bool
        Which columns must be integral.
    row_lower, row_upper : array of float
        One entry a row.
    row_starts, entry_columns, entry_values : array
        The rows in compressed sparse form: entries ``row_starts[i]`` to ``row_starts[i + 1]`` belong to row ``i``.
    names : tuple of str
        One entry a column.
    """

    lower: Floats
    upper: Floats
    cost: Floats
    integer: npt.NDArray[np.bool_]
    row_lower: Floats
    row_upper: Floats
    row_starts: Integers
    entry_columns: Integers
    entry_values: Floats
    names: tuple[str, ...]

    def relaxed(self) -> Model:
        """The linear relaxation."""
        return replace(self, integer=np.zeros_like(self.integer))


class ModelBuilder:
    """Collects columns and rows."""

    def __init__(self) -> None:
        self._columns: list[tuple[float, float, bool, str]] = []
        self._cost: list[float] = []
        self._row_bounds: list[tuple[float, float]] = []
        self._row_starts = [0]
        self._entry_columns: list[int] = []
        self._entry_values: list[float] = []

    def column(
        self, name: str, *, lower: float = 0.0, upper: float = 1.0, cost: float = 0.0, integer: bool = False
    ) -> int:
        """Add a column and return its index."""
        self._columns.append((lower, upper, integer, name))
        self._cost.append(cost)
        return len(self._columns) - 1

    def add_cost(self, column: int, cost: float) -> None:
        """Add to the cost of a column."""
        self._cost[column] += cost

    def row(self, entries: Mapping[int, float], *, lower: float = -INFINITY, upper: float = INFINITY) -> None:
        """Add a row; entries of value zero are left out."""
        for column, value in entries.items():
            if value:
                self._entry_columns.append(column)
                self._entry_values.append(value)
        self._row_starts.append(len(self._entry_columns))
        self._row_bounds.append((lower, upper))

    def build(self) -> Model:
        """The collected model."""
        lower, upper, integer, names = zip(*self._columns, strict=True) if self._columns else ((), (), (), ())
        row_lower, row_upper = zip(*self._row_bounds, strict=True) if self._row_bounds else ((), ())
        return Model(
            lower=np.array(lower, dtype=np.float64),
            upper=np.array(upper, dtype=np.float64),
            cost=np.array(self._cost, dtype=np.float64),
            integer=np.array(integer, dtype=np.bool_),
            row_lower=np.array(row_lower, dtype=np.float64),
            row_upper=np.array(row_upper, dtype=np.float64),
            row_starts=np.array(self._row_starts, dtype=np.int32),
            entry_columns=np.array(self._entry_columns, dtype=np.int32),
            entry_values=np.array(self._entry_values, dtype=np.float64),
            names=tuple(names),
        )
