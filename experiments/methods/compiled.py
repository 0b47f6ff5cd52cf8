"""What PyTorch's compiler does by itself: its own graphs, and the activation memory budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

from experiments.methods.method import Restore
from rematopt.compiler import compiled_call, isolated_call, joint_backend

BUDGETS = ("1", "0.75", "0.5", "0.25", "0")
"""Settings of the budget: the share of the activations that may be kept."""


class AotEager:
    """The captured graphs without changes, op by op: what a schedule's kernels are compared with."""

    name = "aot_eager"

    def settings(self, _model: nn.Module) -> tuple[str, ...]:
        """One."""
        return ("",)

    def prepare(self, model: nn.Module, _setting: str) -> Restore:
        """Compile the call."""
        return _call_by(model, compiled_call(model, _op_by_op(default_partition), whole=True))


class Budget:
    """``activation_memory_budget`` with the min-cut partitioner, run op by op."""

    name = "memory budget"

    def settings(self, _model: nn.Module) -> tuple[str, ...]:
        """The budgets."""
        return BUDGETS

    def prepare(self, model: nn.Module, setting: str) -> Restore:
        """Compile the call."""

        def partition(*args: Any, **kwargs: Any) -> Any:
            with config.patch(activation_memory_budget=float(setting)):
                return min_cut_rematerialization_partition(*args, **kwargs)

        return _call_by(model, compiled_call(model, _op_by_op(partition), whole=True))


class InductorBudget:
    """``activation_memory_budget`` with Inductor's kernels and PyTorch's random numbers."""

    name = "inductor budget"

    def settings(self, _model: nn.Module) -> tuple[str, ...]:
        """The budgets."""
        return BUDGETS

    def prepare(self, model: nn.Module, setting: str) -> Restore:
        """Compile the call; the first one takes minutes."""
        options: dict[str, str | int | bool | Callable[..., Any]] = {"fallback_random": True}
        compiled = torch.compile(isolated_call(model), fullgraph=True, dynamic=False, options=options)

        def call(*args: Any, **kwargs: Any) -> Any:
            with config.patch(activation_memory_budget=float(setting)):
                return compiled(*args, **kwargs)

        return _call_by(model, call)


def _op_by_op(partition: Callable[..., Any]) -> Callable[..., Any]:
    return joint_backend(partition, boxed_nop, boxed_nop)


def _call_by(model: nn.Module, call: Callable[..., Any]) -> Restore:
    """Run the model by ``call``, where ``nn.Module.compile`` puts such a call."""
    model.__dict__["_compiled_call_impl"] = call

    def restore() -> None:
        model.__dict__.pop("_compiled_call_impl", None)

    return restore
