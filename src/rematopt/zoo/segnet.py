"""SegNet (Badrinarayanan et al., 2017): the decoder puts values back to where the pooling took them from."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from rematopt.zoo.common import Example, seeded
from rematopt.zoo.segmentation import convolutions, pixel_example
from rematopt.zoo.vgg import CONVOLUTIONS_16, WIDTHS


class SegNet(nn.Module):
    """VGG-16's stages with batch normalization, and the same ones backwards behind unpoolings."""

    def __init__(self, *, width: int, classes: int) -> None:
        super().__init__()
        widths = [3, *(width * factor for factor in WIDTHS)]
        down = list(zip(pairwise(widths), CONVOLUTIONS_16, strict=True))
        self.encoders = nn.ModuleList(convolutions(a, b, repeats, normalized=True) for (a, b), repeats in down)
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.unpool = nn.MaxUnpool2d(2)
        self.decoders = nn.ModuleList(
            convolutions(b, max(a, width), repeats, normalized=True) for (a, b), repeats in reversed(down)
        )
        self.head = nn.Conv2d(width, classes, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits for each pixel."""
        x = images
        places: list[Tensor] = []
        for encoder in self.encoders:
            x, place = self.pool(encoder(x))
            places.append(place)
        for decoder in self.decoders:
            x = decoder(self.unpool(x, places.pop()))
        result: Tensor = self.head(x)
        return result


def segnet(*, batch: int = 4, resolution: int = 96, width: int = 16, classes: int = 4, seed: int = 0) -> Example:
    """Build a SegNet; ``width=64, classes=11`` is the published model.

    Parameters
    ----------
    batch, resolution : int
        Images of the batch and their height and width, a multiple of 32.
    width : int
        Channels of the first stage.
    classes : int
        Number of classes a pixel can have.
    seed : int
        Seed of weights and batch.
    """
    with seeded(seed):
        network = SegNet(width=width, classes=classes)
    return pixel_example(network, batch=batch, resolution=resolution, classes=classes, seed=seed)
