"""A multilayer perceptron with batch normalization and dropout: the smallest model with all that matters."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rematopt.zoo.common import Example, seeded


class MLP(nn.Module):
    """Blocks of linear layer, batch normalization, GELU and dropout, then a classifier with its loss."""

    def __init__(self, *, features: int, width: int, depth: int, classes: int, dropout: float) -> None:
        super().__init__()
        widths = [features] + [width] * depth
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.GELU(), nn.Dropout(dropout))
                for a, b in pairwise(widths)
            )
        )
        self.head = nn.Linear(width, classes)

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss over the batch."""
        return F.cross_entropy(self.head(self.blocks(inputs)), labels)


def mlp(
    *,
    batch: int = 4096,
    features: int = 64,
    width: int = 256,
    depth: int = 8,
    classes: int = 10,
    dropout: float = 0.1,
    seed: int = 0,
) -> Example:
    """Build an MLP with dropout and batch normalization.

    Parameters
    ----------
    batch, features, width, depth, classes : int
        Rows of the batch, their length, width and number of the hidden layers, number of classes.
    dropout : float
        Probability of dropping a hidden value.
    seed : int
        Seed of weights and batch.
    """
    with seeded(seed):
        model = MLP(features=features, width=width, depth=depth, classes=classes, dropout=dropout)
        return model.train(), (torch.randn(batch, features), torch.randint(classes, (batch,))), {}
