"""How profiler and executor enter PyTorch's compiler: the same way, so that both see the same graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config

from rematopt.batch_norm import capturable_batch_norm, has_cumulative_batch_norm


def isolated_call(model: torch.nn.Module) -> Callable[..., Any]:
    """The call of a model as a function with a code object of its own.

    The compiler keeps its results with the code object and limits how many there may be. All models
    share ``nn.Module``'s code, so without this they would compete for that limit.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return model._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]

    call.__code__ = call.__code__.replace()
    return call


def compiled_call(model: torch.nn.Module, backend: Callable[..., Any], *, whole: bool) -> Callable[..., Any]:
    """The call of a model, compiled at its first use.

    Parameters
    ----------
    model : torch.nn.Module
        Its hooks run as usual.
    backend : callable
        From :func:`joint_backend`.
    whole : bool
        Whether a construct that the compiler cannot capture is an error, or splits the call.
    """
    compiled = torch.compile(isolated_call(model), backend=backend, fullgraph=whole, dynamic=False)
    needed = _contexts(model)
    if not needed:
        return compiled

    def call(*args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            for context in needed:
                stack.enter_context(context())
            return compiled(*args, **kwargs)

    return call


def _contexts(model: torch.nn.Module) -> list[Callable[[], AbstractContextManager[Any]]]:
    """What must be in force while this model is captured; each costs a little at every call."""
    found: list[Callable[[], AbstractContextManager[Any]]] = []
    if any(isinstance(m, torch.nn.RNNBase) for m in model.modules()):
        found.append(lambda: torch._dynamo.config.patch(allow_rnn=True))
    if has_cumulative_batch_norm(model):
        found.append(capturable_batch_norm)
    return found


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
