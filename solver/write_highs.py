"""A model handed to HiGHS as arrays: no object per column, so building takes no noticeable time."""

from __future__ import annotations

import highspy
import numpy as np

from rematopt.solver.arrays import Model


class SilentHighs(highspy.Highs):
    """A HiGHS instance that writes nothing, not even its banner."""

    def enableCallbacks(self) -> None:
        """Switch the output off first: the constructor comes by here, where the banner is written."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def to_highs(model: Model) -> highspy.Highs:
    """Build a HiGHS instance that holds the model."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(model.cost), len(model.row_lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.cost, model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = lp.num_col_, lp.num_row_
    lp.a_matrix_.start_ = model.row_starts
    lp.a_matrix_.index_ = model.entry_columns
    lp.a_matrix_.value_ = model.entry_values
    if np.any(model.integer):
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(integral)] for integral in model.integer]
    highs = SilentHighs()  # type: ignore[no-untyped-call]
    highs.passModel(lp)
    return highs
