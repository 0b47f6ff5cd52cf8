"""Rewrites of a joint graph that make more of it recomputable without changing a number.

Batch norm in training mode reads its running statistics only to write them back, and its backward
is handed the new ones although it ignores them. Detached from the statistics, the normalisation may
run again without moving them a second time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from rematopt.profiler.operators import is_getitem, result_position

aten = torch.ops.aten

_NORM = aten._native_batch_norm_legit_functional.default
_NORM_BACKWARD = aten.native_batch_norm_backward.default
_PURE_RESULTS = 3
"""Output, saved mean and saved inverse deviation do not depend on the running statistics."""


def normalise(module: GraphModule) -> None:
    """Detach batch norm's backward from the running statistics, in place."""
    for node in module.graph.nodes:
        if node.target is _NORM_BACKWARD and node.args[7] is True:
            node.args = (*node.args[:3], None, None, *node.args[5:])


def ignores_running_statistics(node: Node) -> bool:
    """Whether a batch norm's needed results do not depend on the statistics that it reads.

    True for training mode where the new statistics are used for nothing but the final write-back.
    """
    if node.target is not _NORM or node.args[5] is not True:
        return False
    return all(
        user.target is aten.copy_.default
        for result in node.users
        if is_getitem(result) and result_position(result) >= _PURE_RESULTS
        for user in result.users
    )


def comes_again(node: Node, result: Node) -> bool:
    """Whether a further run of ``node`` (see :func:`recomputation`) has the result that ``result`` picks."""
    return not ignores_running_statistics(node) or result_position(result) < _PURE_RESULTS


Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""Target, positional and keyword arguments."""


def recomputation(node: Node) -> Call:
    """Target and arguments, in terms of the joint graph, of a further run of ``node``.

    A batch norm in training mode becomes the variant that knows no running statistics, so that those
    need not be at hand as they were.
    """
    if not ignores_running_statistics(node):
        return node.target, node.args, dict(node.kwargs)
    x, weight, bias, _mean, _variance, training, momentum, eps = node.args
    return aten._native_batch_norm_legit.no_stats, (x, weight, bias, training, momentum, eps), dict(node.kwargs)
