from __future__ import annotations

import pytest

from rematopt.errors import InvalidInputError
from rematopt.units import AboveSmallest, format_bytes, format_seconds, parse_bytes, read_limit, read_limits


@pytest.mark.parametrize(
    ("text", "size"),
    [("2048", 2048), ("8GiB", 8 * 2**30), ("1.5 GB", 1_500_000_000), ("500mb", 500_000_000), ("3 B", 3), ("1e3", 1000)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "8 XB", "eight", "-3", "1 2"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="size"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        (700, 700),
        ("1KiB", 1024),
        ("60%", 600),
        (0.6, 600),
        ("min", AboveSmallest(0.0)),
        (" MIN ", AboveSmallest(0.0)),
        ("min+25%", AboveSmallest(0.25)),
        ("min + 100%", AboveSmallest(1.0)),
    ],
)
def test_limits_are_read(limit: int | float | str, found: int | AboveSmallest) -> None:
    assert read_limit(limit, unplanned_peak_bytes=1000) == found


@pytest.mark.parametrize(
    "limit", [0, -5, True, 1.0, 0.0, 2.5, "-1GiB", "0%", "x%", "min+", "min+x%", "min+120%", "minimum", "nan%", None]
)
def test_what_is_no_limit_is_refused_with_the_ways_to_write_one(limit: object) -> None:
    with pytest.raises(InvalidInputError, match=r"8GiB.*60%.*min"):
        read_limit(limit, unplanned_peak_bytes=1000)  # type: ignore[arg-type]


def test_a_share_above_the_smallest_becomes_bytes_between_both_ends() -> None:
    ends = {"smallest_limit_bytes": 400, "unplanned_peak_bytes": 1000}
    assert [AboveSmallest(s).in_bytes(**ends) for s in (0.0, 0.5, 1.0)] == [400, 700, 1000]


@pytest.mark.parametrize(("limit", "found"), [(300, 700), ("50%", 700), ("min+50%", AboveSmallest(0.5))])
def test_an_activation_limit_comes_on_top_of_static_memory(limit: int | str, found: int | AboveSmallest) -> None:
    assert read_limits(None, limit, unplanned_peak_bytes=1000, static_bytes=400) == found


@pytest.mark.parametrize(("memory", "activations"), [(None, None), (500, 100)])
def test_exactly_one_limit_is_given(memory: int | None, activations: int | None) -> None:
    with pytest.raises(InvalidInputError, match=r"memory_limit.*activation_limit"):
        read_limits(memory, activations, unplanned_peak_bytes=1000, static_bytes=400)


def test_sizes_and_times_are_written_with_a_fitting_unit() -> None:
    assert [format_bytes(n) for n in (0, 1023, 1536, 5 * 2**20, 3 * 2**40)] == [
        "0 B",
        "1023 B",
        "1.50 KiB",
        "5.00 MiB",
        "3072.00 GiB",
    ]
    assert [format_seconds(s) for s in (12.0, 0.0123, 4.5e-6, 2e-9)] == ["12 s", "12.3 ms", "4.5 us", "2 ns"]
