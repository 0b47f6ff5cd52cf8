"""A mixed integer program as sparse arrays: built once, handed to whichever writer."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

INFINITY = float("inf")

Row = tuple[Mapping[int, float], float]
"""Entries by column, and an upper bound."""


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
        What each column is; not unique.
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

    def with_rows(self, rows: Sequence[Row]) -> Model:
        """The model with further rows."""
        starts, columns, values, upper = flattened(rows)
        return replace(
            self,
            row_lower=np.append(self.row_lower, np.full(len(rows), -INFINITY)),
            row_upper=np.append(self.row_upper, upper),
            row_starts=np.append(self.row_starts, starts[1:] + self.row_starts[-1]),
            entry_columns=np.append(self.entry_columns, columns),
            entry_values=np.append(self.entry_values, values),
        )


def flattened(rows: Sequence[Row]) -> tuple[Integers, Integers, Floats, Floats]:
    """Rows in compressed sparse form: starts (one more than rows), columns and values of the entries, upper bounds."""
    lengths = [len(entries) for entries, _ in rows]
    return (
        np.concatenate(([0], np.cumsum(lengths))).astype(np.int32),
        np.array([column for entries, _ in rows for column in entries], dtype=np.int32),
        np.array([value for entries, _ in rows for value in entries.values()], dtype=np.float64),
        np.array([upper for _, upper in rows], dtype=np.float64),
    )


class ModelBuilder:
    """Collects columns and rows in flat arrays: large models have a million entries."""

    def __init__(self) -> None:
        self._lower, self._upper, self._cost = array("d"), array("d"), array("d")
        self._integer = array("b")
        self._names: list[str] = []
        self._row_lower, self._row_upper = array("d"), array("d")
        self._row_starts, self._entry_columns, self._entry_values = array("i", [0]), array("i"), array("d")

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return len(self._row_lower)

    def column(
        self, name: str, *, lower: float = 0.0, upper: float = 1.0, cost: float = 0.0, integer: bool = False
    ) -> int:
        """Add a column and return its index; names say what a column is and may repeat."""
        self._lower.append(lower)
        self._upper.append(upper)
        self._cost.append(cost)
        self._integer.append(integer)
        self._names.append(name)
        return len(self._names) - 1

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
        self._row_lower.append(lower)
        self._row_upper.append(upper)

    def build(self) -> Model:
        """The collected model."""
        return Model(
            lower=np.array(self._lower, dtype=np.float64),
            upper=np.array(self._upper, dtype=np.float64),
            cost=np.array(self._cost, dtype=np.float64),
            integer=np.array(self._integer, dtype=np.bool_),
            row_lower=np.array(self._row_lower, dtype=np.float64),
            row_upper=np.array(self._row_upper, dtype=np.float64),
            row_starts=np.array(self._row_starts, dtype=np.int32),
            entry_columns=np.array(self._entry_columns, dtype=np.int32),
            entry_values=np.array(self._entry_values, dtype=np.float64),
            names=tuple(self._names),
        )
