"""Running the passes of one training step, and timing them."""

from __future__ import annotations

from collections.abc import Callable

from rematopt.device import seconds_of
from rematopt.model import device_of, run_backward
from rematopt.training import Run


def step_of(run: Run) -> Callable[[], None]:
    """Return what runs forward and backward of a run on its example; gradients are added to those that are there."""
    args, kwargs = run.example

    def step() -> None:
        run_backward(run.model(*args, **kwargs))

    return step


def seconds_of_step(run: Run) -> float:
    """Seconds of forward and backward; the gradients are dropped afterwards, outside of that time."""
    seconds = seconds_of(step_of(run), device_of(run.model, *run.example))
    run.model.zero_grad(set_to_none=True)
    return seconds
