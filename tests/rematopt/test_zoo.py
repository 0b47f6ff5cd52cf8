"""Every model of the zoo trains, and Dynamo captures it whole."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from rematopt.errors import RematoptError
from rematopt.zoo import MODELS

TINY: dict[str, dict[str, Any]] = {
    "mlp": {"batch": 8, "width": 16, "depth": 2},
    "vgg16": {"batch": 2, "resolution": 32, "width": 4, "hidden": 16},
    "vgg19": {"batch": 2, "resolution": 32, "width": 4, "hidden": 16},
    "fcn8": {"batch": 1, "resolution": 32, "width": 4, "hidden": 8},
    "segnet": {"batch": 1, "resolution": 32, "width": 4},
    "resnet50": {"batch": 2, "resolution": 32, "width": 4},
    "mobilenet_v2": {"batch": 2, "resolution": 32, "width": 0.25},
    "unet": {"batch": 1, "resolution": 16, "width": 4, "depth": 2},
    "gpt2": {"batch": 2, "sequence": 16, "layers": 1, "width": 32},
    "bert": {"batch": 2, "sequence": 16, "layers": 1, "width": 32},
    "llama": {"batch": 2, "sequence": 16, "layers": 1, "width": 32, "hidden": 64},
    "vit": {"batch": 2, "resolution": 16, "layers": 1, "width": 48},
}


def loss_of(output: Any) -> torch.Tensor:
    return output if isinstance(output, torch.Tensor) else output.loss


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def test_tiny_sizes_cover_the_registry() -> None:
    assert TINY.keys() == MODELS.keys()


@pytest.mark.parametrize("name", MODELS)
def test_is_captured_whole_and_equals_eager(name: str) -> None:
    """One graph, no warning; without dropout the compiled step gives the eager numbers."""
    sizes = dict(TINY[name])
    if "dropout" in inspect.signature(MODELS[name]).parameters:
        sizes["dropout"] = 0.0
    plain, args, kwargs = MODELS[name](**sizes)
    loss = loss_of(plain(*args, **kwargs))
    loss.backward()

    torch.compiler.reset()
    model, args, kwargs = MODELS[name](**sizes)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        captured = loss_of(compiled(*args, **kwargs))
        captured.backward()

    torch.testing.assert_close(captured, loss)
    expected = gradients(plain)
    assert expected
    for found, wanted in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", MODELS)
def test_seed_decides_weights_and_batch_and_spares_the_global_state(name: str) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first, second, other = (MODELS[name](**TINY[name], seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [torch.cat([p.detach().flatten() for p in example[0].parameters()]) for example in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first[0].training


def test_missing_transformers_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(RematoptError, match=r"rematopt\[zoo\]"):
        MODELS["gpt2"]()
