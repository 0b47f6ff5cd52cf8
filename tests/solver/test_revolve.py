"""Binomial checkpointing against its closed forms."""

from __future__ import annotations

from functools import cache

import pytest

from rematopt.solver.problem import Problem
from rematopt.solver.registry import create
from rematopt.solver.revolve import fewest_runs, reversed_plan, snapshot_place
from tests.solver.chains import unit_chain


@cache
def searched_runs(steps: int, snapshots: int) -> int:
    """Fewest forward runs by trying every place of the next snapshot."""
    if steps <= 1:
        return 0
    if snapshots == 0:
        return steps * (steps - 1) // 2
    return min(m + searched_runs(steps - m, snapshots - 1) + searched_runs(m, snapshots) for m in range(1, steps))


@pytest.mark.parametrize("snapshots", range(6))
def test_the_binomial_formula_agrees_with_trying_all_places(snapshots: int) -> None:
    for steps in range(1, 30):
        assert fewest_runs(steps, snapshots) == searched_runs(steps, snapshots)


def test_the_place_of_a_snapshot_attains_the_formula() -> None:
    for steps in range(2, 25):
        for snapshots in range(1, 5):
            m = snapshot_place(steps, snapshots)
            assert m + fewest_runs(steps - m, snapshots - 1) + fewest_runs(m, snapshots) == fewest_runs(
                steps, snapshots
            )


@pytest.mark.parametrize(("length", "snapshots"), [(7, 1), (10, 2), (21, 2), (20, 3), (35, 3)])
def test_unit_chains_take_the_runs_of_the_formula_with_the_memory_of_the_snapshots(length: int, snapshots: int) -> None:
    graph = unit_chain(length)
    plan = reversed_plan(graph, tuple(range(length)), length, snapshots)
    # The formula counts the first sweep up to the last step, the plan only what runs again. The memory
    # is that of the snapshots, of what a step reads and of what it makes.
    assert plan.seconds == fewest_runs(length, snapshots) - (length - 1)
    assert plan.peak_bytes == 10 * (snapshots + 2)


def test_fewer_snapshots_mean_more_runs_and_less_memory() -> None:
    graph = unit_chain(40)
    plans = [reversed_plan(graph, tuple(range(40)), 40, snapshots) for snapshots in (2, 4, 8, 16)]
    seconds = [plan.seconds for plan in plans]
    peaks = [plan.peak_bytes for plan in plans]
    assert seconds == sorted(seconds, reverse=True)
    assert peaks == sorted(peaks)


def test_memory_grows_with_the_logarithm_of_the_chain() -> None:
    graph = unit_chain(128)
    result = create("revolve").solve(Problem(graph=graph, limit_bytes=10 * 12), 10.0)
    assert result.schedule is not None
    assert result.schedule.seconds <= 128 * 6
