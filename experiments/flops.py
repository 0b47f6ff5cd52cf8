"""Counting the floating point operations of a step, whoever runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._ops import HigherOrderOperator, OpOverload
from torch._prims.rng_prims import run_and_save_rng_state
from torch.utils._python_dispatch import TorchDispatchMode

from rematopt.profiler.roofline import count_flops


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the operations of every op that runs, inside compiled graphs, too.

    PyTorch's own ``FlopCounterMode`` makes Dynamo skip compiled code, so that it would count the plain model.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled code run as it is."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        op, inputs, output = func, args, result
        if isinstance(func, HigherOrderOperator):
            # An op that runs with a given random state comes as an argument, its own arguments behind it.
            at = next((i for i, arg in enumerate(args) if isinstance(arg, OpOverload)), None)
            if at is not None:
                op, inputs = args[at], args[at + 1 :]
                output = result[1] if func is run_and_save_rng_state else result
        self.total += count_flops(op, inputs, kwargs, output)
        return result


def flops_of(step: Callable[[], Any]) -> int:
    """Run a step and return its floating point operations by PyTorch's formulas.

    Inductor's own kernels are no ops and do not count.
    """
    with _Counter() as counter:
        step()
    total: int = counter.total
    return total
