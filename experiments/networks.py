"""The networks that are compared, at sizes for which a step takes a fraction of a second on two CPU cores."""

from __future__ import annotations

from typing import Any

Sizes = dict[str, Any]

NETWORKS: dict[str, Sizes] = {
    "vgg16": {"batch": 4, "resolution": 64},
    "vgg19": {"batch": 4, "resolution": 64},
    "mobilenet_v2": {"batch": 4, "resolution": 64, "width": 0.5},
    "unet": {"batch": 2, "resolution": 64},
    "resnet50": {"batch": 4, "resolution": 64, "width": 16},
    "fcn8": {"batch": 2, "resolution": 64},
    "segnet": {"batch": 2, "resolution": 64},
    "gpt2": {"batch": 4, "sequence": 128, "layers": 4, "width": 128},
    "bert": {"batch": 4, "sequence": 128, "layers": 4, "width": 128},
    "llama": {"batch": 4, "sequence": 128, "layers": 4, "width": 128, "hidden": 352},
    "vit": {"batch": 4, "resolution": 64, "layers": 4, "width": 96},
}
"""Name in the zoo, and its sizes."""

SMALL: dict[str, Sizes] = {
    "mlp": {"batch": 256, "width": 32, "depth": 3},
    "unet": {"batch": 1, "resolution": 32, "width": 4, "depth": 2},
}
"""For trying the experiments in seconds."""
