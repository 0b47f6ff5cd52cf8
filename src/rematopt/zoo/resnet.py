"""ResNet-50 (He et al., 2016), with the stride in the 3x3 convolution as most implementations have it."""

from __future__ import annotations

from torch import Tensor, nn

from rematopt.zoo.common import Example, ImageClassifier, image_batch, seeded

_BLOCKS = (3, 4, 6, 3)
_EXPANSION = 4


def _normalized(channels: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around which the input is added."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        outputs = inner * _EXPANSION
        self.reduce = _normalized(channels, inner, 1)
        self.spatial = _normalized(inner, inner, 3, stride)
        self.expand = _normalized(inner, outputs, 1)
        same = channels == outputs and stride == 1
        self.shortcut = nn.Identity() if same else _normalized(channels, outputs, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        y = self.relu(self.reduce(x))
        y = self.relu(self.spatial(y))
        result: Tensor = self.relu(self.expand(y) + self.shortcut(x))
        return result


def _network(width: int, classes: int) -> nn.Sequential:
    layers: list[nn.Module] = [_normalized(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    channels = width
    for stage, repeats in enumerate(_BLOCKS):
        inner = width * 2**stage
        for block in range(repeats):
            layers.append(Bottleneck(channels, inner, stride=2 if stage and not block else 1))
            channels = inner * _EXPANSION
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def resnet50(*, batch: int = 16, resolution: int = 96, width: int = 24, classes: int = 100, seed: int = 0) -> Example:
    """Build ResNet-50; ``width=64, resolution=224, classes=1000`` is the published model.

    Parameters
    ----------
    batch, resolution : int
        Images of the batch and their height and width.
    width : int
        Channels of the first stage.
    classes : int
        Number of classes.
    seed : int
        Seed of weights and batch.
    """
    with seeded(seed):
        return ImageClassifier(_network(width, classes)).train(), image_batch(batch, resolution, classes), {}
