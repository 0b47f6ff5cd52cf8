from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from rematopt.errors import RecomputationError
from rematopt.executor import apply
from rematopt.executor.checking import checksum
from rematopt.profiler import profile
from tests.executor.models import examples
from tests.executor.schedules import assert_identical, plain_copy, random_runs, schedule_of, train


@pytest.mark.parametrize("name", list(examples()))
def test_exact_recomputation_passes(name: str) -> None:
    model, args = examples()[name]
    plain = train(plain_copy(model), args, {}, steps=2)
    graph = profile(model, args).graph
    apply(model, schedule_of(graph, random_runs(graph, random.Random(0), 0.9)), debug=True)
    assert_identical(train(model, args, {}, steps=2), plain)


def test_a_changed_input_is_named_with_op_module_and_step() -> None:
    """Autograd's version check does not see a write through ``data``; the comparison does."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh())
    x = torch.randn(3, 4)
    graph = profile(model, (x,)).graph
    apply(model, schedule_of(graph, random_runs(graph, random.Random(0), 1.0)), debug=True)
    loss = model(x).sum()
    model[0].weight.data[0, 0] += 1
    with pytest.raises(RecomputationError, match=r"step \d+: addmm \(aten.addmm.default\) in 0 computed another value"):
        loss.backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
def test_a_checksum_sees_one_bit_and_the_order(dtype: torch.dtype) -> None:
    value = (torch.arange(12).reshape(3, 4) % 2).to(dtype)
    other = value.clone()
    other[1, 2] = ~other[1, 2] if dtype is torch.bool else other[1, 2] + 1
    assert torch.equal(checksum(value), checksum(value.clone()))
    assert not torch.equal(checksum(value), checksum(other))
    assert not torch.equal(checksum(value), checksum(value.flip(1)))
