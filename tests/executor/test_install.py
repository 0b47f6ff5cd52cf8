from __future__ import annotations

import copy
import pickle
import random
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

from rematopt.errors import InvalidInputError, ScheduleMismatchError
from rematopt.executor import apply
from rematopt.executor.backend import difference
from rematopt.graph import Signature
from rematopt.profiler import profile
from rematopt.profiler.capture import capture
from rematopt.profiler.lowering import lower
from rematopt.schedule import Schedule
from tests.executor.models import Mixed, Tied, examples
from tests.executor.schedules import assert_identical, plain_copy, random_runs, schedule_of, train


@pytest.fixture(scope="module")
def schedule() -> Schedule:
    model, args = examples()["mixed"]
    graph = profile(model, args).graph
    return schedule_of(graph, random_runs(graph, random.Random(0), 0.8))


def test_the_object_stays_itself(schedule: Schedule) -> None:
    model, _ = examples()["mixed"]
    before = (type(model), list(model.state_dict()), [id(p) for p in model.parameters()], set(vars(model)))
    handle = apply(model, schedule)
    assert (type(model), list(model.state_dict()), [id(p) for p in model.parameters()]) == before[:3]
    assert "forward" not in vars(model)
    handle.remove()
    assert set(vars(model)) == before[3]
    handle.remove()


def test_copies_and_pickles_are_plain_models(schedule: Schedule) -> None:
    model, args = examples()["mixed"]
    plain = train(plain_copy(model), args, {})
    apply(model, schedule)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert "_compiled_call_impl" not in vars(twin)
        assert_identical(train(twin, args, {}), plain)


def test_removing_gives_the_plain_model_back(schedule: Schedule) -> None:
    model, args = examples()["mixed"]
    plain = train(plain_copy(model), args, {})
    with apply(model, schedule):
        pass
    assert_identical(train(model, args, {}), plain)


def test_another_batch_size_runs_plain_with_one_warning(schedule: Schedule) -> None:
    model, _ = examples()["mixed"]
    other = (torch.randn(3, 12),)
    plain = train(plain_copy(model), other, {}, steps=2)
    apply(model, schedule)
    with pytest.warns(RuntimeWarning, match="first differ at op") as caught:
        found = train(model, other, {}, steps=2)
    assert len(caught) == 1
    assert_identical(found, plain)


def test_another_batch_size_is_refused_on_demand(schedule: Schedule) -> None:
    model, _ = examples()["mixed"]
    apply(model, schedule, on_mismatch="error")
    with pytest.raises(ScheduleMismatchError, match=r"op \d+.*\[5, 12\].*\[3, 12\]"):
        model(torch.randn(3, 12))


def test_a_graph_that_differs_in_one_size_is_told_apart(schedule: Schedule) -> None:
    model, args = examples()["mixed"]
    lowered = lower(capture(model, args))
    graph = lowered.graph
    data = (*graph.data[:3], replace(graph.data[3], bytes=7), *graph.data[4:])
    other = replace(lowered, graph=replace(graph, data=data))
    found = difference(schedule, other)
    assert f"d3 {graph.data[3].label}" in found
    assert f"{graph.data[3].bytes} bytes in the schedule, 7 in the call" in found


def test_calls_without_gradients_need_no_plan(schedule: Schedule) -> None:
    model, args = examples()["mixed"]
    apply(model, schedule, on_mismatch="error")
    model.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model(*args).requires_grad is False


def test_a_schedule_of_another_model_is_refused_at_once(schedule: Schedule) -> None:
    with pytest.raises(ScheduleMismatchError, match=r"has calls.*has body"):
        apply(Tied(), schedule)
    wider = Mixed(width=16)
    with pytest.raises(ScheduleMismatchError, match=r"bias float32\[12\].*bias float32\[16\]"):
        apply(wider, schedule)
    assert "_compiled_call_impl" not in vars(wider)


def test_a_schedule_without_a_model_is_refused(schedule: Schedule) -> None:
    model, _ = examples()["mixed"]
    with pytest.raises(InvalidInputError, match="not made from a model"):
        apply(model, replace(schedule, signature=Signature()))


def test_an_unknown_policy_is_refused(schedule: Schedule) -> None:
    model, _ = examples()["mixed"]
    with pytest.raises(InvalidInputError, match="on_mismatch"):
        apply(model, schedule, on_mismatch="ignore")  # type: ignore[arg-type]


def test_hooks_added_later_fire_once_and_in_order(schedule: Schedule) -> None:
    def run(model: nn.Module) -> list[str]:
        fired: list[str] = []
        model.register_forward_pre_hook(lambda *_: fired.append("before"))
        model.register_forward_hook(lambda *_: fired.append("after"))
        model.inner.weight.register_hook(lambda _: fired.append("gradient"))
        model.inner.weight.register_post_accumulate_grad_hook(lambda _: fired.append("stored"))
        train(model, examples()["mixed"][1], {})
        return fired

    model, _ = examples()["mixed"]
    expected = run(plain_copy(model))
    apply(model, schedule)
    assert run(model) == expected == ["before", "after", "gradient", "stored"]


def test_another_dtype_after_apply_runs_correctly(schedule: Schedule) -> None:
    model, args = examples()["mixed"]
    wide = (args[0].double(),)
    plain = train(plain_copy(model).double(), wide, {})
    apply(model, schedule)
    with pytest.warns(RuntimeWarning, match="f64"):
        assert_identical(train(model.double(), wide, {}), plain)


def test_an_optimizer_made_before_trains_the_same_parameters(schedule: Schedule) -> None:
    model, args = examples()["mixed"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.inner.weight.detach().clone()
    apply(model, schedule, on_mismatch="error")
    model(*args).backward()
    optimizer.step()
    assert not torch.equal(before, model.inner.weight)


def test_many_models_do_not_compete_for_the_compiler(schedule: Schedule) -> None:
    """The compiler limits results per code object, which all modules would share."""
    for _ in range(12):
        model, args = examples()["mixed"]
        apply(model, schedule, on_mismatch="error")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model(*args).backward()


def test_normal_use_warns_about_nothing(schedule: Schedule) -> None:
    model, args = examples()["mixed"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apply(model, schedule)
        train(model, args, {}, steps=2)
