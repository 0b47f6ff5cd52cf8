"""From the name of a factory to a model that is ready to train, and to what is measured of it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from rematopt import api, executor, profiler
from rematopt.errors import InvalidInputError
from rematopt.factory import make_example
from rematopt.front import without_limit
from rematopt.plot_timeline import Curve
from rematopt.profile import Profile
from rematopt.profiler import Rates
from rematopt.progress import ops_progress
from rematopt.schedule import Schedule

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of one call."""

_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": partial(torch.optim.SGD, momentum=0.9),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """A model that is ready to train.

    Parameters
    ----------
    model : nn.Module
        In training mode, on its device.
    optimizer : Optimizer or None
        Updates its parameters; None leaves them as they are.
    calls : iterator of Call
        Arguments of one step after the other.
    example : Call
        Arguments to profile and to measure with.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer | None
    calls: Iterator[Call]
    example: Call


def prepare(
    factory: str,
    sizes: Mapping[str, Any],
    *,
    optimizer: str = "adamw",
    learning_rate: float = 1e-3,
    device: str = "cpu",
) -> Run:
    """Build a run on the batch that a factory returns.

    Parameters
    ----------
    factory, sizes
        As for :func:`rematopt.factory.make_example`.
    optimizer : str
        ``adamw``, ``adam``, ``sgd`` (with momentum) or ``none``.
    learning_rate : float
        Of the optimizer.
    device : str
        Where model and batch are moved.

    Raises
    ------
    InvalidInputError
        If the factory, the optimizer or the device cannot be used.
    """
    model, args, kwargs = make_example(factory, sizes)
    with usable(device):
        model = _moved(model, torch.device(device))
        call = tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), (args, kwargs))
    return Run(model=model, optimizer=make_optimizer(optimizer, model, learning_rate), calls=repeat(call), example=call)


@contextmanager
def usable(device: str) -> Iterator[None]:
    """Say what is wrong with a device if what is done inside fails on it.

    Raises
    ------
    InvalidInputError
        If it does.
    """
    try:
        yield
    except (RuntimeError, AssertionError) as error:
        raise InvalidInputError(f"device {device!r} cannot be used: {' '.join(str(error).split())}") from error


def _moved(model: nn.Module, device: torch.device) -> nn.Module:
    """Move a model; one that is there already is left alone, since without memory it could not be moved."""
    there = all(t.device == device for t in (*model.parameters(), *model.buffers()))
    return model if there else model.to(device)


def make_optimizer(name: str, model: nn.Module, learning_rate: float) -> torch.optim.Optimizer | None:
    """Build an optimizer over the trained parameters; None for ``none``.

    Raises
    ------
    InvalidInputError
        If there is no optimizer of that name.
    """
    if name == "none":
        return None
    if name not in _OPTIMIZERS:
        raise InvalidInputError(f"optimizer {name!r} is unknown; expected {', '.join(_OPTIMIZERS)} or none")
    return _OPTIMIZERS[name]([p for p in model.parameters() if p.requires_grad], lr=learning_rate)


def profile_run(run: Run, timing: str | Rates = "measured", *, accumulate: bool = False) -> Profile:
    """Profile a run, with a bar on stderr if that is a terminal; the options are those of :func:`rematopt.profile`."""
    args, kwargs = run.example
    with ops_progress() as report:
        return api.profile(
            run.model,
            args,
            kwargs,
            optimizer=run.optimizer,
            accumulate=accumulate,
            timing=timing,
            progress=report,
        )


def unplanned_schedule(run: Run) -> Schedule:
    """Return the schedule that runs every op once: the step to which times refer."""
    args, kwargs = run.example
    return without_limit(profiler.trace(run.model, args, kwargs, optimizer=run.optimizer), "store-all")


def measured_curve(factory: str, sizes: Mapping[str, Any], schedule: Schedule, *, optimizer: str, device: str) -> Curve:
    """Run one step by a schedule and watch what is resident in it.

    Parameters
    ----------
    factory, sizes, optimizer, device
        As for :func:`prepare`.
    schedule : Schedule
        What to run by.

    Raises
    ------
    ScheduleMismatchError
        If the schedule was made for another model.
    """
    run = prepare(factory, sizes, optimizer=optimizer, device=device)
    api.apply(run.model, schedule, on_mismatch="error")
    args, kwargs = run.example
    points = executor.measure_curve(run.model, args, kwargs, optimizer=run.optimizer)
    return Curve(seconds=tuple(at for at, _ in points), resident_bytes=tuple(size for _, size in points))
