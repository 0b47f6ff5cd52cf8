"""One of the two fx graphs that execute a schedule, while it is being written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import Graph, GraphModule, Node

Key = Node | int
"""A node of the joint graph, or the data index of a saved random state, which has no node there."""

DROPPABLE = "rematopt_droppable"
"""Mark of views and picked results, which have no effect where nobody uses them."""

_UNCHECKED = "saved_tensor_with_no_vc_check"
"""Mark of tensors whose version autograd does not check; they must be the last saved ones."""


@dataclass
class Pass:
    """A forward or backward graph and where the current values are in it.

    Parameters
    ----------
    graph : fx.Graph
        The graph so far.
    outer : Pass or None
        The pass whose values may be brought in as inputs; None for forward.
    values : dict
        Where the current value of a node of the joint graph is.
    imported : dict
        Nodes of the outer graph that became inputs, and the inputs.
    """

    graph: Graph = field(default_factory=Graph)
    outer: Pass | None = None
    values: dict[Key, Node] = field(default_factory=dict)
    imported: dict[Node, Node] = field(default_factory=dict)

    def add_input(self, node: Node, *, before: Node | None = None) -> Node:
        """Add an input named and described like ``node``; behind everything so far if ``before`` is None."""
        if before is None:
            new = self.graph.placeholder(node.name)
        else:
            with self.graph.inserting_before(before):
                new = self.graph.placeholder(node.name)
        # The generated function's parameter is named by the target; were it not the node's own unique name,
        # the parameter would clash with another node, or hold its tensor until the function returns.
        new.target = new.name
        new.meta = dict(node.meta)
        return new

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], like: Node | None = None) -> Node:
        """Append a call, described like a node of the joint graph."""
        new = self.graph.call_function(target, args, kwargs)
        if like is not None:
            new.meta = dict(like.meta)
        return new

    def find(self, key: Key) -> Node | None:
        """The current value of ``key``, brought in from the outer pass if it lives there."""
        if key in self.values:
            return self.values[key]
        if self.outer is None or key not in self.outer.values:
            return None
        outside = self.outer.values[key]
        if outside not in self.imported:
            first = next(iter(self.graph.nodes))
            self.imported[outside] = self.add_input(outside, before=first)
        self.values[key] = self.imported[outside]
        return self.values[key]

    def forget(self, key: Key) -> None:
        """Drop the current value of ``key``, here and outside."""
        self.values.pop(key, None)
        if self.outer is not None:
            self.outer.values.pop(key, None)

    def order_inputs(self) -> None:
        """Put the inputs that were brought in to the front, in the order in which the outer pass returns them."""
        ordered = sorted(self.imported.items(), key=lambda item: bool(item[0].meta.get(_UNCHECKED, False)))
        self.imported = dict(ordered)
        for inside in reversed(self.imported.values()):
            next(iter(self.graph.nodes)).prepend(inside)

    def finish(self, root: GraphModule, name: str, results: tuple[Node | None, ...]) -> GraphModule:
        """Add the output, drop what nobody uses, and make a module."""
        self.graph.output(results)
        for node in reversed(self.graph.nodes):
            droppable = node.op == "get_attr" or node.meta.get(DROPPABLE, False)
            if droppable and not node.users:
                self.graph.erase_node(node)
        return GraphModule(root, self.graph, class_name=name)


def fake_integers(module: GraphModule, size: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Stand-in, made by the fake mode of the module's inputs, for a vector that the joint graph does not know."""
    mode = detect_fake_mode([node.meta.get("val") for node in module.graph.find_nodes(op="placeholder")])
    assert mode is not None
    with mode:
        return torch.empty(size, dtype=dtype)
