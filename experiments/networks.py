"""The networks of the experiments and their sizes; what is not named here has the zoo's."""

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
"""Those that are compared, by name in the zoo: a step takes a fraction of a second on two CPU cores."""

SMALL: dict[str, Sizes] = {
    "mlp": {"batch": 256, "width": 32, "depth": 3},
    "unet": {"batch": 1, "resolution": 32, "width": 4, "depth": 2},
    "gpt2": {"layers": 1, "width": 32, "heads": 2, "sequence": 32},
    "resnet50": {"batch": 2, "resolution": 32, "width": 4},
    "llama": {"layers": 1, "width": 32, "heads": 2, "hidden": 64, "sequence": 32},
}
"""For trying the experiments in seconds."""

LARGE: dict[str, Sizes] = {
    "mlp": {"batch": 65536, "width": 1024},
    "gpt2": {"layers": 8, "width": 768, "heads": 12, "batch": 8, "sequence": 512, "vocabulary": 50257},
    "resnet50": {"batch": 64, "resolution": 224, "width": 64},
    "unet": {"batch": 16, "resolution": 256, "width": 32},
    "llama": {"layers": 6, "width": 1024, "heads": 16, "hidden": 2816, "batch": 4, "sequence": 1024},
    "vit": {"layers": 8, "width": 384, "heads": 6, "batch": 32, "resolution": 224, "patch": 16},
}
"""For keeping a GPU busy."""
