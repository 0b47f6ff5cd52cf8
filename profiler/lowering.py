"""Lowering a joint graph to the torch-free :class:`~rematopt.graph.Graph`.

Storages decide: a node whose results live in storages of its arguments is a view and no op at all;
whoever reads the view reads the storage. Profiler and executor share this one lowering, so that a
schedule made from a profile fits the graph that is captured in training.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from torch.fx import Node

from rematopt.device import allocated_bytes
from rematopt.errors import UnsupportedModelError
from rematopt.graph import (
    ACCUMULATE,
    OPTIMIZER_STEP,
    Data,
    Graph,
    Kind,
    Op,
    Phase,
    Recompute,
    Signature,
)
from rematopt.profiler.capture import JointGraph
from rematopt.profiler.normalise import ignores_running_statistics, normalise
from rematopt.profiler.operators import (
    UNSUPPORTED,
    is_getitem,
    is_mutation,
    is_random,
    recompute_rule,
    target_name,
)
from rematopt.profiler.refresh import refresh
from rematopt.profiler.roles import Roles
from rematopt.profiler.storages import Storages, storage_bytes, storage_key
from rematopt.storage import tensors_in

RANDOM_STATE_BYTES = {"cpu": 5056}
"""Size of a saved generator state; on CUDA it is saved in host memory."""

LOSS_BYTES = 64
"""Allowance for a scalar loss that is computed outside the model, and its gradient."""


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


@dataclass
class _Builder:
    """Collects ops and data in the order in which the nodes run."""

    storages: Storages
    roles: Roles
    device: torch.device
    ops: list[Op] = field(default_factory=list)
    data: list[Data] = field(default_factory=list)
    nodes: list[Node | None] = field(default_factory=list)
    states: dict[int, int] = field(default_factory=dict)
    data_at: dict[int, int] = field(default_factory=dict)
    last_random: int | None = None
    readers: dict[Node, list[int]] = field(default_factory=dict)

    def add_data(self, tensor: torch.Tensor, kind: Kind) -> int:
        size = storage_bytes(tensor) if tensor.device == self.device else 0
        self.data.append(Data(bytes=size, producer=len(self.ops), kind=kind, label=label(tensor)))
        self.data_at[storage_key(tensor)] = len(self.data) - 1
        return len(self.data) - 1

    def add_op(self, op: Op, node: Node | None) -> int:
        self.ops.append(op)
        self.nodes.append(node)
        return len(self.ops) - 1

    def add_tangents(self, placeholders: Iterable[Node]) -> None:
        """All gradients that autograd hands to the backward pass arrive at once.

        That of a scalar is the loss's own, which the caller holds; a loss computed outside the model
        is allowed for where there is none. The others are dropped at their last use.
        """
        found = [tensor for node in placeholders for tensor in tensors_in(node.meta.get("val"))]
        new = {storage_key(tensor): tensor for tensor in found}
        outputs = [self.add_data(t, Kind.TANGENT if t.numel() == 1 else Kind.TEMPORARY) for t in new.values()]
        if all(t.numel() != 1 for t in new.values()):
            self.data.append(Data(bytes=LOSS_BYTES, producer=len(self.ops), kind=Kind.TANGENT, label="loss"))
            outputs.append(len(self.data) - 1)
        op = Op(
            name="tangents",
            target="autograd.tangents",
            phase=Phase.BACKWARD,
            outputs=tuple(outputs),
            recompute=Recompute.NEVER,
        )
        self.add_op(op, None)

    def add_random_state(self, node: Node) -> int:
        """The op that saves the random state for ``node``; returns the state's data."""
        size = RANDOM_STATE_BYTES.get(self.device.type, 0)
        self.data.append(Data(bytes=size, producer=len(self.ops), kind=Kind.RANDOM_STATE, label=f"u8[{size}]"))
        op = Op(
            name=f"{node.name}.state",
            target="rematopt.random_state",
            phase=self.roles.phase(node),
            outputs=(len(self.data) - 1,),
            recompute=Recompute.NEVER,
            after=() if self.last_random is None else (self.last_random,),
            module=module_path(node),
        )
        state = self.add_op(op, None)
        self.states[state + 1] = state
        return self.ops[state].outputs[0]

    def add_node(self, node: Node) -> None:
        """The op of a node that computes something."""
        rule = recompute_rule(node)
        keys = self.roles.reads(node)
        sources = [self.storages.static[k] for k in keys if k in self.storages.static]
        if any(s in self.roles.mutated for s in sources) and not ignores_running_statistics(node):
            rule = Recompute.NEVER
        inputs = {self.data_at[k] for k in keys if k in self.data_at}
        if rule is Recompute.RANDOM:
            inputs.add(self.add_random_state(node))
        kind = Kind.ACTIVATION if self.roles.phase(node) is Phase.FORWARD else Kind.TEMPORARY
        index = len(self.ops)
        op = Op(
            name=node.name,
            target=target_name(node.target),
            phase=self.roles.phase(node),
            inputs=tuple(sorted(inputs)),
            outputs=tuple(self.add_data(t, kind) for t in self.storages.new_results(node)),
            recompute=rule,
            after=self._after(node, rule, sources),
            module=module_path(node),
        )
        self.add_op(op, node)
        for source in sources:
            self.readers.setdefault(source, []).append(index)
        if rule is Recompute.RANDOM or is_random(node):
            self.last_random = index

    def _after(self, node: Node, rule: Recompute, sources: list[Node]) -> tuple[int, ...]:
        """Ops that must have run before: earlier draws, and the readers of what is overwritten."""
        before: set[int] = set()
        if is_random(node) and rule is not Recompute.RANDOM and self.last_random is not None:
            before.add(self.last_random)
        if is_mutation(node):
            for source in sources:
                before.update(self.readers.get(source, ()))
        return tuple(sorted(before))

    def gradients(self) -> tuple[int, ...]:
        """The data that are gradients, once they are marked."""
        return tuple(d for d, item in enumerate(self.data) if item.kind is Kind.GRADIENT)

    def mark(self, nodes: Iterable[Node], kind: Kind) -> None:
        """Give the storages behind ``nodes`` a kind that keeps them."""
        for node in nodes:
            for tensor in tensors_in(node.meta.get("val")):
                d = self.data_at.get(storage_key(tensor))
                if d is not None and not self.data[d].kept:
                    self.data[d] = replace(self.data[d], kind=kind)


def label(tensor: torch.Tensor) -> str:
    """Dtype and shape in short: ``f32[2, 512]``."""
    short = str(tensor.dtype).removeprefix("torch.")
    for long, letter in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        if short.startswith(long):
            short = letter + short.removeprefix(long)
            break
    return f"{short}{list(tensor.shape)}"


def module_path(node: Node) -> str:
    """Path of the module that called the node, in forward or for its backward."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    _, _, inner = path.partition("]")
    return inner.lstrip(".") if path.startswith("L[") else path


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
    builder = _Builder(storages, roles, roles.device)
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


def _add_accumulation(builder: _Builder) -> None:
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


def _add_optimizer_step(builder: _Builder) -> None:
    """The training loop's next call; the capture does not show what it needs."""
    op = Op(
        name="optimizer_step",
        target=OPTIMIZER_STEP,
        phase=Phase.BACKWARD,
        inputs=builder.gradients(),
        recompute=Recompute.NEVER,
    )
    builder.add_op(op, None)


def _values(builder: _Builder, nodes: Iterable[Node]) -> tuple[dict[Node, int], dict[Node, int]]:
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
