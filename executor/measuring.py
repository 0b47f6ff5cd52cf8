"""Measuring real training steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from rematopt.device import allocation_curve, allocations, seconds_of
from rematopt.graph import StaticBytes
from rematopt.model import device_of, random_states_restored, run_backward, static_bytes
from rematopt.optimizer import Stepper, stepping_twin
from rematopt.storage import tensors_in
from rematopt.units import format_bytes, format_seconds


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A measured training step.

    Parameters
    ----------
    peak_bytes : int
        Largest resident bytes: static memory and all that was allocated above it.
    static : StaticBytes
        Memory that was there before the step.
    seconds : float
        Median time of the step.
    repeats : tuple of float
        The single times, in order.
    """

    peak_bytes: int
    static: StaticBytes
    seconds: float
    repeats: tuple[float, ...]

    def __str__(self) -> str:
        """One line for people."""
        return f"peak {format_bytes(self.peak_bytes)}, step {format_seconds(self.seconds)}"


def measure(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Callable[[Any], torch.Tensor] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    repeats: int = 5,
) -> Measurement:
    """Run training steps and measure peak memory and time.

    The peak is that of a whole step: forward, backward, the optimizer's step, gradients set to None; the caller holds
    the model's output meanwhile. The time is that of forward and backward. Works for plain models and for those
    that a schedule is on. One step warms up. Parameters, gradients, buffers, the optimizer's state and random
    states are afterwards as they were before.

    Parameters
    ----------
    model, args, kwargs
        What to call.
    loss : callable, optional
        From the output to the loss; see :func:`rematopt.model.run_backward` for the default.
    optimizer : torch.optim.Optimizer, optional
        Its state counts as static memory, its step as part of the step.
    accumulate : bool
        Whether gradients of a micro-batch before are there already and count as static memory.
    repeats : int
        Number of timed steps.
    """
    with _training(model, args, kwargs or {}, loss, optimizer) as loop:
        static = loop.warm_up(accumulate=accumulate)
        before = [loop.forward_and_backward] if accumulate else []
        *_, found = allocations([*before, loop.whole_step], loop.device)
        times = []
        for _ in range(repeats):
            if accumulate:
                loop.forward_and_backward()
            times.append(seconds_of(loop.forward_and_backward, loop.device))
            loop.drop_gradients()
    return Measurement(
        peak_bytes=static.total + found.peak_bytes, static=static, seconds=median(times), repeats=tuple(times)
    )


def measure_curve(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Callable[[Any], torch.Tensor] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> list[tuple[float, int]]:
    """Run a training step and watch what is resident in it.

    Parameters are those of :func:`measure`; one step warms up.

    Returns
    -------
    list of (float, int)
        Seconds since the step began and resident bytes, static memory included.
    """
    with _training(model, args, kwargs or {}, loss, optimizer) as loop:
        static = loop.warm_up().total
        curve = allocation_curve(loop.whole_step, loop.device)
    return [(at, static + held) for at, held in curve]


class _Loop:
    """A training loop in parts."""

    def __init__(
        self,
        model: torch.nn.Module,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        loss: Callable[[Any], torch.Tensor] | None,
        optimizer: Stepper,
    ) -> None:
        self.device = device_of(model, args, kwargs)
        self._model, self._args, self._kwargs = model, args, kwargs
        self._loss = loss
        self._optimizer = optimizer

    def warm_up(self, *, accumulate: bool = False) -> StaticBytes:
        """Make one step and return the memory before the next one, or before its second micro-batch."""
        self.whole_step()
        if accumulate:
            self.forward_and_backward()
        state = self._optimizer.state_bytes(self.device)
        static = static_bytes(self._model, self._args, self._kwargs, optimizer_state=state)
        self.drop_gradients()
        return static

    def forward_and_backward(self) -> Any:
        """The output is returned, as a training loop holds it."""
        output = self._model(*self._args, **self._kwargs)
        run_backward(output, self._loss)
        return output

    def whole_step(self) -> Any:
        """Forward, backward, the optimizer's step, and no gradients afterwards."""
        output = self.forward_and_backward()
        self._optimizer.step()
        self.drop_gradients()
        return output

    def drop_gradients(self) -> None:
        """What ``zero_grad()`` does."""
        _drop_gradients(self._model, self._args, self._kwargs)


@contextmanager
def _training(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    loss: Callable[[Any], torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | None,
) -> Iterator[_Loop]:
    """A training loop after which everything is as it was before."""
    with _training_state_restored(model, args, kwargs), stepping_twin(optimizer) as twin:
        yield _Loop(model, args, kwargs, loss, twin)


def _leaves(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    inputs = [t for t in tensors_in((args, kwargs)) if t.is_leaf and t.requires_grad]
    return [*model.parameters(), *inputs]


def _drop_gradients(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    for leaf in _leaves(model, args, kwargs):
        leaf.grad = None


@contextmanager
def _training_state_restored(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Put gradients, buffers and random states back as they were."""
    gradients = [(leaf, leaf.grad) for leaf in _leaves(model, args, kwargs)]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    _drop_gradients(model, args, kwargs)
    with random_states_restored():
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in buffers:
                    buffer.copy_(value)
            for leaf, gradient in gradients:
                leaf.grad = gradient
