"""What profiler and executor ask of a model: its memory outside the step, its signature, its loss."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from rematopt.errors import InvalidInputError
from rematopt.graph import Signature, StaticBytes
from rematopt.storage import StorageCounter, tensors_in


@contextmanager
def random_states_restored() -> Iterator[None]:
    """Leave the random states of torch, Python and NumPy as they were."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  (the global generator is what models use)
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def random_state(device: torch.device) -> tuple[torch.Tensor, ...]:
    """State of the CPU's generator, and of the device's own where it has one."""
    return (torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else []))


def set_random_state(state: tuple[torch.Tensor, ...], device: torch.device) -> None:
    """Put back what :func:`random_state` returned for the device."""
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)


def device_of(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.device:
    """Where the step runs: the device that holds most bytes of parameters, buffers and tensor arguments."""
    sizes: Counter[torch.device] = Counter()
    for tensor in (*model.parameters(), *model.buffers(), *tensors_in((args, kwargs))):
        sizes[tensor.device] += tensor.numel() * tensor.itemsize
    return max(sizes, key=lambda device: sizes[device], default=torch.device("cpu"))


def static_bytes(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    optimizer_state: int = 0,
) -> StaticBytes:
    """Memory that is there before a training step begins, by kind.

    Parameters
    ----------
    model, args, kwargs
        What will be called.
    optimizer_state : int
        Bytes of the optimizer's state.
    """
    device = device_of(model, args, kwargs)
    counter = StorageCounter(device)
    return StaticBytes(
        parameters=counter.add(model.parameters()),
        buffers=counter.add(model.buffers()),
        gradients=counter.add(p.grad for p in model.parameters()),
        inputs=counter.add(tensors_in((args, kwargs))),
        optimizer=optimizer_state,
    )


def signature(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Signature:
    """Parameters, buffers and tensor arguments in words that can be compared."""
    leaves, _ = tree_flatten_with_path((tuple(args), dict(kwargs)))
    return Signature(
        model=f"{type(model).__module__}.{type(model).__qualname__}",
        parameters=parameter_lines(model),
        arguments=tuple(
            f"{_argument_name(path)} {_form(leaf)}" for path, leaf in leaves if isinstance(leaf, torch.Tensor)
        ),
    )


def parameter_lines(model: torch.nn.Module) -> tuple[str, ...]:
    """One line for every parameter and buffer: name, dtype, shape, and whether it is trained."""
    parameters = [
        f"{name} {_form(p)} {'trained' if p.requires_grad else 'frozen'}" for name, p in model.named_parameters()
    ]
    return (*parameters, *(f"{name} {_form(b)} buffer" for name, b in model.named_buffers()))


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _argument_name(path: Sequence[Any]) -> str:
    kind = "args" if getattr(path[0], "idx", 0) == 0 else "kwargs"
    return f"{kind}{keystr(tuple(path[1:]))}"


def loss_of(output: Any) -> torch.Tensor | None:
    """The loss in a model's output: a scalar tensor, its ``loss``, or a scalar first element; else None."""
    if isinstance(output, Mapping):
        output = output.get("loss")
    elif hasattr(output, "loss"):
        output = output.loss
    elif isinstance(output, tuple | list) and output:
        output = output[0]
    is_scalar = isinstance(output, torch.Tensor) and output.numel() == 1 and output.is_floating_point()
    return output if is_scalar else None


def run_backward(output: Any, loss: Callable[[Any], torch.Tensor] | None = None) -> None:
    """Run the backward pass of a training step.

    From ``loss(output)`` if given, else from the loss in the output, else from the sum of every
    differentiable tensor of it.

    Raises
    ------
    InvalidInputError
        If nothing in the output requires a gradient.
    """
    found = loss(output) if loss is not None else loss_of(output)
    if found is None:
        parts = [torch.view_as_real(t) if t.is_complex() else t for t in tensors_in(output) if t.requires_grad]
        found = sum((part.sum() for part in parts), torch.zeros(()))
    if not found.requires_grad:
        raise InvalidInputError("nothing in the model's output requires a gradient: there is no backward pass to run")
    found.backward()  # type: ignore[no-untyped-call]
