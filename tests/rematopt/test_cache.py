"""Schedules on disk: found again, never wrong, never in the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rematopt.cache import cache_key, cached, default_folder
from rematopt.profile import Profile
from rematopt.schedule import Schedule
from rematopt.solver import solve


class Maker:
    """Solves and counts how often."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.calls = 0

    def __call__(self) -> Schedule:
        self.calls += 1
        return solve(self.profile, "80%", strategy="greedy")


def test_solves_once(profile: Profile, tmp_path: Path) -> None:
    make, fingerprint = Maker(profile), profile.graph.fingerprint
    first = cached(tmp_path / "new", "key", make, fingerprint=fingerprint)
    second = cached(tmp_path / "new", "key", make, fingerprint=fingerprint)
    assert make.calls == 1
    assert first == second
    cached(tmp_path / "new", "other", make, fingerprint=fingerprint)
    assert make.calls == 2


def test_without_a_folder_nothing_is_kept(profile: Profile) -> None:
    make = Maker(profile)
    for _ in range(2):
        cached(None, "key", make, fingerprint=profile.graph.fingerprint)
    assert make.calls == 2


def test_damaged_and_foreign_files_are_replaced(profile: Profile, tmp_path: Path) -> None:
    make, fingerprint = Maker(profile), profile.graph.fingerprint
    path = tmp_path / "key.json"
    path.write_text("{")
    assert cached(tmp_path, "key", make, fingerprint=fingerprint) == Schedule.load(path)
    replace(Schedule.load(path), fingerprint="of another graph").save(path)
    assert cached(tmp_path, "key", make, fingerprint=fingerprint).fingerprint == fingerprint
    assert make.calls == 2


def test_a_folder_that_cannot_be_made_costs_nothing_but_the_caching(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    schedule = cached(tmp_path / "file" / "below", "key", Maker(profile), fingerprint=profile.graph.fingerprint)
    assert schedule.fingerprint == profile.graph.fingerprint


def test_key_depends_on_all_that_a_schedule_depends_on(profile: Profile) -> None:
    graph = profile.graph
    base = cache_key(graph, limit="60%", device="cpu")
    assert base == cache_key(graph, device="cpu", limit="60%")
    slower = replace(graph, ops=tuple(replace(op, seconds=2 * op.seconds) for op in graph.ops))
    assert base == cache_key(slower, limit="60%", device="cpu")
    bigger = replace(graph, data=tuple(replace(d, bytes=2 * d.bytes) for d in graph.data))
    heavier = replace(graph, static=replace(graph.static, optimizer=8))
    others = [
        cache_key(graph, limit="50%", device="cpu"),
        cache_key(graph, limit="60%", device="cuda"),
        cache_key(bigger, limit="60%", device="cpu"),
        cache_key(heavier, limit="60%", device="cpu"),
    ]
    assert len({base, *others}) == 5


def test_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/rematopt")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_folder() == Path("/home/someone/.cache/rematopt")
