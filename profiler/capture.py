"""Capturing the joint forward and backward graph of a model without running it.

The joint ATen graph is what AOTAutograd hands to its ``partition_fn``. An exception raised there
ends the compilation before anything runs, so capture costs no activation memory, and the graph is
the one that the executor meets later in training.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import exc
from torch.fx import GraphModule

from rematopt.compiler import compiled_call, joint_backend
from rematopt.errors import UnsupportedModelError
from rematopt.model import random_states_restored


@dataclass(frozen=True)
class JointGraph:
    """A joint graph and the number of its outputs that belong to the forward pass."""

    module: GraphModule
    forward_outputs: int


class _GraphReached(Exception):
    """Carries the joint graph out of the compiler."""

    def __init__(self, joint: JointGraph) -> None:
        super().__init__("the joint graph was captured")
        self.joint = joint


class _NothingToTrain(Exception):
    """The compiler took the path for calls without gradients."""


def _stop_with_graph(module: GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_kwargs: Any) -> Any:
    raise _GraphReached(JointGraph(module, num_fwd_outputs))


def _stop_without_graph(_module: GraphModule, _inputs: Any) -> Any:
    raise _NothingToTrain


def capture(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> JointGraph:
    """Capture the joint graph of one call of ``model``.

    Nothing is executed; parameters, buffers, gradients and random states stay as they are.

    Raises
    ------
    UnsupportedModelError
        If the call cannot be captured as one graph, or nothing in it requires a gradient.
    """
    backend = joint_backend(_stop_with_graph, _stop_without_graph, _stop_without_graph)
    call = compiled_call(model, backend, whole=True)
    name = type(model).__name__
    try:
        with random_states_restored(), torch.enable_grad():
            call(*args, **(kwargs or {}))
    except exc.BackendCompilerFailed as error:
        inner = error.inner_exception
        if isinstance(inner, _GraphReached):
            return inner.joint
        if isinstance(inner, _NothingToTrain):
            raise UnsupportedModelError(
                f"{name}: neither a parameter nor an input of this call requires a gradient, so there is "
                "no backward pass to plan; set requires_grad, or pass the arguments of a training step"
            ) from None
        raise UnsupportedModelError(f"{name} cannot be differentiated as one graph: {_first_line(inner)}") from error
    except Exception as error:
        raise UnsupportedModelError(_explain(model, error)) from error
    raise UnsupportedModelError(
        f"{name}: the call contains no tensor operation that could be planned, or torch.compile is disabled "
        "(TORCHDYNAMO_DISABLE, torch.compiler.set_stance); enable it"
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _place(model: torch.nn.Module, error: Exception) -> str:
    """Where the capture stopped: innermost line of code, and the path of the module that it belongs to."""
    stack: list[traceback.FrameSummary] = list(getattr(error, "real_stack", None) or ())
    if not stack:
        return ""
    path = next((path for frame in reversed(stack) if (path := _module_at(model, frame))), "")
    inside = f" in module {path}" if path else ""
    return f"{inside} at {stack[-1].filename}:{stack[-1].lineno} ({(stack[-1].line or stack[-1].name).strip()})"


def _module_at(model: torch.nn.Module, frame: traceback.FrameSummary) -> str:
    """Path of the first submodule whose ``forward`` holds the line of ``frame``."""
    for path, module in model.named_modules():
        code = getattr(type(module).forward, "__code__", None)
        if code is None or code.co_filename != frame.filename:
            continue
        if frame.lineno in {line for _, _, line in code.co_lines()}:
            return str(path)
    return ""


def _explain(model: torch.nn.Module, error: Exception) -> str:
    reason = _first_line(error)
    text = str(error)
    context = next(
        (line.split(":", 1)[1].strip() for line in text.splitlines() if line.strip().startswith("Explanation:")), ""
    )
    detail = f"{reason}: {context}" if context else reason
    return (
        f"{type(model).__name__} cannot be captured as one graph{_place(model, error)}: {detail} "
        "Way out: move the construct out of forward, or replace it by tensor operations (torch.where, "
        "torch.cond), then profile again"
    )
