"""Times that are estimated, and models that have no memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rematopt
from rematopt.errors import InvalidInputError
from rematopt.profile import Profile, Timing
from rematopt.profiler import DEVICES, Rates
from rematopt.profiler.rates import rates_of
from tests.executor.models import examples
from tests.profiler.test_lowering import Function

SLOW = Rates(name="slow", flops={"float32": 1000.0, "bfloat16": 4000.0}, bytes_per_second=1e9, launch_seconds=0.5)


def op(profile: Profile, target: str) -> tuple[float, int]:
    found = next(o for o in profile.graph.ops if target in o.target)
    return found.seconds, found.flops


def test_an_op_takes_the_longer_of_computing_and_moving_and_a_launch() -> None:
    linear = nn.Linear(8, 16)
    profile = rematopt.profile(linear, (torch.randn(4, 8),), timing=SLOW)
    flops = 2 * 4 * 8 * 16
    assert op(profile, "addmm") == (pytest.approx(flops / 1000 + 0.5), flops)
    thin = Rates(name="thin", flops={"float32": 1e18}, bytes_per_second=1000.0, launch_seconds=0.25)
    moved = 4 * (16 + 4 * 8 + 8 * 16 + 4 * 16)
    assert op(rematopt.profile(linear, (torch.randn(4, 8),), timing=thin), "addmm")[0] == pytest.approx(
        moved / 1000 + 0.25
    )


def test_the_backward_of_a_convolution_counts_and_the_dtype_decides_on_the_rate() -> None:
    conv = nn.Conv2d(2, 3, 3, padding=1)
    x = torch.randn(1, 2, 8, 8, requires_grad=True)
    profile = rematopt.profile(conv, (x,), timing=SLOW)
    forward = 2 * 3 * 8 * 8 * 2 * 9
    assert op(profile, "aten.convolution.default")[1] == forward
    assert op(profile, "convolution_backward")[1] == 2 * forward
    half = rematopt.profile(nn.Linear(8, 16).bfloat16(), (torch.randn(4, 8).bfloat16(),), timing=SLOW)
    assert op(half, "addmm")[0] == pytest.approx(2 * 4 * 8 * 16 / 4000 + 0.5)


def test_an_expanded_tensor_and_a_lookup_move_what_they_have() -> None:
    def call(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return (F.embedding(rows, table) * table.sum().expand(2, 8)).sum()

    thin = Rates(name="thin", flops={"float32": 1.0}, bytes_per_second=1.0, launch_seconds=0.0)
    profile = rematopt.profile(Function(call, width=8), (torch.zeros(2, dtype=torch.long),), timing=thin)
    assert op(profile, "embedding.default")[0] == 2 * 2 * 8 * 4 + 2 * 8
    assert op(profile, "aten.mul.Tensor")[0] == 2 * 2 * 8 * 4 + 4


def test_estimates_are_marked_everywhere() -> None:
    model, args = examples()["mixed"]
    profile = rematopt.profile(model, args, timing="roofline:a100")
    assert profile.graph.estimated
    assert "A100" in profile.device
    assert {t for o, t in zip(profile.graph.ops, profile.timings, strict=True) if o.target.startswith("aten")} == {
        Timing.ROOFLINE
    }
    schedule = rematopt.solve(profile, "100%", time_limit=1)
    assert schedule.timing == profile.graph.timing == "roofline: NVIDIA A100 80 GB"
    assert rematopt.explain(profile, limits=0).record()["timing"] == schedule.timing


def test_sizes_do_not_depend_on_the_timing() -> None:
    model, args = examples()["mixed"]
    measured, estimated = (rematopt.profile(model, args, timing=t) for t in ("measured", "roofline:local"))
    assert measured.graph.fingerprint == estimated.graph.fingerprint
    assert measured.graph.static == estimated.graph.static
    assert min(o.seconds for o in estimated.graph.ops if o.target.startswith("aten")) > 0


def test_rates_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"name": "mine", "flops": {"float32": 1e12}, "bytes_per_second": 1e11}))
    model, args = examples()["mixed"]
    assert rematopt.profile(model, args, timing=f"roofline:{path}").device == "mine (estimated)"
    path.write_text(json.dumps({"name": "mine", "flops": {}, "bytes_per_second": 1e11}))
    with pytest.raises(InvalidInputError, match="float32"):
        rates_of(str(path))


@pytest.mark.parametrize("timing", ["roofline:gameboy", "roofline", "guess", "roofline:missing.json"])
def test_an_unknown_timing_is_refused_before_anything_runs(timing: str) -> None:
    with pytest.raises(InvalidInputError, match=r"expected|use one of|cannot read"):
        rematopt.profile(nn.Linear(2, 2), (torch.ones(1, 2),), timing=timing)


def test_data_sheets_are_plausible() -> None:
    for name, rates in DEVICES.items():
        assert rates.flops_for("float16") >= rates.flops_for("float32") >= rates.flops_for("float64"), name
        assert rates.flops_for("float32", tf32=True) >= rates.flops_for("float32"), name
        assert 1e11 < rates.bytes_per_second < 1e13, name
    assert DEVICES["t4"].flops_for("bfloat16") == DEVICES["t4"].flops_for("float32")


class Body(nn.Module):
    """Dropout, a norm with buffers, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.layers(x), labels)


def make() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Body(), (torch.randn(32, 6), torch.randint(4, (32,)))


def test_a_profile_without_memory_is_that_of_the_real_model_and_its_schedule_applies() -> None:
    with rematopt.sizes_only():
        model, args = make()
        optimizer = torch.optim.AdamW(model.parameters())
        sizes = rematopt.profile(model, args, optimizer=optimizer, timing="roofline:h100")
        with pytest.raises(InvalidInputError, match="roofline:local"):
            rematopt.profile(model, args)
    model, args = make()
    real = rematopt.profile(model, args, optimizer=torch.optim.AdamW(model.parameters()))
    assert sizes.graph.fingerprint == real.graph.fingerprint
    assert sizes.graph.data == real.graph.data
    assert sizes.graph.static == real.graph.static
    assert sizes.graph.signature == real.graph.signature
    schedule = rematopt.solve(sizes, "min", time_limit=2)
    plain, _ = make()
    with rematopt.apply(model, schedule, on_mismatch="error"):
        torch.manual_seed(1)
        model(*args).backward()
    torch.manual_seed(1)
    plain(*args).backward()
    assert all(torch.equal(p.grad, q.grad) for p, q in zip(model.parameters(), plain.parameters(), strict=True))
