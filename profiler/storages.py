"""Which storage every tensor of a joint graph lives in."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.fx import Graph, Node

from rematopt.device import allocated_bytes
from rematopt.profiler.operators import is_getitem
from rematopt.storage import tensors_in


def storage_key(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage, valid while some tensor of it is alive.

    A sparse tensor has no storage of its own; it counts as one, which nothing else shares.
    """
    if tensor.layout is not torch.strided:
        return -id(tensor)
    return int(tensor.untyped_storage()._cdata)


def storage_bytes(tensor: torch.Tensor) -> int:
    """Size of a tensor's storage as its device's allocator hands it out."""
    if tensor.layout is torch.sparse_coo:
        parts = (tensor._indices(), tensor._values())
        return sum(allocated_bytes(p.untyped_storage().nbytes(), tensor.device) for p in parts)
    return allocated_bytes(tensor.untyped_storage().nbytes(), tensor.device)


@dataclass
class Storages:
    """Origins of storages: the node and result that allocates each.

    Parameters
    ----------
    static : dict
        Storage key to the placeholder or attribute that brings it in.
    allocated : dict
        Storage key to the node (single result) or the pair of node and result position.
    """

    static: dict[int, Node] = field(default_factory=dict)
    allocated: dict[int, tuple[Node, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Storages:
        """Walk the graph in order; who shows a storage first is its origin."""
        found = cls()
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                for tensor in tensors_in(node.meta.get("val")):
                    found.static.setdefault(storage_key(tensor), node)
            elif node.op == "call_function" and not is_getitem(node):
                for position, tensor in enumerate(tensors_in(node.meta.get("val"))):
                    key = storage_key(tensor)
                    if key not in found.static:
                        found.allocated.setdefault(key, (node, position))
        return found

    def new_results(self, node: Node) -> list[torch.Tensor]:
        """The results of ``node`` that it allocates itself, one tensor a storage."""
        own: dict[int, torch.Tensor] = {}
        for tensor in tensors_in(node.meta.get("val")):
            key = storage_key(tensor)
            if key in self.allocated and self.allocated[key][0] is node:
                own.setdefault(key, tensor)
        return list(own.values())
