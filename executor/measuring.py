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
    repeats: int = 5,
) -> Measurement:
    """Run training steps (forward and backward) and measure peak memory and time.

    Works for plain models and for those that a schedule is on. Two steps warm up. Parameters, gradients, buffers
    and random states are afterwards as they were before.

    Parameters
    ----------
    model, args, kwargs
        What to call.
    loss : callable, optional
        From the output to the loss; see :func:`rematopt.model.run_backward` for the default.
    optimizer : torch.optim.Optimizer, optional
        Its state counts as static memory.
    repeats : int
        Number of timed steps.
    """
    kwargs = kwargs or {}
    device = device_of(model, args, kwargs)
    step = _step(model, args, kwargs, loss)
    with _training_state_restored(model, args, kwargs):
        step()
        _drop_gradients(model, args, kwargs)
        static = static_bytes(model, args, kwargs, optimizer)
        (found,) = allocations([step], device)
        times = []
        for _ in range(repeats):
            _drop_gradients(model, args, kwargs)
            times.append(seconds_of(step, device))
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
    kwargs = kwargs or {}
    step = _step(model, args, kwargs, loss)
    with _training_state_restored(model, args, kwargs):
        step()
        _drop_gradients(model, args, kwargs)
        static = static_bytes(model, args, kwargs, optimizer).total
        curve = allocation_curve(step, device_of(model, args, kwargs))
    return [(at, static + held) for at, held in curve]


def _step(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    loss: Callable[[Any], torch.Tensor] | None,
) -> Callable[[], Any]:
    """Forward and backward; the output is returned, as a training loop holds it."""

    def step() -> Any:
        output = model(*args, **kwargs)
        run_backward(output, loss)
        return output

    return step


def _leaves(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    tensors = torch.utils._pytree.tree_leaves((args, kwargs))
    inputs = [t for t in tensors if isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad]
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
