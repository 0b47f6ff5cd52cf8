"""Activation checkpointing in eager PyTorch, the ways people use it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from experiments.methods.blocks import find_blocks, longest_sequence
from experiments.methods.method import Restore

SHORTEST_SEQUENCE = 6
"""Parts from which on a sequence is worth cutting into segments."""

_aten = torch.ops.aten
SAVED_OPS = [
    _aten.mm.default,
    _aten.addmm.default,
    _aten.bmm.default,
    _aten.baddbmm.default,
    _aten.convolution.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
]
"""What selective checkpointing keeps: the results of what is dear to compute."""


class Blocks:
    """``torch.utils.checkpoint`` around blocks, non-reentrant.

    Parameters
    ----------
    every : int
        Checkpoint each ``every``-th block.
    """

    def __init__(self, *, every: int) -> None:
        self.every = every
        self.name = "checkpoint blocks" if every == 1 else f"checkpoint 1 block in {every}"

    def settings(self, model: nn.Module) -> tuple[str, ...]:
        """One, if there are enough blocks."""
        return ("",) if len(find_blocks(model)) > self.every else ()

    def prepare(self, model: nn.Module, _setting: str) -> Restore:
        """Wrap the forward of the blocks."""
        return _wrap(find_blocks(model)[:: self.every], lambda block: partial(_checkpointed, block.forward))


class Selective:
    """Checkpointed blocks that keep the results of products, convolutions and attention."""

    name = "selective checkpoint"

    def settings(self, model: nn.Module) -> tuple[str, ...]:
        """One, if there are blocks."""
        return ("",) if find_blocks(model) else ()

    def prepare(self, model: nn.Module, _setting: str) -> Restore:
        """Wrap the forward of all blocks."""
        contexts = partial(create_selective_checkpoint_contexts, _policy)
        return _wrap(find_blocks(model), lambda block: partial(_checkpointed, block.forward, context_fn=contexts))


class Sequential:
    """``checkpoint_sequential`` on the longest sequence of layers; the setting is the number of segments."""

    name = "checkpoint_sequential"

    def settings(self, model: nn.Module) -> tuple[str, ...]:
        """Two segments, and as many as the square root of the number of layers."""
        found = longest_sequence(model)
        if found is None or len(found[1]) < SHORTEST_SEQUENCE:
            return ()
        return tuple(dict.fromkeys(("2", str(round(math.sqrt(len(found[1])))))))

    def prepare(self, model: nn.Module, setting: str) -> Restore:
        """Replace the forward of the sequence."""
        found = longest_sequence(model)
        assert found is not None
        sequence, parts = found

        def forward(x: Tensor) -> Any:
            return checkpoint_sequential(parts, int(setting), x, use_reentrant=False)  # type: ignore[no-untyped-call]

        return _wrap([sequence], lambda _: forward)


class HuggingFace:
    """``gradient_checkpointing_enable`` of transformers."""

    name = "gradient_checkpointing_enable"

    def settings(self, model: nn.Module) -> tuple[str, ...]:
        """One, for the models that have it."""
        return ("",) if getattr(model, "supports_gradient_checkpointing", False) else ()

    def prepare(self, model: Any, _setting: str) -> Restore:
        """Switch it on."""
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        disable: Restore = model.gradient_checkpointing_disable
        return disable


def _policy(_context: Any, op: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in SAVED_OPS else CheckpointPolicy.PREFER_RECOMPUTE


def _checkpointed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)


def _wrap(modules: list[nn.Module], wrapped: Callable[[nn.Module], Callable[..., Any]]) -> Restore:
    """Give modules another forward, and return what takes it away again."""
    for module in modules:
        module.__dict__["forward"] = wrapped(module)

    def restore() -> None:
        for module in modules:
            module.__dict__.pop("forward", None)

    return restore
