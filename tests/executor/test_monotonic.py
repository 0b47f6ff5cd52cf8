"""A lower limit never gives a higher measured peak."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import rematopt
from rematopt import zoo

ALLOWANCE = 64
"""Bytes of plain numbers that operators wrap in tensors."""


def measured_peaks(name: str, sizes: dict[str, Any], limits: int) -> list[int]:
    """Peaks of real steps by rising limit."""
    model, args, kwargs = zoo.MODELS[name](**sizes)
    front = rematopt.pareto(rematopt.profile(model, args, kwargs), limits, time_limit=1.0, jobs=1, progress=False)
    peaks = []
    for schedule in front.schedules:
        with rematopt.apply(model, schedule, on_mismatch="error"):
            peaks.append(rematopt.measure(model, args, kwargs, repeats=1).peak_bytes)
    assert len(peaks) == limits
    return peaks


def assert_rising(peaks: list[int]) -> None:
    assert all(lower <= higher + ALLOWANCE for lower, higher in pairwise(peaks))
    assert peaks[0] < peaks[-1]


def test_peaks_rise_with_the_limit() -> None:
    assert_rising(measured_peaks("mlp", {"batch": 256, "width": 32, "depth": 3}, limits=3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gpt2", {"layers": 2, "batch": 2, "sequence": 64, "width": 64}),
        ("unet", {"batch": 2, "resolution": 32, "width": 8, "depth": 2}),
        ("mobilenet_v2", {"batch": 4, "resolution": 32, "width": 0.5}),
    ],
)
def test_peaks_rise_over_twenty_limits(name: str, sizes: dict[str, Any]) -> None:
    assert_rising(measured_peaks(name, sizes, limits=20))
