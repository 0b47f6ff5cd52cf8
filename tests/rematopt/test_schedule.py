"""What a schedule derives from its steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rematopt.schedule import Compute, Free, Schedule, Status


@pytest.fixture
def schedule() -> Schedule:
    return Schedule(
        steps=(Compute(0), Free(0), Compute(0), Compute(1)),
        forward_end=2,
        peak_bytes=10,
        seconds=6.0,
        limit_bytes=12,
        strategy="milp",
        status=Status.FEASIBLE,
        bound_seconds=4.5,
        solve_seconds=0.1,
        unplanned_peak_bytes=20,
        unplanned_seconds=4.0,
    )


def test_runs_and_recomputed(schedule):
    assert list(schedule.runs) == [0, 0, 1]
    assert schedule.recomputed == 1


def test_overhead_and_gap(schedule):
    assert schedule.overhead == pytest.approx(0.5)
    assert schedule.gap == pytest.approx(0.25)
    assert replace(schedule, bound_seconds=7.0).gap == 0.0


def test_a_step_without_time_has_no_overhead_and_no_gap(schedule):
    idle = replace(schedule, seconds=0.0, unplanned_seconds=0.0, bound_seconds=0.0)
    assert (idle.overhead, idle.gap) == (0.0, 0.0)
