"""The comparison of strategies, on a small graph of each kind of file."""

from __future__ import annotations

import json

import pytest

from experiments.solvers import main, read, records_of
from rematopt.artefacts import save
from rematopt.errors import InvalidInputError
from rematopt.solver.registry import Options
from tests.solver.vgg import vgg16

FIELDS = {"graph", "ops", "limit", "status", "strategy", "limit_bytes", "peak_bytes", "unplanned_peak_bytes"}
CHAIN = {"cost": [4, 4, 4, 4, 1], "mem": [5, 5, 5, 5, 1], "edges": [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]]}


@pytest.fixture
def folder(tmp_path):
    save(vgg16(), tmp_path / "vgg.json")
    (tmp_path / "chain.json").write_text(json.dumps(CHAIN))
    (tmp_path / "other.json").write_text("{}")
    return tmp_path


def test_files_of_both_kinds_are_read(folder):
    assert read(folder / "vgg.json").fingerprint == vgg16().fingerprint
    assert len(read(folder / "chain.json").ops) == 5


def test_a_record_a_limit_and_strategy(folder, capsys):
    paths = [folder / "chain.json", folder / "other.json"]
    records = list(records_of(paths, ["milp", "store-all"], Options(), 10.0))
    assert [(r["limit"], r["strategy"]) for r in records[:3]] == [(0.8, "milp"), (0.8, "store-all"), (0.6, "milp")]
    for record in records:
        assert set(record) >= FIELDS
        if record["peak_bytes"] is not None:
            assert record["peak_bytes"] <= record["limit_bytes"]
            assert record["bound_seconds"] <= record["step_seconds"]
    assert "left out" in capsys.readouterr().err


def test_json_is_one_list(folder, capsys):
    main(graphs=folder, only="chain", strategies="auto", time_limit=5.0, gap=0.0, json=True)
    records = json.loads(capsys.readouterr().out)
    assert {record["graph"] for record in records} == {"chain"}


def test_what_cannot_be_used_is_named(folder):
    with pytest.raises(InvalidInputError, match="magic"):
        main(graphs=folder, strategies="magic")
    with pytest.raises(InvalidInputError, match="no folder"):
        main(graphs=folder / "none")
