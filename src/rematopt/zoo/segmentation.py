"""What the segmentation networks of the zoo share: stages of convolutions, and the per-pixel loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rematopt.zoo.common import Example, seeded


class PixelClassifier(nn.Module):
    """A network from images to logits for each pixel, with their cross-entropy as the result.

    Parameters
    ----------
    network : nn.Module
        Maps images ``[batch, channels, height, width]`` to logits ``[batch, classes, height, width]``.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss over the pixels."""
        return F.cross_entropy(self.network(images), labels)


def convolutions(channels: int, outputs: int, repeats: int, *, normalized: bool) -> nn.Sequential:
    """A stage: 3x3 convolutions with ReLU, and with batch normalization where asked for."""
    layers: list[nn.Module] = []
    for _ in range(repeats):
        layers.append(nn.Conv2d(channels, outputs, 3, padding=1, bias=not normalized))
        layers += [nn.BatchNorm2d(outputs)] if normalized else []
        layers.append(nn.ReLU(inplace=True))
        channels = outputs
    return nn.Sequential(*layers)


def pixel_example(network: nn.Module, *, batch: int, resolution: int, classes: int, seed: int) -> Example:
    """Return a network with its loss, and random images with a label a pixel drawn from ``seed``."""
    with seeded(seed):
        images = torch.randn(batch, 3, resolution, resolution)
        labels = torch.randint(classes, (batch, resolution, resolution))
    return PixelClassifier(network).train(), (images, labels), {}
