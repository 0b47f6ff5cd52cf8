"""Models of the zoo under autocast."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

CASTS = {"": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Dtype of autocast by what stands behind the colon of a model's name."""


class Autocast(nn.Module):
    """A model under autocast.

    Parameters
    ----------
    model : nn.Module
        What to run.
    dtype : torch.dtype
        What to cast to.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model = model
        self.dtype = dtype

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the model."""
        with torch.autocast(next(self.model.parameters()).device.type, dtype=self.dtype):
            return self.model(*args, **kwargs)
