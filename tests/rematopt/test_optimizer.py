from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest
import torch
from torch import nn

from rematopt.device import allocations
from rematopt.errors import InvalidInputError
from rematopt.model import device_of
from rematopt.optimizer import optimizer_bytes, stepping_twin

CPU = torch.device("cpu")

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9, weight_decay=0.1),
    "nesterov": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
    "adam": torch.optim.Adam,
    "amsgrad": partial(torch.optim.Adam, amsgrad=True),
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
}
IMPLEMENTATIONS = {"default": {}, "loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(300, 200), nn.Linear(200, 400, bias=False), nn.Linear(400, 20))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_simulated_step_allocates_what_a_real_one_does(name: str, implementation: str) -> None:
    if name == "rmsprop" and implementation == "fused":
        pytest.skip("PyTorch has no fused RMSprop")
    trained = model()
    optimizer = OPTIMIZERS[name](trained.parameters(), lr=1e-3, **IMPLEMENTATIONS[implementation])
    predicted = optimizer_bytes(optimizer, device_of(trained, (), {}))
    assert not optimizer.state
    for p in trained.parameters():
        p.grad = torch.randn_like(p)
    first, second = allocations([optimizer.step, optimizer.step], CPU)
    weights = sum(p.numel() * 4 for p in trained.parameters())
    state = sum(t.untyped_storage().nbytes() for s in optimizer.state.values() for t in s.values() if t is not None)
    assert predicted.state == state
    real = max(first.peak_bytes - state, second.peak_bytes)
    # Scalars and the temporaries of one vectorised kernel call are not followed.
    assert predicted.step == pytest.approx(real, abs=1024, rel=0.001)
    assert predicted.step < 4 * weights


def test_groups_may_differ_and_hooks_are_not_called() -> None:
    trained = model()
    calls: list[object] = []
    groups = [{"params": list(layer.parameters()), "lr": 0.1 * (i + 1)} for i, layer in enumerate(trained)]
    optimizer = torch.optim.AdamW(groups, foreach=True)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    found = optimizer_bytes(optimizer, CPU)
    largest = max(sum(p.numel() * 4 for p in layer.parameters()) for layer in trained)
    assert largest <= found.step <= 4 * largest
    assert not calls


def test_an_optimizer_that_looks_at_values_must_have_stepped() -> None:
    trained = model()
    optimizer = torch.optim.Adafactor(trained.parameters())
    with pytest.raises(InvalidInputError, match="train one step"):
        optimizer_bytes(optimizer, CPU)
    for p in trained.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    with pytest.warns(RuntimeWarning, match=r"Adafactor.step\(\) are not counted"):
        assert optimizer_bytes(optimizer, CPU).state > 0


class Scaled(torch.optim.Optimizer):
    """An optimizer of one's own that keeps more than groups and state."""

    def __init__(self, params: Iterable[torch.Tensor], scale: float) -> None:
        super().__init__(params, {})
        self.scale = scale

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            p.sub_(self.scale * p.grad)


def test_an_optimizer_of_ones_own_keeps_its_attributes() -> None:
    trained = model()
    optimizer = Scaled(trained.parameters(), scale=0.1)
    largest = max(p.numel() * 4 for p in trained.parameters())
    assert optimizer_bytes(optimizer, CPU).step == pytest.approx(largest, abs=1024)
    for p in trained.parameters():
        p.grad = torch.ones_like(p)
    before = [p.detach().clone() for p in trained.parameters()]
    with stepping_twin(optimizer) as twin:
        twin.step()
        assert all(torch.equal(p, b - 0.1) for p, b in zip(trained.parameters(), before, strict=True))
    assert all(map(torch.equal, trained.parameters(), before))


def test_no_optimizer_needs_nothing() -> None:
    found = optimizer_bytes(None, CPU)
    assert (found.state, found.step) == (0, 0)
