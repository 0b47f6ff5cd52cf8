"""Adding up the storages of tensors, and watching them come and go."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rematopt.device import allocated_bytes


def tensors_in(value: Any) -> list[torch.Tensor]:
    """All tensors in a (nested) value, in order."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class StorageCounter:
    """Adds up storages of one device, each once.

    Parameters
    ----------
    device : torch.device
        Tensors elsewhere weigh nothing.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seen: set[int] = set()

    def add(self, tensors: Iterable[torch.Tensor | None]) -> int:
        """Bytes of the storages of ``tensors`` that were not counted before."""
        total = 0
        for tensor in tensors:
            if tensor is None or tensor.device != self.device:
                continue
            parts = [tensor.indices(), tensor.values()] if tensor.layout is torch.sparse_coo else [tensor]
            for part in (p.detach() for p in parts):
                storage = part.untyped_storage()
                if storage._cdata not in self.seen:
                    self.seen.add(storage._cdata)
                    total += allocated_bytes(storage.nbytes(), self.device)
        return total


class LiveStorages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, keeps count of the storages that operators make, until they die.

    What an operator allocates and returns to the allocator itself is not seen. Works with fake tensors.

    Parameters
    ----------
    device : torch.device
        Tensors elsewhere weigh nothing.
    known : iterable of Tensor
        What was there before and does not count.

    Attributes
    ----------
    held_bytes, peak_bytes : int
        Bytes held now, and at most so far.
    """

    def __init__(self, device: torch.device, known: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held_bytes = self.peak_bytes = 0
        self._device = device
        self._seen = {tensor.untyped_storage()._cdata for tensor in known}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator and count what it made."""
        result = func(*args, **(kwargs or {}))
        for tensor in tensors_in(result):
            self._add(tensor)
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        return result

    def _add(self, tensor: torch.Tensor) -> None:
        if tensor.layout is not torch.strided or tensor.device != self._device:
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._seen:
            size = allocated_bytes(storage.nbytes(), self._device)
            self._seen.add(key)
            self.held_bytes += size
            weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.held_bytes -= size
