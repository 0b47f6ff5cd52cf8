"""Which part each node of a joint graph plays: forward or backward, view or op, input or result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from rematopt.errors import UnsupportedModelError
from rematopt.graph import Phase
from rematopt.profiler.capture import JointGraph
from rematopt.profiler.operators import is_getitem, is_mutation, is_random, is_tangent, target_name
from rematopt.profiler.storages import Storages, storage_key
from rematopt.storage import tensors_in


@dataclass
class Roles:
    """The parts of a joint graph.

    Parameters
    ----------
    nodes : tuple of Node
        Nodes that compute something which the step needs, in graph order; neither views nor getitems.
    views : frozenset of Node
        Nodes all of whose results share a storage with something older, getitems of those included.
    primals, tangents : tuple of Node
        Inputs of the forward pass and gradients handed to the backward pass.
    results : tuple of Node or None
        All outputs of the joint graph.
    forward_outputs, gradients : tuple of Node
        The same by pass, absent ones left out.
    gradient_of : tuple of (Node, Node)
        Gradients with the primals they belong to.
    mutated : frozenset of Node
        Primals that an op of the step writes into.
    device : torch.device
        Where most of the primals' bytes live.
    """

    nodes: tuple[Node, ...]
    views: frozenset[Node]
    primals: tuple[Node, ...]
    tangents: tuple[Node, ...]
    results: tuple[Node | None, ...]
    forward_outputs: tuple[Node, ...]
    gradients: tuple[Node, ...]
    gradient_of: tuple[tuple[Node, Node], ...]
    mutated: frozenset[Node]
    device: torch.device
    _backward: frozenset[Node]
    _reads: dict[Node, frozenset[int]]

    @classmethod
    def of(cls, joint: JointGraph, storages: Storages) -> Roles:
        """Work the parts out."""
        graph = joint.module.graph
        placeholders = graph.find_nodes(op="placeholder")
        tangents = tuple(p for p in placeholders if is_tangent(p))
        primals = tuple(p for p in placeholders if p not in tangents)
        outputs: Any = graph.output_node().args[0]
        results = tuple(n if isinstance(n, Node) else None for n in outputs)
        backward_results = results[joint.forward_outputs :]
        views = frozenset(n for n in graph.nodes if _is_view(n, storages))
        needed = _needed(graph.output_node())
        computing = tuple(
            n
            for n in graph.nodes
            if n.op == "call_function" and n not in views and not is_getitem(n) and (n in needed or is_effect(n))
        )
        return cls(
            nodes=computing,
            views=views,
            primals=primals,
            tangents=tangents,
            results=results,
            forward_outputs=tuple(n for n in results[: joint.forward_outputs] if n is not None),
            gradients=tuple(n for n in backward_results if n is not None),
            gradient_of=tuple((g, p) for g, p in zip(backward_results, primals, strict=False) if g is not None),
            mutated=_mutated(computing, storages),
            device=_main_device(primals),
            _backward=_backward(graph.nodes),
            _reads=_reads(graph.nodes, views),
        )

    def phase(self, node: Node) -> Phase:
        """Where the node runs for the first time."""
        return Phase.BACKWARD if node in self._backward else Phase.FORWARD

    def ordered(self, phase: Phase) -> list[Node]:
        """The computing nodes of one phase, in graph order."""
        return [n for n in self.nodes if self.phase(n) is phase]

    def reads(self, node: Node) -> frozenset[int]:
        """Keys of the storages that the node reads, through views too."""
        return frozenset().union(*(self._reads[a] for a in node.all_input_nodes))

    def recast_gradients(self) -> list[Node]:
        """Gradients whose strides differ from their parameter's, so that autograd stores a copy."""
        found = []
        for gradient, primal in self.gradient_of:
            mine, theirs = gradient.meta["val"], primal.meta["val"]
            if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor) and _layout_differs(mine, theirs):
                found.append(gradient)
        return found


def is_effect(node: Node) -> bool:
    """Whether a node must run although nobody may read its results."""
    if is_getitem(node):
        return False
    return is_mutation(node) or is_random(node) or not tensors_in(node.meta.get("val"))


def _is_view(node: Node, storages: Storages) -> bool:
    if node.op != "call_function":
        return False
    if is_getitem(node):
        source = node.args[0]
        return isinstance(source, Node) and _is_view(source, storages)
    return bool(tensors_in(node.meta.get("val"))) and not is_mutation(node) and not storages.new_results(node)


def _needed(output: Node) -> set[Node]:
    """Nodes from which the outputs, or an effect, can be reached."""
    seen: set[Node] = set()
    pending = [output, *(n for n in output.graph.nodes if n.op == "call_function" and is_effect(n))]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending.extend(node.all_input_nodes)
    return seen


def _mutated(nodes: tuple[Node, ...], storages: Storages) -> frozenset[Node]:
    found = set()
    for node in nodes:
        if not is_mutation(node):
            continue
        target = node.args[0]
        tensor = target.meta["val"] if isinstance(target, Node) else None
        if not isinstance(tensor, torch.Tensor) or storage_key(tensor) not in storages.static:
            raise UnsupportedModelError(
                f"{target_name(node.target)} writes into a tensor of the step itself, which no run could repeat; "
                "use the operator's out-of-place form"
            )
        found.add(storages.static[storage_key(tensor)])
    return frozenset(found)


def _main_device(primals: tuple[Node, ...]) -> torch.device:
    size: dict[torch.device, int] = {}
    for node in primals:
        for tensor in tensors_in(node.meta.get("val")):
            size[tensor.device] = size.get(tensor.device, 0) + tensor.untyped_storage().nbytes()
    return max(size, key=lambda device: size[device], default=torch.device("cpu"))


def _backward(nodes: Iterable[Node]) -> frozenset[Node]:
    """Nodes tagged as backward, and whatever depends on a tangent."""
    found: set[Node] = set()
    for node in nodes:
        tagged = node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")
        if tagged or any(a in found for a in node.all_input_nodes):
            found.add(node)
    return frozenset(found)


def _reads(nodes: Iterable[Node], views: frozenset[Node]) -> dict[Node, frozenset[int]]:
    """For each node the storages that reading it reads: its own, and what a view was cut by."""
    found: dict[Node, frozenset[int]] = {}
    for node in nodes:
        own = frozenset(storage_key(t) for t in tensors_in(node.meta.get("val")))
        through = (found[a] for a in node.all_input_nodes) if node in views else ()
        found[node] = own.union(*through)
    return found


def _layout_differs(gradient: torch.Tensor, parameter: torch.Tensor) -> bool:
    if gradient.is_sparse or gradient.shape != parameter.shape:
        return False
    return any(
        size > 1 and mine != theirs
        for size, mine, theirs in zip(gradient.shape, gradient.stride(), parameter.stride(), strict=True)
    )
