"""Every method keeps the numbers or is caught, and gives the plain model back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from experiments.flops import flops_of
from experiments.methods import BASELINES, PLAIN, planned
from experiments.methods.blocks import find_blocks, longest_sequence
from experiments.numbers import numbers_of_step, same, verdict
from experiments.side_by_side import by_method, dominates, undominated_share
from rematopt.model import run_backward
from rematopt.training import Run, prepare, profile_run
from rematopt.zoo import MODELS

UNET = {"batch": 1, "resolution": 16, "width": 4, "depth": 2}
GPT2 = {"batch": 2, "sequence": 16, "layers": 2, "width": 16}


MLP = {"batch": 8, "width": 8, "depth": 3}


def run(name: str, dropout: float = 0.0) -> Run:
    sizes = GPT2 if name == "gpt2" else MLP | {"dropout": dropout}
    return prepare(f"zoo:{name}", sizes, optimizer="none")


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "inductor budget"])
def test_gradients_are_those_of_the_plain_model_and_restore_gives_it_back(name: str) -> None:
    model = "gpt2" if name == "gradient_checkpointing_enable" else "mlp"
    plain = numbers_of_step(run(model), 0)
    setting = BASELINES[name].settings(run(model).model)[0]
    prepared = run(model)
    restore = BASELINES[name].prepare(prepared.model, setting)
    assert verdict(numbers_of_step(prepared, 0), [plain]) != "wrong"
    restore()
    again = run(model)
    restored = Run(model=prepared.model, optimizer=None, calls=again.calls, example=again.example)
    restored.model.load_state_dict(again.model.state_dict())
    restored.model.zero_grad()
    assert same(numbers_of_step(restored, 0).tensors, plain.tensors)


def test_recomputation_costs_operations_and_a_schedule_counts_too() -> None:
    def flops(method, setting):
        prepared = run("mlp")
        method.prepare(prepared.model, setting)
        args, kwargs = prepared.example

        def step() -> None:
            run_backward(prepared.model(*args, **kwargs))

        step()
        return flops_of(step)

    plain = flops(PLAIN, "")
    assert flops(BASELINES["aot_eager"], "") == plain
    assert flops(BASELINES["checkpoint blocks"], "") > plain
    profile = profile_run(run("mlp"))
    everything = planned("chen-sqrt", profile, [], time_limit=1)
    runs = everything.schedules[""].runs
    assert flops(everything, "") == sum(profile.graph.ops[i].flops for i in runs) > plain


def test_dropout_under_a_budget_is_called_wrong() -> None:
    plain = numbers_of_step(run("mlp", dropout=0.5), 0)
    prepared = run("mlp", dropout=0.5)
    BASELINES["memory budget"].prepare(prepared.model, "0")
    assert verdict(numbers_of_step(prepared, 0), [plain]) == "wrong"


def test_blocks_are_found() -> None:
    def count(name: str, **sizes: object) -> int:
        return len(find_blocks(MODELS[name](**sizes)[0]))

    assert count("gpt2", **GPT2) == 2
    assert count("unet", **UNET) == 5
    assert count("mlp", batch=2, width=4, depth=3) == 3
    assert count("resnet50", batch=1, resolution=32, width=4) == 17
    vgg = MODELS["vgg16"](batch=1, resolution=32, width=4, hidden=8)[0]
    assert not find_blocks(vgg)
    found = longest_sequence(vgg)
    assert found is not None
    assert len(found[1]) == 31 + 8
    assert longest_sequence(nn.Linear(1, 1)) is None


def record(method: str, peak: int, time: float, gradients: str = "identical") -> dict[str, object]:
    return {
        "model": "m",
        "method": method,
        "measured_peak_bytes": peak,
        "measured_ratio": time,
        "step_flops": 100,
        "recomputed_flops": int(100 * (time - 1)),
        "gradients": gradients,
        "state_identical": True,
        "error": None,
    }


def test_summary_counts_dominance_and_leaves_wrong_gradients_out() -> None:
    records = [
        record("auto", 50, 1.2),
        record("auto", 80, 1.1),
        record("other", 80, 1.32),
        record("other", 40, 1.5),
        record("wrong", 40, 1.0, "wrong"),
    ]
    assert undominated_share(records) == 1
    assert undominated_share([*records, record("third", 50, 1.0)]) == 0
    assert dominates(records[0], records[2], "measured_ratio")
    assert not dominates(records[0], record("other", 50, 1.201), "measured_ratio")
    other, wrong = by_method(records)
    assert other["time_ratio"] == pytest.approx(1.1 / 1.32)
    assert other["peak_ratio"] == pytest.approx((50 / 80 + 50 / 40) / 2)
    assert other["undominated"] == 1
    assert (wrong["wrong"], wrong["time_ratio"]) == (1, None)


def test_other_numbers_are_told_apart() -> None:
    plain = numbers_of_step(run("mlp"), 0)
    changed = run("mlp")
    with torch.no_grad():
        next(changed.model.parameters()).mul_(1 + 1e-6)
    assert verdict(numbers_of_step(changed, 0), [plain]) == "close"
    with torch.no_grad():
        next(changed.model.parameters()).add_(1)
    changed.model.zero_grad()
    assert verdict(numbers_of_step(changed, 0), [plain]) == "wrong"
