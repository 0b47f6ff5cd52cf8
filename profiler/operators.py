"""What is known about single operators: randomness, mutation, routing, views."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from rematopt.graph import Recompute
from rematopt.storage import tensors_in

aten = torch.ops.aten

ROUTING = frozenset(
    {
        aten.topk.default,
        aten.argmax.default,
        aten.argmin.default,
        aten.sort.default,
        aten.sort.stable,
        aten.argsort.default,
        aten.multinomial.default,
        aten.nonzero.default,
    }
)
"""Discrete decisions: their results are kept, so that no run can decide otherwise."""

UNSUPPORTED = {
    aten.mkldnn_rnn_layer.default: "the CPU kernel of LSTM keeps a workspace for its backward that a compiled forward "
    "pass does not get; run the model under torch.backends.mkldnn.flags(enabled=False), or use GRU",
}
"""Operators that cannot be replayed, and the way out."""

PURE_NAMESPACES = frozenset({"aten", "prims"})
"""Namespaces whose operators state randomness and mutation truthfully."""

_ATTENTION_WITH_DROPOUT = "_scaled_dot_product"


def stand_ins(node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a node, stand-in tensors in place of nodes."""
    found: tuple[tuple[Any, ...], dict[str, Any]] = map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    return found


def is_tangent(node: Node) -> bool:
    """Whether the node is an input of the backward pass that brings the gradient of an output."""
    return node.op == "placeholder" and node.name.startswith("tangents")


def is_getitem(node: Node) -> bool:
    """Whether the node picks one result of an operator with several."""
    return node.op == "call_function" and node.target is operator.getitem


def result_position(node: Node) -> int:
    """Which result a getitem node picks."""
    position = node.args[1]
    assert isinstance(position, int)
    return position


def is_mutation(node: Node) -> bool:
    """Whether the operator writes into one of its arguments."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def is_random(node: Node) -> bool:
    """Whether the operator draws from a random generator.

    Attention kernels carry PyTorch's random tag although they draw nothing without dropout.
    """
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    if _ATTENTION_WITH_DROPOUT not in target._schema.name:
        return True
    return bool(argument(node, "dropout_p", 0.0) != 0.0)


def argument(node: Node, name: str, default: Any) -> Any:
    """Value of a named argument of an operator call, wherever it was passed."""
    assert isinstance(node.target, OpOverload)
    if name in node.kwargs:
        return node.kwargs[name]
    names = [a.name for a in node.target._schema.arguments]
    position = names.index(name) if name in names else len(node.args)
    return node.args[position] if position < len(node.args) else default


def recompute_rule(node: Node) -> Recompute:
    """Whether the operator may run again, judged by the operator alone.

    Operators outside PyTorch's own namespaces and higher-order operators may have effects that
    their schema does not show; they run once.
    """
    target = node.target
    if isinstance(target, HigherOrderOperator) or not isinstance(target, OpOverload):
        return Recompute.NEVER
    if target.namespace not in PURE_NAMESPACES or is_mutation(node) or target in ROUTING:
        return Recompute.NEVER
    if not tensors_in(node.meta.get("val")):
        return Recompute.NEVER
    if is_random(node):
        return Recompute.NEVER if argument(node, "generator", None) is not None else Recompute.RANDOM
    return Recompute.FREE


def target_name(target: Any) -> str:
    """Name of what a node calls, e.g. ``aten.mm.default``."""
    if isinstance(target, OpOverload):
        return str(target)
    return getattr(target, "__name__", str(target))
