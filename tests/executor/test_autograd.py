from __future__ import annotations

import gc
import random
import weakref

import pytest
import torch
from torch import nn

from rematopt.errors import UnsupportedModelError
from rematopt.executor import apply
from rematopt.profiler import profile
from tests.executor.models import examples
from tests.executor.schedules import plain_copy, random_runs, schedule_of, seed_all


def planned(name: str, dropped: float = 0.8) -> tuple[nn.Module, tuple[torch.Tensor, ...], nn.Module]:
    """A model by a schedule, its arguments, and a plain copy."""
    model, args = examples()[name]
    twin = plain_copy(model)
    graph = profile(model, args).graph
    apply(model, schedule_of(graph, random_runs(graph, random.Random(2), dropped)), on_mismatch="error")
    return model, args, twin


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def same(model: nn.Module, twin: nn.Module) -> bool:
    mine, theirs = gradients(model), gradients(twin)
    return len(mine) == len(theirs) and all(map(torch.equal, mine, theirs))


def test_several_forwards_in_any_order_of_backwards() -> None:
    model, args, twin = planned("mixed")
    for m in (model, twin):
        seed_all(1)
        losses = [m(*args), m(*args), m(*args)]
        del losses[1]
        losses[1].backward()
        losses[0].backward()
    assert same(model, twin)


def test_accumulation_and_a_second_backward_through_the_same_graph() -> None:
    model, args, twin = planned("attention")
    for m in (model, twin):
        seed_all(1)
        loss = m(*args)
        loss.backward(retain_graph=True)
        loss.backward()
        m(*args).backward()
    assert same(model, twin)


def test_a_differentiable_backward_is_refused_at_once() -> None:
    model, args, _ = planned("attention")
    with pytest.raises(UnsupportedModelError, match=r"create_graph.*remove"):
        torch.autograd.grad(model(*args), list(model.parameters()), create_graph=True)
    model(*args).backward()


def test_a_weight_changed_in_between_raises_as_in_eager() -> None:
    model, args, twin = planned("attention")
    for m in (model, twin):
        loss = m(*args)
        with torch.no_grad():
            m.out.weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_an_exception_in_the_middle_leaves_nothing_behind() -> None:
    model, args, twin = planned("mixed")
    seed_all(1)
    loss = model(*args)

    def fail(_gradient: torch.Tensor) -> None:
        raise KeyboardInterrupt

    hook = model.inner.weight.register_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    hook.remove()
    model.zero_grad()
    for b, c in zip(model.buffers(), twin.buffers(), strict=True):
        c.copy_(b)
    for m in (model, twin):
        seed_all(2)
        m(*args).backward()
    assert same(model, twin)


@pytest.mark.parametrize("dropped", [0.0, 1.0])
def test_everything_is_freed_without_the_garbage_collector(dropped: float) -> None:
    model, args, _ = planned("attention", dropped)
    model(*args).backward()
    gc.collect()
    gc.disable()
    try:
        before = _live_tensors()
        for _ in range(5):
            loss = model(*args)
            gone = weakref.ref(loss)
            loss.backward()
            del loss
            model.zero_grad()
            model(*args)
            assert gone() is None
        assert _live_tensors() <= before
    finally:
        gc.enable()


def _live_tensors() -> int:
    return sum(type(o) in (torch.Tensor, nn.Parameter) for o in gc.get_objects())


def test_calls_without_gradients_hold_no_memory_for_a_backward() -> None:
    model, args, twin = planned("mixed")
    model.eval()
    twin.eval()
    with torch.no_grad():
        assert model(*args).grad_fn is None
    seed_all(1)
    expected = twin(*args)
    seed_all(1)
    with torch.inference_mode():
        assert torch.equal(model(*args), expected)
