"""How profiler and executor enter PyTorch's compiler: the same way, so that both see the same graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config


def isolated_call(model: torch.nn.Module) -> Callable[..., Any]:
    """The call of a model as a function with a code object of its own.

    The compiler keeps its results with the code object and limits how many there may be. All models
    share ``nn.Module``'s code, so without this they would compete for that limit.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return model._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]

    call.__code__ = call.__code__.replace()
    return call


def joint_backend(
    partition: Callable[..., Any], compile_forward: Callable[..., Any], compile_backward: Callable[..., Any]
) -> Callable[..., Any]:
    """A backend for ``torch.compile`` that splits the joint graph with ``partition``.

    Parameters
    ----------
    partition : callable
        AOTAutograd's ``partition_fn``.
    compile_forward : callable
        Turns the forward graph, or the graph of a call without gradients, into a function.
    compile_backward : callable
        Turns the backward graph into a function.

    Returns
    -------
    callable
        The backend. Mutations of buffers and inputs stay in the graph. The backward pass is traced
        without autocast, as it runs where ``backward()`` is called outside of it.
    """
    inner = aot_autograd(
        fw_compiler=compile_forward,
        bw_compiler=compile_backward,
        inference_compiler=compile_forward,
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        with config.patch(backward_pass_autocast="off"):
            return inner(module, inputs)

    return backend
