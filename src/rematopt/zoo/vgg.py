"""VGG-16 and VGG-19 (Simonyan and Zisserman, 2015, configurations D and E)."""

from __future__ import annotations

from functools import partial

from torch import nn

from rematopt.zoo.common import Example, ImageClassifier, image_batch, seeded

WIDTHS = (1, 2, 4, 8, 8)
"""Channels of each stage in units of the first stage's; a pooling ends each stage."""

CONVOLUTIONS_16 = (2, 2, 3, 3, 3)
CONVOLUTIONS_19 = (2, 2, 4, 4, 4)
"""Convolutions of each stage."""


def _network(width: int, convolutions: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = 3
    for factor, repeats in zip(WIDTHS, convolutions, strict=True):
        for _ in range(repeats):
            layers += [nn.Conv2d(channels, width * factor, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width * factor
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


def _classifier(inputs: int, hidden: int, classes: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(hidden, classes),
    )


def vgg16(
    *,
    batch: int = 16,
    resolution: int = 96,
    width: int = 16,
    hidden: int = 256,
    classes: int = 100,
    dropout: float = 0.5,
    seed: int = 0,
    convolutions: tuple[int, ...] = CONVOLUTIONS_16,
) -> Example:
    """Build VGG-16; ``width=64, hidden=4096, resolution=224, classes=1000`` is the published model.

    Parameters
    ----------
    batch, resolution : int
        Images of the batch and their height and width, a multiple of 32.
    width : int
        Channels of the first stage.
    hidden, classes : int
        Width of the two hidden linear layers, number of classes.
    dropout : float
        Probability of dropping a value between the linear layers.
    seed : int
        Seed of weights and batch.
    convolutions : tuple of int
        Convolutions of each of the five stages.
    """
    with seeded(seed):
        pixels = (resolution // 32) ** 2
        classifier = _classifier(8 * width * pixels, hidden, classes, dropout)
        model = ImageClassifier(nn.Sequential(_network(width, convolutions), classifier))
        return model.train(), image_batch(batch, resolution, classes), {}


vgg19 = partial(vgg16, convolutions=CONVOLUTIONS_19)
"""Build VGG-19; takes what :func:`vgg16` takes."""
