"""Lowering a joint graph to the torch-free :class:`~rematopt.graph.Graph`.

Storages decide: a node whose results live in storages of its arguments is a view and no op at all;
whoever reads the view reads the storage. Profiler and executor share this one lowering, so that a
schedule made from a profile fits the graph that is captured in training.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.fx import Node

from rematopt.device import allocated_bytes
from rematopt.errors import UnsupportedModelError
from rematopt.graph import ACCUMULATE, OPTIMIZER_STEP, Graph, Kind, Op, Phase, Recompute, Signature
from rematopt.profiler.builder import Builder, module_path
from rematopt.profiler.capture import JointGraph
from rematopt.profiler.normalise import normalise
from rematopt.profiler.operators import UNSUPPORTED, is_getitem, target_name
from rematopt.profiler.refresh import refresh
from rematopt.profiler.roles import Roles
from rematopt.profiler.storages import Storages, storage_bytes, storage_key
from rematopt.storage import tensors_in


@dataclass(frozen=True)
class Lowered:
    """A graph and the way back to the nodes it was made from.

    Parameters
    ----------
    joint : JointGraph
        The joint graph, normalised.
    graph : Graph
        Ops without times.
    nodes : tuple of Node or None
        For each op its node; None for the ops that stand for no node (saving a random state, the
        arrival of the tangents, the accumulation of gradients, the optimizer's step).
    states : dict of int to int
        For each random op the op that saves the random state for it.
    data_of : dict of Node to int
        For each tensor node that is the result of an op (not a view of one) its data.
    base_of : dict of Node to int
        For each view, the data whose storage it shares; absent for views of static memory.
    views : frozenset of Node
        Nodes that allocate nothing, views of static memory included.
    results : tuple of Node or None
        Outputs of the joint graph: the forward pass's, then a gradient or None for each primal.
    device : torch.device
        Where the step runs.
    primal_bytes : int
        Storages that the step is handed: parameters, buffers, inputs.
    gradient_bytes : int
        Gradients as they are stored beside their parameters.
    """

    joint: JointGraph
    graph: Graph
    nodes: tuple[Node | None, ...]
    states: dict[int, int]
    data_of: dict[Node, int]
    base_of: dict[Node, int]
    views: frozenset[Node]
    results: tuple[Node | None, ...]
    device: torch.device
    primal_bytes: int
    gradient_bytes: int


def lower(joint: JointGraph, *, signature: Signature | None = None) -> Lowered:
    """Lower a joint graph.

    Parameters
    ----------
    joint : JointGraph
        As captured; batch norms are normalised and sizes refreshed in place.
    signature : Signature, optional
        Stored in the graph; no part of the fingerprint.

    Raises
    ------
    UnsupportedModelError
        If sizes depend on values, or an op writes into a tensor of the step itself.
    """
    normalise(joint.module)
    refresh(joint.module)
    graph = joint.module.graph
    storages = Storages.of(graph)
    roles = Roles.of(joint, storages)
    builder = Builder(storages, roles, roles.device)
    for node in roles.ordered(Phase.FORWARD):
        builder.add_node(node)
    builder.add_tangents(roles.tangents)
    for node in roles.ordered(Phase.BACKWARD):
        builder.add_node(node)
    builder.mark(roles.forward_outputs, Kind.OUTPUT)
    builder.mark(roles.gradients, Kind.GRADIENT)
    _add_accumulation(builder)
    _add_optimizer_step(builder)
    data_of, base_of = _values(builder, graph.nodes)
    return Lowered(
        joint=joint,
        graph=Graph(
            ops=tuple(builder.ops),
            data=tuple(builder.data),
            signature=signature or Signature(),
        ),
        nodes=tuple(builder.nodes),
        states=builder.states,
        data_of=data_of,
        base_of=base_of,
        views=roles.views,
        results=roles.results,
        device=roles.device,
        primal_bytes=_primal_bytes(roles),
        gradient_bytes=_gradient_bytes(roles),
    )


def _primal_bytes(roles: Roles) -> int:
    found = {storage_key(t): storage_bytes(t) for p in roles.primals for t in tensors_in(p.meta.get("val"))}
    return sum(found.values())


def _gradient_bytes(roles: Roles) -> int:
    primals = [p.meta["val"] for _, p in roles.gradient_of]
    return sum(allocated_bytes(t.numel() * t.itemsize, t.device) for t in primals if t.device == roles.device)


def _add_accumulation(builder: Builder) -> None:
    """Autograd copies a gradient whose layout is not its parameter's when it stores it in ``.grad``."""
    copied = [storage_bytes(g.meta["val"]) for g in builder.roles.recast_gradients()]
    if not copied:
        return
    op = Op(
        name="accumulate",
        target=ACCUMULATE,
        phase=Phase.BACKWARD,
        inputs=builder.gradients(),
        workspace_bytes=max(copied),
        recompute=Recompute.NEVER,
    )
    builder.add_op(op, None)


def _add_optimizer_step(builder: Builder) -> None:
    """The training loop's next call; the capture does not show what it needs."""
    op = Op(
        name="optimizer_step",
        target=OPTIMIZER_STEP,
        phase=Phase.BACKWARD,
        inputs=builder.gradients(),
        recompute=Recompute.NEVER,
    )
    builder.add_op(op, None)


def _values(builder: Builder, nodes: Iterable[Node]) -> tuple[dict[Node, int], dict[Node, int]]:
    """Data of every result of an op, and base data of every view."""
    ops = {node: i for i, node in enumerate(builder.nodes) if node is not None}
    results: dict[Node, int] = {}
    views: dict[Node, int] = {}
    for node in nodes:
        _refuse_unsupported(node)
        value = node.meta.get("val")
        found = tensors_in(value)
        d = builder.data_at.get(storage_key(found[0])) if found else None
        if d is None or node.op != "call_function":
            continue
        (source,) = node.all_input_nodes if is_getitem(node) else (node,)
        if node in builder.roles.views:
            views[node] = d
        elif isinstance(value, torch.Tensor) and builder.data[d].producer == ops.get(source):
            results[node] = d
    return results, views


def _refuse_unsupported(node: Node) -> None:
    value = node.meta.get("val")
    if node.target in UNSUPPORTED:
        raise UnsupportedModelError(f"{module_path(node) or 'the model'}: {UNSUPPORTED[node.target]}")
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        raise UnsupportedModelError(
            f"{module_path(node) or 'the model'} computes a size from values ({target_name(node.target)}), so memory "
            "cannot be planned; make the size constant (pad, or index with a fixed number)"
        )
