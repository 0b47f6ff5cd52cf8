"""What the models of the zoo share: the seed, the classification loss, the way to transformers."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rematopt.errors import RematoptError
from rematopt.model import random_states_restored

Example = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
"""A model, and the positional and keyword arguments of one training call."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw weights and batch from ``seed`` and leave the caller's random state as it was."""
    with random_states_restored():
        torch.manual_seed(seed)
        yield


class ImageClassifier(nn.Module):
    """A network from images to logits, with the cross-entropy of its logits as the result.

    Parameters
    ----------
    network : nn.Module
        Maps images ``[batch, channels, height, width]`` to logits ``[batch, classes]``.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss over the batch."""
        return F.cross_entropy(self.network(images), labels)


def image_batch(batch: int, resolution: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return random images ``[batch, 3, resolution, resolution]`` and one label an image."""
    return torch.randn(batch, 3, resolution, resolution), torch.randint(classes, (batch,))


def import_transformers() -> ModuleType:
    """Import the optional dependency that holds the transformer models.

    Raises
    ------
    RematoptError
        If it is not installed; the message gives the pip command.
    """
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise RematoptError(
            f"this model of the zoo needs transformers ({error}); install it with `pip install 'rematopt[zoo]'`"
        ) from error
