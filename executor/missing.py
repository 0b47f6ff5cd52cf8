"""Backward passes that start from some of the outputs only.

Autograd hands zeros to a compiled backward pass for every output that the loss did not use, and so
parameters that the loss does not depend on get gradients of zeros, where the plain model leaves
``None``. Here the missing gradients stay missing, and with them what depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from rematopt.profiler.operators import is_tangent


def for_missing_tangents(module: GraphModule, run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Let a backward function accept None for tangents.

    Parameters
    ----------
    module : GraphModule
        The backward graph; its inputs named ``tangents`` are the gradients of the outputs.
    run : callable
        Executes it; takes a list of arguments.

    Returns
    -------
    callable
        Like ``run``; a missing tangent counts as zeros, and results that depend on missing ones alone
        are None.
    """
    placeholders = module.graph.find_nodes(op="placeholder")
    tangents = {i: p.meta["val"] for i, p in enumerate(placeholders) if is_tangent(p)}
    needed = _tangents_of_results(module, {placeholders[i]: i for i in tangents})

    def call(args: list[Any]) -> Any:
        missing = {i for i in tangents if args[i] is None}
        if not missing:
            return run(args)
        for i in missing:
            args[i] = _zeros(tangents[i])
        results = run(args)
        return tuple(
            None if depends and depends <= missing else result for result, depends in zip(results, needed, strict=True)
        )

    return call


def _tangents_of_results(module: GraphModule, tangents: dict[Node, int]) -> list[frozenset[int]]:
    """For each result the tangents it depends on."""
    found: dict[Node, frozenset[int]] = {}
    for node in module.graph.nodes:
        own = frozenset({tangents[node]} if node in tangents else ())
        found[node] = own.union(*(found[a] for a in node.all_input_nodes))
    results: Any = module.graph.output_node().args[0]
    return [found[r] if isinstance(r, Node) else frozenset() for r in results]


def _zeros(like: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device).zero_()
