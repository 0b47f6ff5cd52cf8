"""What one training step computes, and whether two ways to train compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

import rematopt
from rematopt.model import device_of, random_state, random_states_restored, run_backward
from rematopt.schedule import Schedule
from rematopt.storage import tensors_in
from rematopt.training import Run

CLOSE = 1e-3
"""Largest difference of two gradients, as a share of their norm, that other kernels' rounding explains."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What one training step computes.

    Parameters
    ----------
    outputs : tuple of Tensor
        What the model returns.
    gradients : tuple of Tensor
        Of the parameters.
    state : tuple of Tensor
        Buffers and random state after the step.
    """

    outputs: tuple[torch.Tensor, ...]
    gradients: tuple[torch.Tensor, ...]
    state: tuple[torch.Tensor, ...]

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All of them."""
        return (*self.outputs, *self.gradients, *self.state)


def numbers_of_step(run: Run, seed: int, *, micro_batches: int = 1) -> Numbers:
    """Run one training step from ``seed``; the run is used up, as its buffers and gradients change."""
    args, kwargs = run.example
    with random_states_restored():
        torch.manual_seed(seed)
        for _ in range(micro_batches):
            output = run.model(*args, **kwargs)
            run_backward(output)
        state = random_state(device_of(run.model, args, kwargs))
    return Numbers(
        outputs=tuple(tensor.detach() for tensor in tensors_in(output)),
        gradients=tuple(p.grad.clone() for p in run.model.parameters() if p.grad is not None),
        state=(*(buffer.clone() for buffer in run.model.buffers()), *state),
    )


def numbers_by(run: Run, how: Schedule | str, seed: int, *, micro_batches: int = 1) -> Numbers:
    """Run one training step in a certain way.

    Parameters
    ----------
    run : Run
        A fresh one; it is used up.
    how : Schedule or str
        A schedule; ``plain`` for eager PyTorch; ``same kernels`` for the model as PyTorch's own
        ``aot_eager`` runs it, whose ops are those that a schedule replays.
    seed : int
        Seed of the random numbers.
    micro_batches : int
        Forward and backward passes whose gradients are accumulated.
    """
    model: nn.Module = run.model
    if isinstance(how, Schedule):
        rematopt.apply(model, how, on_mismatch="error")
    elif how == "same kernels":
        model.compile(backend="aot_eager", fullgraph=True, dynamic=False)
    return numbers_of_step(run, seed, micro_batches=micro_batches)


def same(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> bool:
    """Whether all tensors are equal bit by bit."""
    return len(found) == len(wanted) and all(map(torch.equal, found, wanted))


def gradient_error(found: Numbers, wanted: Numbers) -> float:
    """Norm of the difference of all gradients as a share of their norm; infinite if they do not correspond."""
    if [g.shape for g in found.gradients] != [g.shape for g in wanted.gradients]:
        return float("inf")
    pairs = list(zip(found.gradients, wanted.gradients, strict=True))
    difference = sum(float((a.double() - b.double()).square().sum()) for a, b in pairs)
    norm = sum(float(b.double().square().sum()) for _, b in pairs)
    return float((difference / norm) ** 0.5) if norm else float(difference > 0)


def verdict(found: Numbers, references: Sequence[Numbers]) -> str:
    """Compare gradients with those of the plain model, and of its ops as the compiler captures them.

    Returns
    -------
    str
        ``identical`` to one of them, ``close`` to one of them (see :data:`CLOSE`), or ``wrong``.
    """
    if any(same(found.gradients, reference.gradients) for reference in references):
        return "identical"
    closest = min(gradient_error(found, reference) for reference in references)
    return "close" if closest <= CLOSE else "wrong"
