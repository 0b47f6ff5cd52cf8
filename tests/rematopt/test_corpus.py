"""The text of the demo: real, and the same for the same seed."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from rematopt.corpus import VOCABULARY, batches, standard_library_text
from rematopt.errors import InvalidInputError


def test_text_is_python_source_of_the_length_asked_for() -> None:
    text = standard_library_text(50_000)
    assert len(text) == 50_000
    assert b"\nimport " in text
    assert standard_library_text(20_000) == text[:20_000]


def test_batches_are_windows_of_the_text() -> None:
    text = standard_library_text(10_000)
    first, second = islice(batches(text, batch=3, sequence=16, seed=5), 2)
    assert first.shape == (3, 16)
    assert first.max() < VOCABULARY
    assert all(bytes(row.tolist()) in text for row in (*first, *second))
    assert not torch.equal(first, second)
    assert torch.equal(first, next(batches(text, batch=3, sequence=16, seed=5)))
    assert not torch.equal(first, next(batches(text, batch=3, sequence=16, seed=6)))


def test_text_shorter_than_a_window() -> None:
    with pytest.raises(InvalidInputError, match="4 bytes; a window of 16"):
        next(batches(b"text", batch=1, sequence=16))
