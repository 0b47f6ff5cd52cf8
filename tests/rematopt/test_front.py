"""Sweeps over limits: consistent curves, tables, files and pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from rematopt.errors import ArtefactError, InvalidInputError
from rematopt.front import BASELINES, Front, Point, consistent, pareto
from rematopt.profile import Profile
from rematopt.schedule import Schedule, Status
from rematopt.simulator import simulate
from rematopt.solver import solve


@pytest.fixture
def front(profile: Profile) -> Front:
    return pareto(profile, limits=5, time_limit=2, jobs=1)


def point(schedule: Schedule, limit: int, seconds: float, bound: float) -> Point:
    changed = replace(
        schedule, limit_bytes=limit, seconds=seconds, bound_seconds=bound, status=Status.FEASIBLE, peak_bytes=limit
    )
    return Point(limit_bytes=limit, schedule=changed)


def test_sweep_reaches_from_the_smallest_limit_to_the_unplanned_peak(profile: Profile, front: Front) -> None:
    assert len(front.points) == 5
    first, last = front.schedules[0], front.schedules[-1]
    assert first.peak_bytes == front.points[0].limit_bytes < last.peak_bytes == last.unplanned_peak_bytes
    assert last.seconds == last.unplanned_seconds
    assert [b.strategy for b in front.baselines] == list(BASELINES)
    for found in front.schedules:
        played = simulate(profile.graph, found.steps)
        assert found.limit_bytes is not None
        assert played.peak_bytes == found.peak_bytes <= found.limit_bytes
        assert played.seconds == pytest.approx(found.seconds)
        assert found.bound_seconds <= found.seconds
    seconds = [s.seconds for s in front.schedules]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] > seconds[-1]


def test_a_cheaper_schedule_serves_higher_limits_and_bounds_serve_lower_ones(profile: Profile) -> None:
    schedule = solve(profile, 0.9, strategy="greedy")
    low, middle, high = consistent(
        [point(schedule, 300, 18.0, 17.5), point(schedule, 100, 21.0, 17.0), point(schedule, 200, 17.75, 17.25)]
    )
    assert [p.limit_bytes for p in (low, middle, high)] == [100, 200, 300]
    assert low.schedule is not None
    assert middle.schedule is not None
    assert high.schedule is not None
    # The schedule found for 200 also fits 300, and the bound proved for 300 holds for 200 and 100.
    assert [low.schedule.seconds, middle.schedule.seconds, high.schedule.seconds] == [21.0, 17.75, 17.75]
    assert [low.schedule.bound_seconds, middle.schedule.bound_seconds] == [17.5, 17.5]
    assert high.schedule.limit_bytes == 300
    assert high.schedule.peak_bytes == 200


def test_a_schedule_found_for_a_higher_limit_serves_the_lower_one_that_it_fits(profile: Profile) -> None:
    schedule = solve(profile, 0.9, strategy="greedy")
    better = point(schedule, 300, 17.0, 16.0)
    assert better.schedule is not None
    better = replace(better, schedule=replace(better.schedule, peak_bytes=150))
    equal = point(schedule, 400, 17.0, 16.0)
    worse = point(schedule, 200, 18.0, 16.5)
    found = [p.schedule for p in consistent([worse, better, equal, Point(limit_bytes=160, schedule=None)])]
    assert [s and s.peak_bytes for s in found] == [150] * 4
    assert [s and s.limit_bytes for s in found] == [160, 200, 300, 400]
    assert [s and s.seconds for s in found] == [17.0] * 4


def test_a_bound_that_meets_a_schedule_proves_it(profile: Profile) -> None:
    schedule = solve(profile, 0.9, strategy="greedy")
    low, high = consistent([point(schedule, 100, 18.0, 17.0), point(schedule, 200, 18.0, 18.0)])
    assert low.schedule is not None
    assert high.schedule is not None
    assert low.schedule.status is Status.OPTIMAL
    assert low.schedule.gap == 0.0


def test_limits_as_people_write_them(profile: Profile) -> None:
    front = pareto(profile, limits=["90%", "min", 2**30, 10], time_limit=2, jobs=1)
    frame = front.to_frame()
    assert frame["status"][0] == "infeasible"
    assert pd.isna(frame["peak_bytes"][0])
    assert frame["limit_bytes"][0] == 10
    assert frame["limit_bytes"].iloc[-1] == 2**30
    assert len(front.schedules) == 3


@pytest.mark.parametrize("limits", [1, [], ["many"]])
def test_unusable_limits(profile: Profile, limits: int | list[str]) -> None:
    with pytest.raises(InvalidInputError, match="limit"):
        pareto(profile, limits=limits, jobs=1)


def test_no_process_at_all_is_refused(profile: Profile) -> None:
    with pytest.raises(InvalidInputError, match="jobs=0"):
        pareto(profile, limits=2, jobs=0)


def test_processes_give_the_same_front(profile: Profile) -> None:
    limits = ["95%", "85%", "75%"]
    alone, parallel = (pareto(profile, limits, strategy="greedy", jobs=jobs) for jobs in (1, 2))
    assert len(alone.schedules) == 3
    assert [s.steps for s in parallel.schedules] == [s.steps for s in alone.schedules]


def test_files(front: Front, tmp_path: Path) -> None:
    front.save(tmp_path / "new" / "folder")
    frame = pd.read_csv(tmp_path / "new" / "folder" / "pareto.csv")
    assert list(frame.columns) == list(front.to_frame().columns)
    assert list(frame["limit_bytes"]) == [p.limit_bytes for p in front.points]
    for found in front.schedules:
        assert Schedule.load(tmp_path / "new" / "folder" / f"schedule-{found.limit_bytes}.json") == found


def test_picture_formats(front: Front, tmp_path: Path) -> None:
    front.plot(tmp_path / "front.png")
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidInputError, match="no picture format"):
        front.plot(tmp_path / "front.docx")
    with pytest.raises(ArtefactError, match="cannot write"):
        front.plot(tmp_path / "missing" / "front.png")
