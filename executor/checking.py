"""Checking recomputed tensors against the ones they replace (``apply(..., debug=True)``).

The forward pass saves a checksum of every result that will be computed again; each later run is
compared with it. A checksum is a sum and a position-weighted sum over the bytes, so equal tensors
always agree and a changed bit shows.
"""

from __future__ import annotations

from typing import Any

import torch

from rematopt.errors import RecomputationError

_WEIGHTS = 65_521


def checksum(value: Any) -> torch.Tensor:
    """Two integers that depend on every bit of a tensor; zeros for anything else."""
    if not isinstance(value, torch.Tensor) or value.numel() == 0:
        return torch.zeros(2, dtype=torch.int64)
    data = value.detach().contiguous().reshape(-1).view(torch.uint8).to(torch.int64)
    weights = torch.arange(data.numel(), device=data.device) % _WEIGHTS + 1
    return torch.stack([data.sum(), (data * weights).sum()]).cpu()


def check(value: Any, expected: torch.Tensor, place: str) -> None:
    """Compare a recomputed result with the checksum of its first run.

    Raises
    ------
    RecomputationError
        If they differ; ``place`` says which op it was, in which module and at which step.
    """
    if not torch.equal(checksum(value), expected):
        raise RecomputationError(
            f"{place} computed another value than the first time. Something it reads was changed between forward and "
            "backward, or the operator is not deterministic (see torch.use_deterministic_algorithms)"
        )
