"""Building the ops and data of a graph from the nodes of a joint graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from torch.fx import Node

from rematopt.graph import Data, Kind, Op, Phase, Recompute
from rematopt.profiler.normalise import ignores_running_statistics
from rematopt.profiler.operators import is_mutation, is_random, recompute_rule, target_name
from rematopt.profiler.roles import Roles
from rematopt.profiler.storages import Storages, storage_bytes, storage_key
from rematopt.storage import tensors_in

RANDOM_STATE_BYTES = {"cpu": 5056}
"""Size of a saved generator state; on CUDA it is saved in host memory."""

LOSS_BYTES = 64
"""Allowance for a scalar loss that is computed outside the model, and its gradient."""


@dataclass
class Builder:
    """Collects ops and data in the order in which the nodes run.

    Parameters
    ----------
    storages : Storages
        Which nodes allocate storages.
    roles : Roles
        What the nodes are for.
    device : torch.device
        Where the step runs; tensors elsewhere weigh nothing.
    """

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
        """The storage of a tensor as a result of the op that is added next; returns its data."""
        size = storage_bytes(tensor) if tensor.device == self.device else 0
        self.data.append(Data(bytes=size, producer=len(self.ops), kind=kind, label=label(tensor)))
        self.data_at[storage_key(tensor)] = len(self.data) - 1
        return len(self.data) - 1

    def add_op(self, op: Op, node: Node | None) -> int:
        """An op and the node it stands for; returns its index."""
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
