"""What an optimizer adds to the memory of a training step: its state, and what its step needs for a moment.

Both are found by stepping a twin of the optimizer on stand-ins of the parameters, which allocates nothing.
"""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim.optimizer import _default_to_fused_or_foreach

from rematopt.errors import InvalidInputError
from rematopt.storage import LiveStorages, StorageCounter, tensors_in

NUMBERS_BYTES = 64
"""Allowance for plain numbers that operators wrap in tensors for a moment."""

_STEPS = 2
"""The first step makes the state; a later one may need other temporaries."""


@dataclass(frozen=True, kw_only=True)
class OptimizerBytes:
    """Memory of an optimizer.

    Parameters
    ----------
    state : int
        Bytes that it keeps from step to step, as they are after its first step.
    step : int
        Bytes that ``step()`` allocates beyond these, at its peak.
    """

    state: int = 0
    step: int = 0


def optimizer_bytes(optimizer: torch.optim.Optimizer | None, device: torch.device) -> OptimizerBytes:
    """Work out what an optimizer keeps and what its step needs.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer or None
        It is not stepped and not changed. None needs nothing.
    device : torch.device
        Where its parameters are.

    Raises
    ------
    InvalidInputError
        If it has no state yet and its step cannot be simulated, since it depends on values.
    """
    if optimizer is None:
        return OptimizerBytes()
    present = StorageCounter(device).add(tensors_in(list(optimizer.state.values())))
    try:
        simulated = _simulated(optimizer, device)
    except Exception as error:  # an optimizer is any code
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        name = type(optimizer).__name__
        if not present:
            raise InvalidInputError(
                f"optimizer: the state of {name} cannot be worked out before its first step ({reason}); "
                "train one step, then profile"
            ) from error
        warnings.warn(f"temporaries of {name}.step() are not counted: {reason}", RuntimeWarning, stacklevel=2)
        return OptimizerBytes(state=present)
    return OptimizerBytes(state=present or simulated.state, step=simulated.step)


class Stepper:
    """An optimizer of which only ``step()`` is used: a twin with other groups or state, and without hooks.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer or None
        Stays as it is; None makes a twin that does nothing.
    groups : list of dict
        Parameter groups of the twin.
    state : dict
        State of the twin.
    """

    def __init__(self, optimizer: torch.optim.Optimizer | None, groups: list[dict[str, Any]], state: Any) -> None:
        self._state = state
        self._twin = None if optimizer is None else object.__new__(type(optimizer))
        if self._twin is not None:
            # Optimizers copy and pickle themselves without attributes of their own.
            self._twin.__dict__.update(optimizer.__dict__)
            self._twin.__dict__.pop("step", None)  # a learning rate scheduler hangs a bound step of the original here
            self._twin.__dict__["_optimizer_step_pre_hooks"] = OrderedDict()
            self._twin.__dict__["_optimizer_step_post_hooks"] = OrderedDict()
            self._twin.param_groups = groups
            self._twin.state = state

    def step(self) -> None:
        """Update the parameters of the twin's groups."""
        if self._twin is not None:
            type(self._twin).step(self._twin)

    def state_bytes(self, device: torch.device) -> int:
        """Bytes of the twin's state."""
        return StorageCounter(device).add(tensors_in(list(self._state.values())))


@contextmanager
def stepping_twin(optimizer: torch.optim.Optimizer | None) -> Iterator[Stepper]:
    """A twin of an optimizer that steps its parameters; they are restored at the end, the optimizer stays as it is."""
    groups = [] if optimizer is None else [dict(group) for group in optimizer.param_groups]
    present = {} if optimizer is None else optimizer.state
    state = defaultdict(dict, {p: copy.deepcopy(kept) for p, kept in present.items()})
    before = [(p, p.detach().clone()) for group in groups for p in group["params"]]
    try:
        yield Stepper(optimizer, groups, state)
    finally:
        with torch.no_grad():
            for p, value in before:
                p.copy_(value)


def _simulated(optimizer: torch.optim.Optimizer, device: torch.device) -> OptimizerBytes:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    with detect_fake_mode(parameters) or FakeTensorMode(allow_non_fake_inputs=True):
        groups = [_group_of_stand_ins(group) for group in optimizer.param_groups]
        stepper = Stepper(optimizer, groups, defaultdict(dict))
        made = [p for group in groups for p in group["params"]]
        state = temporaries = 0
        with LiveStorages(device, [*made, *(p.grad for p in made if p.grad is not None)]) as live:
            for _ in range(_STEPS):
                live.peak_bytes = live.held_bytes
                stepper.step()
                state = stepper.state_bytes(device)
                temporaries = max(temporaries, live.peak_bytes - state)
    return OptimizerBytes(state=state, step=temporaries + NUMBERS_BYTES)


def _group_of_stand_ins(group: dict[str, Any]) -> dict[str, Any]:
    made = [torch.empty_like(p, requires_grad=p.requires_grad) for p in group["params"]]
    for p in made:
        p.grad = torch.empty_like(p) if p.requires_grad else None
    return {**group, **_implementation(group), "params": made}


def _implementation(group: dict[str, Any]) -> dict[str, bool]:
    """Which implementation PyTorch picks for the real parameters; stand-ins would mislead it."""
    if "foreach" not in group or group["foreach"] is not None or group.get("fused"):
        return {}
    differentiable = bool(group.get("differentiable", False))
    _, foreach = _default_to_fused_or_foreach(group["params"], differentiable, use_fused=False)
    return {"foreach": foreach}
