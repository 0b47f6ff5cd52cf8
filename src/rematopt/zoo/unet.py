"""U-Net (Ronneberger et al., 2015) with padded convolutions and batch normalization.

Its long skip connections keep early, large activations needed until late: a graph that is no chain.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rematopt.zoo.common import Example, seeded
from rematopt.zoo.segmentation import convolutions


def _double_convolution(channels: int, outputs: int) -> nn.Sequential:
    return convolutions(channels, outputs, 2, normalized=True)


class UNet(nn.Module):
    """Encoder, decoder and skip connections, with the per-pixel cross-entropy as the result."""

    def __init__(self, *, width: int, depth: int, classes: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.encoders = nn.ModuleList(_double_convolution(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.pool = nn.MaxPool2d(2)
        levels = list(reversed(list(zip(widths[1:], widths, strict=False))))
        self.upsamplers = nn.ModuleList(nn.ConvTranspose2d(deep, wide, 2, stride=2) for deep, wide in levels)
        self.decoders = nn.ModuleList(_double_convolution(2 * wide, wide) for _, wide in levels)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss over the pixels."""
        skips: list[Tensor] = []
        x = images
        for level, encoder in enumerate(self.encoders):
            x = encoder(self.pool(x) if level else x)
            skips.append(x)
        skips.pop()
        for upsampler, decoder in zip(self.upsamplers, self.decoders, strict=True):
            x = decoder(torch.cat([skips.pop(), upsampler(x)], dim=1))
        return F.cross_entropy(self.head(x), labels)


def unet(
    *, batch: int = 4, resolution: int = 96, width: int = 16, depth: int = 4, classes: int = 4, seed: int = 0
) -> Example:
    """Build a U-Net; ``width=64`` is the published model.

    Parameters
    ----------
    batch, resolution : int
        Images of the batch and their height and width, a multiple of ``2**depth``.
    width : int
        Channels at full resolution; doubled at each level.
    depth : int
        Number of poolings.
    classes : int
        Number of classes a pixel can have.
    seed : int
        Seed of weights and batch.
    """
    with seeded(seed):
        model = UNet(width=width, depth=depth, classes=classes)
        images = torch.randn(batch, 3, resolution, resolution)
        labels = torch.randint(classes, (batch, resolution, resolution))
        return model.train(), (images, labels), {}
