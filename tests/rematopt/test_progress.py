"""Progress is for people who watch, and goes to stderr."""

from __future__ import annotations

import pytest

from rematopt.progress import counted, ops_progress, solver_line, solver_progress
from rematopt.solver import Progress


def test_items_pass_through_and_nothing_is_drawn_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(counted("abc", total=3, label="solving")) == ["a", "b", "c"]
    with ops_progress() as report:
        report(1, 2, "mm")
    with solver_progress(1.0) as tell:
        tell(Progress(strategy="milp", seconds=1.5, bound=1.25, elapsed=2.0))
    assert capsys.readouterr() == ("", "")


def test_solver_line_tells_best_bound_and_gap() -> None:
    nothing = Progress(strategy="greedy", seconds=float("inf"), bound=1.0, elapsed=0.1)
    assert solver_line(nothing, 1.0) == "  0.1 s  no schedule yet (greedy)  bound +0.00 %"
    found = Progress(strategy="milp", seconds=2.5, bound=2.25, elapsed=12.0)
    assert solver_line(found, 2.0) == " 12.0 s  best +25.00 % (milp)  bound +12.50 %  gap 10.00 %"
