"""Finding the blocks of a model: what people checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

FEWEST_ALIKE = 3
"""From so many parts on, sequences in a sequence count as blocks; fewer are the halves of a network."""


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the parts of the outermost ``nn.Sequential`` and ``nn.ModuleList`` that consist of several layers.

    These are the layers of Hugging Face's transformers, the residual blocks of a ResNet, the stages of a
    U-Net. A sequence of single layers has none; see :func:`longest_sequence` for that.
    """
    return list(dict.fromkeys(_blocks(model)))


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    compound = [child for child in module.children() if next(child.children(), None) is not None]
    if isinstance(module, nn.ModuleList) or (isinstance(module, nn.Sequential) and _are_blocks(compound)):
        yield from compound
        return
    for child in compound:
        yield from _blocks(child)


def _are_blocks(parts: list[nn.Module]) -> bool:
    only_sequences = all(type(part) is nn.Sequential for part in parts)
    return len(parts) >= FEWEST_ALIKE or not only_sequences


def longest_sequence(model: nn.Module) -> tuple[nn.Sequential, list[nn.Module]] | None:
    """Return the ``nn.Sequential`` with most parts, those of sequences inside it counted, and these parts."""
    found = [(m, _flat(m)) for m in model.modules() if isinstance(m, nn.Sequential)]
    return max(found, key=lambda pair: len(pair[1]), default=None)


def _flat(module: nn.Module) -> list[nn.Module]:
    if type(module) is not nn.Sequential:
        return [module]
    return [part for child in module for part in _flat(child)]
