"""The experiments on a model that is small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from experiments import gpu_check
from experiments.fidelity import SHARES, Settings, fidelity, summary
from experiments.overhead import overhead
from experiments.repeat import repeat
from rematopt.errors import InvalidInputError
from rematopt.schedule import Schedule

SIZES = {"batch": 512, "width": 32, "depth": 2}
FIELDS = {
    "model",
    "limit_bytes",
    "unplanned_peak_bytes",
    "smallest_limit_bytes",
    "predicted_peak_bytes",
    "measured_peak_bytes",
    "predicted_ratio",
    "measured_ratio",
    "identical",
}


def test_fidelity_keeps_limits_and_numbers(tmp_path: Path) -> None:
    settings = Settings(steps=2, time_limit=2, optimizer="adamw", accumulate=2, folder=tmp_path)
    records = fidelity("mlp", SIZES, settings)
    assert len(records) == len(SHARES)
    for record in records:
        assert record.keys() >= FIELDS
        assert record["measured_peak_bytes"] <= record["limit_bytes"]
        assert record["identical"]
        assert Schedule.load(record["schedule"]).limit_bytes == record["limit_bytes"]
    assert records[-1]["limit_bytes"] == records[-1]["smallest_limit_bytes"]
    facts = summary(records)
    assert facts["limits kept"] == facts["numbers identical"] == f"{len(SHARES)} of {len(SHARES)}"
    worst = max(abs(r["measured_ratio"] / r["predicted_ratio"] - 1) for r in records)
    assert f"{worst:.2%}".rstrip("%") in facts["time ratio off by"]


def test_overhead_times_both() -> None:
    record = overhead("mlp", SIZES, rounds=2)
    assert min(record["store_all_seconds"], record["aot_eager_seconds"]) > 0


def test_repeated_profiles_have_the_same_sizes() -> None:
    record = repeat("mlp", SIZES, profiles=2)
    assert record["sizes_changed"] == 0
    assert record["long_ops"] > 0
    assert 0 <= record["median_change"] <= record["worst_change"]


def test_the_check_of_a_gpu_can_be_rehearsed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu_check.main(tmp_path, models="mlp", device="cpu", small=True, steps=2, time_limit=1.0, json=True)
    records = json.loads(capsys.readouterr().out)
    assert records == json.loads((tmp_path / "gpu_check.json").read_text())
    assert len((tmp_path / "gpu_check.csv").read_text().splitlines()) == 1 + len(gpu_check.LIMITS) == 1 + len(records)
    assert all(record["identical"] and record["predicted_reserved_bytes"] > 0 for record in records)


@pytest.mark.parametrize("name", ["gpt3", "gpt2:fp8"])
def test_unknown_models_and_casts_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=f"'{name}' is unknown"):
        gpu_check.main(tmp_path, models=name, device="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_missing_gpu_is_named_with_the_rehearsal() -> None:
    with pytest.raises(InvalidInputError, match="--device cpu --small"):
        gpu_check.check_device("cuda")
