"""Tables and facts as a pipe sees them."""

from __future__ import annotations

import json

import pytest

from rematopt.console import percent, print_facts, print_json, print_table


def test_table_in_a_pipe_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Title", [{"limit": "1.50 GiB", "status": "optimal"}, {"limit": "800 MiB", "status": "-"}])
    assert capsys.readouterr().out == ("Title\n   limit  status\n1.50 GiB  optimal\n 800 MiB  -\n")


def test_facts(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts("Title", {"a": "1", "long name": "[not markup]"})
    assert capsys.readouterr().out == "Title\n  a          1\n  long name  [not markup]\n"


def test_json_is_one_value(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"bytes": 2**40, "seconds": 0.5, "none": None})
    assert json.loads(capsys.readouterr().out) == {"bytes": 2**40, "seconds": 0.5, "none": None}


def test_percent() -> None:
    assert percent(0.0584, sign=True) == "+5.8 %"
    assert percent(0.0, digits=2) == "0.00 %"
    assert percent(None) == "-"
