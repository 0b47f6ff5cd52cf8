"""VGG16 as a training graph, from its layer shapes; convolutions hold their bias and ReLU apart."""

from __future__ import annotations

from rematopt.graph import Graph
from tests.solver.networks import Network

LAYERS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Channels of each convolution; 0 is a pooling layer."""


def vgg16(batch: int = 32, image: int = 224) -> Graph:
    """About 40 forward ops: convolution and ReLU, pooling, three linear layers, the loss."""
    net = Network()
    x: tuple[int, ...] = ()
    channels, side = 3, image
    for width in LAYERS:
        if not width:
            side //= 2
            size = 4 * batch * channels * side**2
            (pooled,) = x
            x = (net.op("max_pool", (pooled,), (size, 2 * size), saves=(pooled,), saves_outputs=(1,)),)
            continue
        size = 4 * batch * width * side**2
        flops = 18.0 * batch * channels * width * side**2
        out = net.op("conv", x, size, saves=x, flops=flops, workspace=size // 16, parameter=36 * channels * width)
        x = (net.op("relu", (out,), size, saves_outputs=(0,)),)
        channels = width
    (hidden,) = x
    inside = channels * side**2
    for width in (4096, 4096, 1000):
        flops = 2.0 * batch * inside * width
        hidden = net.op("mm", (hidden,), 4 * batch * width, saves=(hidden,), flops=flops, parameter=4 * inside * width)
        if width == 4096:
            hidden = net.op("relu", (hidden,), 4 * batch * width, saves_outputs=(0,))
        inside = width
    return net.graph(net.op("loss", (hidden,), 512), parameters=4 * 138_000_000)
