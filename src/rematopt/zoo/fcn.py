"""FCN-8s (Long et al., 2015): VGG-16 made convolutional, its predictions at three depths added up."""

from __future__ import annotations

from torch import Tensor, nn

from rematopt.zoo.common import Example, seeded
from rematopt.zoo.segmentation import convolutions, pixel_example
from rematopt.zoo.vgg import CONVOLUTIONS_16, WIDTHS


class FCN8(nn.Module):
    """Stages that halve the resolution; the last three are scored, enlarged and added."""

    def __init__(self, *, width: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        widths = [3, *(width * factor for factor in WIDTHS)]
        self.stages = nn.ModuleList(
            convolutions(a, b, repeats, normalized=False)
            for a, b, repeats in zip(widths, widths[1:], CONVOLUTIONS_16, strict=False)
        )
        self.pool = nn.MaxPool2d(2)
        self.top = nn.Sequential(
            nn.Conv2d(widths[-1], hidden, 7, padding=3),
            nn.ReLU(inplace=True),
            nn.Dropout2d(dropout),
            nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(inplace=True),
            nn.Dropout2d(dropout),
        )
        self.scores = nn.ModuleList(nn.Conv2d(channels, classes, 1) for channels in (widths[3], widths[4], hidden))
        self.twice = nn.ModuleList(nn.ConvTranspose2d(classes, classes, 4, stride=2, padding=1) for _ in range(2))
        self.eightfold = nn.ConvTranspose2d(classes, classes, 16, stride=8, padding=4)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits for each pixel."""
        x = images
        pooled: list[Tensor] = []
        for stage in self.stages:
            x = self.pool(stage(x))
            pooled.append(x)
        scores = self.scores[2](self.top(x))
        for enlarge, score, features in zip(self.twice, (self.scores[1], self.scores[0]), pooled[3:1:-1], strict=True):
            scores = enlarge(scores) + score(features)
        result: Tensor = self.eightfold(scores)
        return result


def fcn8(
    *,
    batch: int = 4,
    resolution: int = 96,
    width: int = 16,
    hidden: int = 128,
    classes: int = 4,
    dropout: float = 0.5,
    seed: int = 0,
) -> Example:
    """Build an FCN-8s; ``width=64, hidden=4096, classes=21`` is the published model.

    Parameters
    ----------
    batch, resolution : int
        Images of the batch and their height and width, a multiple of 32.
    width, hidden : int
        Channels of the first stage and of the top.
    classes : int
        Number of classes a pixel can have.
    dropout : float
        Probability of dropping a channel of the top.
    seed : int
        Seed of weights and batch.
    """
    with seeded(seed):
        network = FCN8(width=width, hidden=hidden, classes=classes, dropout=dropout)
    return pixel_example(network, batch=batch, resolution=resolution, classes=classes, seed=seed)
