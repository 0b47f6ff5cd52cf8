"""Batch norm with ``momentum=None`` for the compiler.

Its averaging factor is one over the number of batches so far, a Python float read from a buffer, which
the compiler cannot capture. Here the same kernel is called by an operator of its own, to which the
counter is a tensor like any other. It runs once a step, since it moves the running statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm


@torch.library.custom_op("rematopt::cumulative_batch_norm", mutates_args=())
def cumulative_batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, batches: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Normalise a batch; return it, its mean and inverse deviation, and the new running statistics."""
    mean, variance = mean.clone(), variance.clone()
    factor = 1.0 / max(1.0, float(batches))  # no batch yet: only when profiled with made-up inputs
    out, batch_mean, batch_scale = torch.native_batch_norm(x, weight, bias, mean, variance, True, factor, eps)
    return out, batch_mean, batch_scale, mean, variance


@cumulative_batch_norm.register_fake
def _(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, batches: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    out, batch_mean, batch_scale = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)
    return out, batch_mean, batch_scale, torch.empty_like(mean), torch.empty_like(variance)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight = inputs[:2]
    ctx.save_for_backward(x, weight, output[1], output[2])
    ctx.eps = inputs[6]
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, gradient: Tensor, *_others: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, mean, scale = ctx.saved_tensors
    mask = [ctx.needs_input_grad[i] for i in range(3)]
    found = torch.ops.aten.native_batch_norm_backward(gradient, x, weight, None, None, mean, scale, True, ctx.eps, mask)
    return (*(g if wanted else None for g, wanted in zip(found, mask, strict=True)), None, None, None, None)


cumulative_batch_norm.register_autograd(_backward, setup_context=_save)

_original_forward = _BatchNorm.forward


def _forward(self: _BatchNorm, x: Tensor) -> Tensor:
    if not (torch.compiler.is_compiling() and _is_cumulative(self)):
        return _original_forward(self, x)
    self._check_input_dim(x)  # type: ignore[no-untyped-call]
    self.num_batches_tracked.add_(1)  # type: ignore[union-attr]
    out: Tensor
    out, _, _, mean, variance = cumulative_batch_norm(
        x, self.weight, self.bias, self.running_mean, self.running_var, self.num_batches_tracked, self.eps
    )
    self.running_mean.copy_(mean)  # type: ignore[union-attr]
    self.running_var.copy_(variance)  # type: ignore[union-attr]
    return out


def _is_cumulative(module: torch.nn.Module) -> bool:
    return (
        isinstance(module, _BatchNorm)
        and module.momentum is None
        and module.training
        and module.running_mean is not None
    )


def has_cumulative_batch_norm(model: torch.nn.Module) -> bool:
    """Whether some batch norm of the model averages over all batches."""
    return any(isinstance(m, _BatchNorm) and m.momentum is None for m in model.modules())


@contextmanager
def capturable_batch_norm() -> Iterator[None]:
    """While the compiler captures, batch norms with ``momentum=None`` go through the operator of this module."""
    setattr(_BatchNorm, "forward", _forward)  # noqa: B010
    try:
        yield
    finally:
        setattr(_BatchNorm, "forward", _original_forward)  # noqa: B010
