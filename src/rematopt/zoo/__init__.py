"""Models to try rematopt on: ``zoo:gpt2`` on the command line, ``rematopt.zoo.gpt2()`` in Python.

Each factory takes sizes as keywords and returns ``(model, args, kwargs)``: a model in training mode
that computes its loss itself, and the arguments of one call. The same sizes and ``seed`` give the same
weights and the same batch. The default sizes are small (a step takes about a second on two CPU cores)
but such that activations outweigh parameters, as they do in training at full size.
"""

from __future__ import annotations

from collections.abc import Callable

from rematopt.zoo.bert import bert
from rematopt.zoo.common import Example
from rematopt.zoo.fcn import fcn8
from rematopt.zoo.gpt2 import gpt2
from rematopt.zoo.llama import llama
from rematopt.zoo.mlp import mlp
from rematopt.zoo.mobilenet import mobilenet_v2
from rematopt.zoo.resnet import resnet50
from rematopt.zoo.segnet import segnet
from rematopt.zoo.unet import unet
from rematopt.zoo.vgg import vgg16, vgg19
from rematopt.zoo.vit import vit

MODELS: dict[str, Callable[..., Example]] = {
    "mlp": mlp,
    "vgg16": vgg16,
    "vgg19": vgg19,
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "unet": unet,
    "fcn8": fcn8,
    "segnet": segnet,
    "gpt2": gpt2,
    "bert": bert,
    "llama": llama,
    "vit": vit,
}
"""Name of the model, as in ``zoo:NAME``, and its factory."""

__all__ = [
    "MODELS",
    "Example",
    "bert",
    "fcn8",
    "gpt2",
    "llama",
    "mlp",
    "mobilenet_v2",
    "resnet50",
    "segnet",
    "unet",
    "vgg16",
    "vgg19",
    "vit",
]
