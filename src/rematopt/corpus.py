"""Real text without a download: the sources of Python's own standard library, as byte-level tokens."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from rematopt.errors import InvalidInputError

VOCABULARY = 256
"""Number of different tokens: a token is a byte."""


def standard_library_text(limit_bytes: int = 2**20) -> bytes:
    """Return the first ``limit_bytes`` bytes of the standard library's modules, in alphabetical order.

    Raises
    ------
    InvalidInputError
        If this Python has no sources of its standard library.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    text = bytearray()
    for path in sorted(folder.glob("*.py")):
        text += path.read_bytes()
        if len(text) >= limit_bytes:
            return bytes(text[:limit_bytes])
    if not text:
        raise InvalidInputError(f"{folder} holds no .py files; run the demo with a Python that has its sources")
    return bytes(text)


def batches(text: bytes, *, batch: int, sequence: int, seed: int = 0) -> Iterator[torch.Tensor]:
    """Yield random windows of a text as tokens ``[batch, sequence]`` without end, the same for the same seed.

    Raises
    ------
    InvalidInputError
        If the text is shorter than a window.
    """
    if len(text) <= sequence:
        raise InvalidInputError(f"the text has {len(text)} bytes; a window of {sequence} tokens needs more")
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    generator = np.random.default_rng(seed)
    while True:
        starts = generator.integers(0, len(text) - sequence, size=batch)
        yield torch.stack([tokens[start : start + sequence] for start in starts.tolist()])
