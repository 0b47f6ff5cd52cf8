"""MobileNetV2 (Sandler et al., 2018)."""

from __future__ import annotations

from torch import Tensor, nn

from rematopt.zoo.common import Example, ImageClassifier, image_batch, seeded

_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, repeats and stride of each stage (table 2 of the paper)."""


def _activated(channels: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow; the input is added where shapes allow."""

    def __init__(self, channels: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        layers: list[nn.Module] = [] if expansion == 1 else [_activated(channels, inner, 1)]
        layers += [
            _activated(inner, inner, 3, stride, groups=inner),
            nn.Conv2d(inner, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and channels == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        y: Tensor = self.layers(x)
        return x + y if self.residual else y


def _network(width: float, classes: int, dropout: float) -> nn.Sequential:
    channels = int(32 * width)
    layers: list[nn.Module] = [_activated(3, channels, 3, 2)]
    for expansion, base, repeats, stride in _STAGES:
        for block in range(repeats):
            outputs = int(base * width)
            layers.append(InvertedResidual(channels, outputs, stride if not block else 1, expansion))
            channels = outputs
    last = int(1280 * max(1.0, width))
    head = [_activated(channels, last, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, *head, nn.Linear(last, classes))


def mobilenet_v2(
    *,
    batch: int = 8,
    resolution: int = 96,
    width: float = 1.0,
    classes: int = 100,
    dropout: float = 0.2,
    seed: int = 0,
) -> Example:
    """Build MobileNetV2; ``resolution=224, classes=1000`` is the published model.

    Parameters
    ----------
    batch, resolution : int
        Images of the batch and their height and width.
    width : float
        Factor on the number of channels.
    classes : int
        Number of classes.
    dropout : float
        Probability of dropping a value in front of the classifier.
    seed : int
        Seed of weights and batch.
    """
    with seeded(seed):
        model = ImageClassifier(_network(width, classes, dropout))
        return model.train(), image_batch(batch, resolution, classes), {}
