"""Every way in which a factory can be named, and every way in which that can go wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from rematopt.errors import InvalidInputError
from rematopt.factory import make_example

SOURCE = """
import helper_beside
from torch import nn

value = 3

def make(width=4):
    return nn.Linear(width, helper_beside.OUTPUTS), [None], {}

def breaks():
    raise RuntimeError("no data")

def forgets():
    return nn.Linear(2, 2), ()

def alone():
    return nn.Linear(2, 2)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "helper_beside.py").write_text("OUTPUTS = 5\n")
    (tmp_path / "models_here.py").write_text(SOURCE)
    (tmp_path / "exits.py").write_text("raise SystemExit(3)\n")
    return tmp_path


def test_path_and_module_name_the_same_function(folder: Path) -> None:
    for factory in (f"{folder}/models_here.py:make", "models_here.py:make", "models_here:make"):
        model, args, kwargs = make_example(factory, {"width": 7})
        assert isinstance(model, nn.Linear)
        assert (model.in_features, model.out_features) == (7, 5)
        assert args == (None,)
        assert kwargs == {}


def test_zoo() -> None:
    model, args, _ = make_example("zoo:mlp", {"batch": 2, "width": 8})
    assert isinstance(model, nn.Module)
    assert args[0].shape[0] == 2


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("models_here.py", "not of the form"),
        (":make", "not of the form"),
        ("models_here.py:", "not of the form"),
        ("missing.py:make", "no file missing.py"),
        ("missing_module:make", "cannot import missing_module"),
        ("models_here.py:absent", "defines no 'absent'; functions it defines: make, breaks, forgets, alone"),
        ("models_here:value", "is of type int; expected a function"),
        ("models_here:breaks", r"raised RuntimeError: no data \(models_here.py, line 11\)"),
        ("models_here:forgets", r"returned \(Linear, tuple\)"),
        ("models_here:alone", "returned Linear"),
        ("exits.py:make", "raised SystemExit"),
        ("zoo:gpt5", "the zoo has no 'gpt5'; it has mlp"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_wrong_is_named(factory: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make_example(factory)


@pytest.mark.usefixtures("folder")
def test_unknown_size_lists_those_there_are() -> None:
    with pytest.raises(InvalidInputError, match="'depth'; it takes width"):
        make_example("models_here:make", {"depth": 2})
