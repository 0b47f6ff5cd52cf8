"""Profiles as data frames and as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rematopt.errors import ArtefactError, InvalidInputError
from rematopt.profile import Profile


def test_ops_and_what_backward_keeps(profile: Profile) -> None:
    frame = profile.to_dataframe()
    assert list(frame["op"]) == ["f0", "f1", "f2", "f3", "f4", "f5", "b5", "b4", "b3", "b2", "b1"]
    # Backward reads the outputs of f0 to f4; the caller holds the loss of f5.
    assert list(frame["retained_bytes"]) == [100] * 5 + [4] + [0] * 5
    assert list(frame["workspace_bytes"]) == [0] * 6 + [8] * 5


def test_modules_include_their_submodules(profile: Profile) -> None:
    frame = profile.to_dataframe("module").set_index("module")
    assert list(frame.index) == ["", "block", *(f"block.{i}" for i in range(6))]
    assert frame.loc["", "seconds"] == frame.loc["block", "seconds"] == profile.graph.seconds == 16.0
    assert frame.loc["block.1", "forward_seconds"] == 1.0
    assert frame.loc["block.1", "backward_seconds"] == 2.0
    assert frame.loc["block", "retained_bytes"] == 504
    assert frame.loc["block", "workspace_bytes"] == 8
    assert list(frame["depth"]) == [0, 1, *[2] * 6]


def test_unknown_view(profile: Profile) -> None:
    with pytest.raises(InvalidInputError, match="'layer'; expected 'op' or 'module'"):
        profile.to_dataframe("layer")  # type: ignore[arg-type]


def test_file_gives_the_same_profile(profile: Profile, tmp_path: Path) -> None:
    profile.save(tmp_path / "p.json")
    assert Profile.load(tmp_path / "p.json") == profile
    with pytest.raises(ArtefactError, match="cannot read"):
        Profile.load(tmp_path / "missing.json")


def test_repr_is_one_line(profile: Profile) -> None:
    assert repr(profile) == "Profile(model: 6 forward and 5 backward ops, 16 s a step, 50 B static, cpu: test)"
