"""Prediction and measurement of one training run, side by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a training run was predicted to take and what it took.

    Parameters
    ----------
    limit_bytes : int or None
        Limit of its schedule; None for a schedule without one and for the plain model.
    predicted_peak_bytes : int or None
        Peak of its schedule; None for the plain model.
    measured_peak_bytes : int
        Peak of the whole step.
    predicted_ratio, measured_ratio : float
        Time of the step as a multiple of the reference's.
    losses : tuple of float
        Loss at each training step.
    """

    limit_bytes: int | None
    predicted_peak_bytes: int | None
    measured_peak_bytes: int
    predicted_ratio: float
    measured_ratio: float
    losses: tuple[float, ...]
