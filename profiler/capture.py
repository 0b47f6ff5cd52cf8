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
        raise UnsupportedModelError(_explain(name, error)) from error
    raise UnsupportedModelError(
        f"{name}: the call contains no tensor operation that could be planned, or torch.compile is disabled "
        "(TORCHDYNAMO_DISABLE, torch.compiler.set_stance); enable it"
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _user_frame(error: Exception) -> str:
    """Where in the model's code the capture stopped, innermost frame of it."""
    stack = getattr(error, "real_stack", None)
    if not stack:
        return ""
    frame: traceback.FrameSummary = stack[-1]
    return f" at {frame.filename}:{frame.lineno} ({(frame.line or frame.name).strip()})"


def _explain(name: str, error: Exception) -> str:
    reason = _first_line(error)
    text = str(error)
    context = next(
        (line.split(":", 1)[1].strip() for line in text.splitlines() if line.strip().startswith("Explanation:")), ""
    )
    detail = f"{reason}: {context}" if context else reason
    return (
        f"{name} cannot be captured as one graph{_user_frame(error)}: {detail} "
        "Way out: move the construct out of forward, or replace it by tensor operations (torch.where, "
        "torch.cond), then profile again"
    )
