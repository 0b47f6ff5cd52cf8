"""What is arranged with autograd after each forward pass of a model that a schedule is on."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from rematopt.errors import UnsupportedModelError

_COMPILED = "CompiledFunctionBackward"
_DEPTH = 3
"""An output may be a view that autograd regenerates outside of the compiled function."""


def prepare_backward(output: Any) -> None:
    """Prepare the compiled function behind ``output`` for its backward pass.

    Gradients that are missing are passed on as missing (see :mod:`rematopt.executor.missing`), and a
    backward pass that should itself be differentiable is refused before it runs.
    """
    for node in _compiled_nodes(output):
        node.set_materialize_grads(False)
        node.register_prehook(_refuse_second_order)


def _compiled_nodes(output: Any) -> set[Any]:
    found: set[Any] = set()
    for leaf in tree_leaves(output):
        node = leaf.grad_fn if isinstance(leaf, torch.Tensor) else None
        for _ in range(_DEPTH):
            if node is None:
                break
            if node.name().startswith(_COMPILED):
                found.add(node)
                break
            node = next((following for following, _ in node.next_functions if following is not None), None)
    return found


def _refuse_second_order(_gradients: Any) -> None:
    if torch.is_grad_enabled():
        raise UnsupportedModelError(
            "backward with create_graph=True needs a backward pass that can be differentiated itself, which that of a "
            "schedule cannot; take the schedule off for this call (handle.remove())"
        )
