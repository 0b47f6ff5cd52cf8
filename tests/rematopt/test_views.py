"""What people read: the same facts as the records, in units that suit them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rematopt.comparison import Comparison
from rematopt.front import pareto
from rematopt.profile import Profile
from rematopt.solver import solve
from rematopt.views import show_comparison, show_front, show_profile, show_schedule


def comparison(limit_bytes: int) -> Comparison:
    return Comparison(
        limit_bytes=limit_bytes,
        predicted_peak_bytes=3 * 2**20,
        measured_peak_bytes=2 * 2**20,
        predicted_ratio=1.25,
        measured_ratio=1.5,
        losses=(3.0, 2.0),
    )


def test_profile(profile: Profile, capsys: pytest.CaptureFixture[str]) -> None:
    show_profile(profile)
    printed = capsys.readouterr()
    assert f"the time of {len(profile.graph.ops)} ops is inferred" in printed.err
    assert printed.out.splitlines() == [
        "Profile of a graph on cpu: test",
        "  ops             6 forward, 5 backward",
        "  time of a step  16 s",
        "  unplanned peak  662 B",
        "  static memory   50 B (parameters 50 B)",
    ]


def test_a_schedule_by_estimates_says_what_is_unknown(profile: Profile, capsys: pytest.CaptureFixture[str]) -> None:
    for timing, said in (("measured", False), ("roofline: NVIDIA T4", True)):
        show_schedule(solve(replace(profile.graph, timing=timing), "100%", time_limit=1))
        assert ("may need more" in capsys.readouterr().err) is said


@pytest.mark.parametrize(("identical", "verdict"), [(True, "identical at every step"), (False, "NOT identical")])
def test_comparison(identical: bool, verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_comparison(comparison(4 * 2**20), identical=identical)
    assert capsys.readouterr().out.splitlines() == [
        "Training by the schedule",
        "  memory limit       4.00 MiB",
        "  peak               2.00 MiB (predicted 3.00 MiB)",
        "  time               1.500 x the unplanned step (predicted 1.250)",
        "  loss               3.0000 at the first step, 2.0000 at step 2",
        f"  compared to plain  {verdict}",
    ]


def test_front_with_measurements_and_an_infeasible_limit(profile: Profile, capsys: pytest.CaptureFixture[str]) -> None:
    front = pareto(profile, limits=[10, 1000], jobs=1)
    show_front(front, [comparison(1000)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("  ")[0].strip() == "limit"
    assert "infeasible" in lines[2]
    assert lines[2].split()[-2:] == ["-", "-"]
    assert lines[3].endswith("2.00 MiB        +50.0 %")
    assert [line.split()[0] for line in lines[-3:]] == ["store-all", "recompute-all", "chen-sqrt"]
