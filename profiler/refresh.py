"""Sizes of stand-in tensors that do not depend on what the process compiled before.

The compiler's stand-ins (fake tensors) remember the results of operators they have seen. A
remembered result gets a storage that just holds its elements, while the operator may allocate more:
a copy of every second row keeps the gaps between the rows. Here such results are worked out anew, so that
a profile and the graph captured later in training agree, whichever came first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import disable_fake_tensor_cache
from torch.fx import GraphModule, Node

from rematopt.profiler.operators import is_getitem, stand_ins
from rematopt.profiler.storages import Storages
from rematopt.storage import tensors_in


def refresh(module: GraphModule) -> None:
    """Work out anew, in place, the results whose elements have gaps, and the views of those."""
    mode = detect_fake_mode([node.meta.get("val") for node in module.graph.find_nodes(op="placeholder")])
    if mode is None:
        return
    storages = Storages.of(module.graph)
    fresh: set[Node] = set()
    with mode, disable_fake_tensor_cache(mode), torch.no_grad():
        for node in module.graph.nodes:
            if _has_gaps(node, storages) or (_shares(node, storages) and not fresh.isdisjoint(node.all_input_nodes)):
                node.meta["val"] = _result(node)
                fresh.add(node)


def _has_gaps(node: Node, storages: Storages) -> bool:
    """Whether an operator allocates a result that is larger than its elements; views of others do not count."""
    if not isinstance(node.target, OpOverload):
        return False
    own = storages.new_results(node)
    known = (t for t in own if t.layout is torch.strided and isinstance(t.numel(), int))
    return any(_extent(t) != t.numel() for t in known)


def _shares(node: Node, storages: Storages) -> bool:
    """Whether all that the node returns is part of something older."""
    if node.op != "call_function":
        return False
    return is_getitem(node) or (bool(tensors_in(node.meta.get("val"))) and not storages.new_results(node))


def _result(node: Node) -> Any:
    args, kwargs = stand_ins(node)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _extent(tensor: torch.Tensor) -> int:
    """Elements from the first of the storage to the last one of the tensor."""
    if tensor.numel() == 0:
        return 0
    spans = ((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.storage_offset()) + 1 + sum(spans)
