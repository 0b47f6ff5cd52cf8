"""Training runs that are compared: same model, same batches, same random numbers, other schedules."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from rematopt import api
from rematopt.comparison import Comparison
from rematopt.device import seconds_of
from rematopt.errors import InvalidInputError
from rematopt.model import device_of, loss_of, random_state, random_states_restored, set_random_state
from rematopt.progress import counted
from rematopt.schedule import Schedule
from rematopt.training import Call, Run, prepare, unplanned_schedule

_WARM_UP = 1
"""Steps that are not timed: the first one compiles."""
_STEPS_TO_TIME = 6


def compare(
    make: Callable[[], Run],
    schedules: Sequence[Schedule | None],
    *,
    steps: int,
    seed: int = 0,
    micro_batches: int = 1,
) -> list[Comparison]:
    """Train once for each schedule, in turns, and measure peak and time of each.

    The runs take turns step by step, in alternating order, so that a slow moment of the machine hits all of
    them; each has a random state of its own. All are in memory at the same time.

    Parameters
    ----------
    make : callable
        Builds a run; called once for each schedule, and must build the same one each time.
    schedules : sequence of Schedule or None
        None trains the plain model. Ratios refer to the first one.
    steps : int
        Training steps of each, at least 2, since the first one is not timed.
    seed : int
        Seed of the random numbers in training.
    micro_batches : int
        Forward and backward passes before each step of the optimizer, which accumulate gradients.

    Raises
    ------
    InvalidInputError
        If there are fewer than two steps.
    ScheduleMismatchError
        If a schedule was made for another model.
    """
    if steps <= _WARM_UP:
        raise InvalidInputError(f"steps={steps}: the first step compiles and is not timed; train 2 or more")
    racers = [_Racer(make(), schedule, seed, micro_batches) for schedule in schedules]
    for step in range(steps):
        for racer in racers[:: -1 if step % 2 else 1]:  # who runs first finds colder caches
            racer.step()
    reference = racers[0]
    return [racer.comparison(reference) for racer in racers]


def compare_each(
    factory: str, sizes: Mapping[str, Any], schedules: Sequence[Schedule], *, optimizer: str, device: str
) -> list[Comparison]:
    """Compare each schedule with the unplanned step, two models in memory at a time.

    Parameters
    ----------
    factory, sizes, optimizer, device
        As for :func:`rematopt.training.prepare`.
    schedules : sequence of Schedule
        What to measure.
    """

    def make() -> Run:
        return prepare(factory, sizes, optimizer=optimizer, device=device)

    unplanned = unplanned_schedule(make())
    pairs = (compare(make, [unplanned, schedule], steps=_STEPS_TO_TIME)[1] for schedule in schedules)
    return list(counted(pairs, total=len(schedules), label="measuring"))


class _Racer:
    """One run of a comparison: its random state, losses and times."""

    def __init__(self, run: Run, schedule: Schedule | None, seed: int, micro_batches: int) -> None:
        self.run = run
        self.micro_batches = micro_batches
        self.schedule = schedule
        self.device = device_of(run.model, *run.example)
        self.losses: list[float] = []
        self.seconds: list[float] = []
        with random_states_restored():
            torch.manual_seed(seed)
            self.random_state = random_state(self.device)
        if schedule is not None:
            api.apply(run.model, schedule, on_mismatch="error")

    def step(self) -> None:
        """Train one step; forward and backward are timed, all micro-batches together."""
        losses: list[torch.Tensor] = []
        seconds = 0.0
        with random_states_restored():
            set_random_state(self.random_state, self.device)
            for _ in range(self.micro_batches):
                batch = next(self.run.calls)
                seconds += seconds_of(partial(self._train, batch, losses), self.device)
            self.random_state = random_state(self.device)
        self.seconds.append(seconds)
        self.losses.append(statistics.fmean(loss.item() for loss in losses))
        if self.run.optimizer is not None:
            self.run.optimizer.step()
        self.run.model.zero_grad(set_to_none=True)

    def _train(self, batch: Call, losses: list[torch.Tensor]) -> None:
        """Forward and backward of one micro-batch; its loss is added to ``losses``."""
        args, kwargs = batch
        loss = loss_of(self.run.model(*args, **kwargs))
        if loss is None:
            raise InvalidInputError("the model returned no loss; return the loss, or an object with .loss")
        torch.autograd.backward(loss)
        losses.append(loss.detach())

    def comparison(self, reference: _Racer) -> Comparison:
        """Return prediction and measurement of this run."""
        args, kwargs = self.run.example
        measured = api.measure(
            self.run.model,
            args,
            kwargs,
            optimizer=self.run.optimizer,
            accumulate=self.micro_batches > 1,
            repeats=1,
        )
        schedule = self.schedule
        ratios = [own / other for own, other in zip(self.seconds, reference.seconds, strict=True)][_WARM_UP:]
        return Comparison(
            limit_bytes=schedule.limit_bytes if schedule else None,
            predicted_peak_bytes=schedule.peak_bytes if schedule else None,
            measured_peak_bytes=measured.peak_bytes,
            predicted_ratio=1 + schedule.overhead if schedule else 1.0,
            measured_ratio=statistics.median(ratios),
            losses=tuple(self.losses),
        )
