"""Saving a generator's state in the forward pass and drawing from it again.

Called from inside the executed graphs. The state is a plain CPU tensor, so that it can be saved for
the backward pass like any other, and a saved state may be used any number of times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def save_random_state(device: torch.device) -> torch.Tensor:
    """State of the device's default generator, before the next draw."""
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.get_rng_state()


def _set_random_state(state: torch.Tensor, device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def replay_random(
    device: torch.device, state: torch.Tensor, target: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Run ``target`` as it ran right after ``state`` was saved, and leave the generator as it was."""
    current = save_random_state(device)
    _set_random_state(state, device)
    try:
        return target(*args, **kwargs)
    finally:
        _set_random_state(current, device)
