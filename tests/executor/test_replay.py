from __future__ import annotations

import random

import pytest
import torch

from rematopt.device import allocations
from rematopt.executor import apply, measure
from rematopt.executor.random_state import save_random_state
from rematopt.executor.replay import Replay
from rematopt.graph import Graph
from rematopt.profiler import profile
from rematopt.profiler.capture import capture
from rematopt.profiler.lowering import lower
from tests.executor.models import examples
from tests.executor.schedules import assert_identical, plain_copy, random_runs, schedule_of, train

NAMES = list(examples())


def lowered_graph(name: str) -> Graph:
    model, args = examples()[name]
    return lower(capture(model, args)).graph


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dropped", [0.0, 0.5, 1.0])
def test_three_steps_by_any_schedule_equal_the_plain_model_bit_for_bit(name: str, dropped: float) -> None:
    model, args = examples()[name]
    plain = train(plain_copy(model), args, {}, steps=3)
    graph = profile(model, args).graph
    schedule = schedule_of(graph, random_runs(graph, random.Random(f"{name}{dropped}"), dropped))
    assert (schedule.recomputed > 0) == (dropped > 0)
    apply(model, schedule, on_mismatch="error")
    assert_identical(train(model, args, {}, steps=3), plain)


def test_every_op_runs_as_often_as_scheduled() -> None:
    model, args = examples()["attention"]
    graph = lowered_graph("attention")
    schedule = schedule_of(profile(model, args).graph, random_runs(graph, random.Random(1), 1.0))
    expected = sum("mm" in graph.ops[i].target for i in schedule.runs)
    apply(model, schedule, on_mismatch="error")
    loss = model(*args)
    loss.backward()
    with torch.profiler.profile() as record:
        model(*args).backward()
    counted = sum(e.name in ("aten::addmm", "aten::mm", "aten::bmm") for e in record.events())
    assert counted == expected


@pytest.mark.parametrize("dropped", [0.0, 0.6, 1.0])
def test_the_measured_peak_is_the_simulated_one(dropped: float) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.BatchNorm1d(32), torch.nn.GELU()) for _ in range(6))
    )
    args = (torch.randn(512, 32),)
    graph = profile(model, args).graph
    schedule = schedule_of(graph, random_runs(graph, random.Random(3), dropped))
    apply(model, schedule, on_mismatch="error")
    measured = measure(model, args, repeats=1)
    assert measured.static.total == graph.static.total
    assert measured.peak_bytes == pytest.approx(schedule.peak_bytes, rel=0.001)


def test_activations_die_where_the_schedule_frees_them() -> None:
    """The backward pass of a chain must shrink as it goes, not hold everything to its end."""
    layers, rows = 8, 256
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(layers)))
    args = (torch.randn(rows, 64, requires_grad=True),)
    graph = profile(model, args).graph
    schedule = schedule_of(graph, list(range(len(graph.ops))))
    apply(model, schedule, on_mismatch="error")
    model(*args).sum().backward()
    (forward,) = allocations([lambda: model(*args)], torch.device("cpu"))
    (step,) = allocations([lambda: model(*args).sum().backward()], torch.device("cpu"))
    activation = rows * 64 * 4
    weight_gradients = layers * (64 * 64 + 64) * 4
    assert step.peak_bytes < forward.peak_bytes + 3 * activation
    assert step.peak_bytes < forward.peak_bytes + activation + weight_gradients


def test_a_random_state_is_saved_only_where_it_is_used_again() -> None:
    model, args = examples()["mixed"]
    lowered = lower(capture(model, args))
    for dropped, saved in ((0.0, 0), (1.0, 3)):
        schedule = schedule_of(lowered.graph, random_runs(lowered.graph, random.Random(0), dropped))
        forward, _ = Replay(lowered, schedule.steps, schedule.forward_end).graphs()
        assert sum(node.target is save_random_state for node in forward.graph.nodes) == saved
