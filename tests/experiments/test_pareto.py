"""The comparison of methods, from a model to table and figures."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from experiments.networks import NETWORKS, SMALL
from experiments.pareto import Settings, conclusion, main, rows, side_by_side, summary_rows, write
from experiments.publish import BEGIN, END, publish
from rematopt.errors import ArtefactError, InvalidInputError
from rematopt.zoo import MODELS

FIELDS = {"model", "method", "setting", "measured_peak_bytes", "measured_ratio", "recomputed_flops", "gradients"}
SETTINGS = Settings(
    methods=("aot_eager", "checkpoint blocks"), strategies=("chen-sqrt",), rounds=2, limits=3, time_limit=2
)


def test_methods_side_by_side(tmp_path: Path) -> None:
    records = side_by_side("mlp", SMALL["mlp"], SETTINGS)
    assert {r["method"] for r in records} == {"plain", "aot_eager", "checkpoint blocks", "auto", "chen-sqrt"}
    for r in records:
        assert r.keys() >= FIELDS | {"device", "versions", "seed"}
        assert r["gradients"] == "identical"
        assert r["activation_bytes"] < r["measured_peak_bytes"]
        if r["limit_bytes"]:
            assert r["measured_peak_bytes"] <= r["limit_bytes"]
    plain = next(r for r in records if r["method"] == "plain")
    assert (plain["measured_ratio"], plain["recomputed_flops"]) == (1, 0)
    write(records, tmp_path)
    assert json.loads((tmp_path / "rows.json").read_text()) == json.loads(json.dumps(records))
    assert len(list(csv.DictReader((tmp_path / "rows.csv").open()))) == len(records)
    assert {path.name for path in tmp_path.glob("*.png")} == {"mlp.png", "mlp-flops.png"}
    assert len(rows(records)) == len(records)
    ours = sum(r["method"] == "auto" for r in records)
    failed = {**records[-1], "method": "auto", "error": "did not run"}
    assert f"of {ours} settings by time" in conclusion([*records, failed])
    assert [row["method"] for row in summary_rows(records)] == ["plain", "aot_eager", "checkpoint blocks", "chen-sqrt"]
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    publish(records, readme, tmp_path, model="mlp")
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| checkpoint blocks | 1 | 1 |" in text
    assert (tmp_path / "pareto-mlp.png").exists()
    publish(records, readme, tmp_path, model="mlp")
    assert readme.read_text() == text
    with pytest.raises(ArtefactError, match="no rows of gpt2"):
        publish(records, readme, tmp_path)
    readme.write_text("no marks")
    with pytest.raises(ArtefactError, match="lacks the lines"):
        publish(records, readme, tmp_path, model="mlp")


def test_networks_are_in_the_zoo_and_names_are_checked() -> None:
    assert NETWORKS.keys() <= MODELS.keys()
    with pytest.raises(InvalidInputError, match="magic"):
        main(["mlp"], strategies="magic")
    with pytest.raises(InvalidInputError, match="'nothing' is unknown"):
        main(["nothing"])
