"""What to do when a model is called in a way that its schedule was not made for."""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch.utils._python_dispatch import _disable_current_modes

from rematopt.errors import InfeasibleLimitError, ScheduleMismatchError
from rematopt.graph import Graph
from rematopt.model import static_bytes
from rematopt.profiler.lowering import Lowered
from rematopt.profiler.profiling import measured
from rematopt.schedule import Schedule
from rematopt.solver import solve


class Replan:
    """Solves other calls for the limit of the first one, while the compiler waits.

    A call of the same structure with no larger tensors runs by the same steps. Any other is profiled
    and solved; where no schedule fits, it runs like the plain model, with one warning. The compiler
    keeps each plan, up to ``torch._dynamo.config.recompile_limit`` of them, and runs further calls plainly.

    Parameters
    ----------
    model : torch.nn.Module
        The model that the schedule is on.
    schedule : Schedule
        Gives the limit: the one it was solved for, else its peak.
    optimizer : torch.optim.Optimizer, optional
        Its state counts as static memory.
    time_limit : float
        Seconds for solving one call.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        schedule: Schedule,
        *,
        optimizer: torch.optim.Optimizer | None = None,
        time_limit: float = 10.0,
    ) -> None:
        self._model = model
        self._schedule = schedule
        self._optimizer = optimizer
        self._time_limit = time_limit
        self._warned = False

    def __call__(self, lowered: Lowered | None, error: ScheduleMismatchError) -> Schedule | None:
        """The schedule for a captured call; None to run it plainly."""
        if lowered is None:
            self._warn(str(error))
            return None
        if self._schedule.covers(lowered.graph):
            return self._schedule
        try:
            with _disable_current_modes():
                graph, _ = measured(replace(lowered, graph=self._with_static_bytes(lowered)))
                return solve(graph, self._limit(), time_limit=self._time_limit)
        except InfeasibleLimitError as infeasible:
            self._warn(str(infeasible))
            return None

    def _limit(self) -> int:
        return self._schedule.peak_bytes if self._schedule.limit_bytes is None else self._schedule.limit_bytes

    def _with_static_bytes(self, lowered: Lowered) -> Graph:
        """The call's graph with the model's memory and whatever else the step is handed."""
        static = static_bytes(self._model, (), {}, self._optimizer)
        inputs = max(0, lowered.primal_bytes - static.parameters - static.buffers)
        return replace(lowered.graph, static=replace(static, inputs=inputs), signature=self._schedule.signature)

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            name = type(self._model).__name__
            warnings.warn(f"a call of {name} runs without a plan: {reason}", RuntimeWarning, stacklevel=2)
