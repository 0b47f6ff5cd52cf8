"""The interface of the methods, and the plain model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import nn

Restore = Callable[[], None]
"""Makes a prepared model the plain one again."""


class Method(Protocol):
    """A way to train a model in less memory."""

    @property
    def name(self) -> str:
        """How tables and figures call it."""
        ...

    def settings(self, model: nn.Module) -> tuple[str, ...]:
        """At which settings it can run ``model``; none where it does not apply."""
        ...

    def prepare(self, model: nn.Module, setting: str) -> Restore:
        """Make ``model`` train this way, in place."""
        ...


class Plain:
    """Eager PyTorch, to which all others are compared."""

    name = "plain"

    def settings(self, _model: nn.Module) -> tuple[str, ...]:
        """One."""
        return ("",)

    def prepare(self, _model: nn.Module, _setting: str) -> Restore:
        """Change nothing."""
        return lambda: None
