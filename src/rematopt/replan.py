"""What to do when a model is called in a way that its schedule was not made for."""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch.utils._python_dispatch import _disable_current_modes

from rematopt.errors import InfeasibleLimitError, ScheduleMismatchError
from rematopt.model import static_bytes
from rematopt.optimizer import optimizer_bytes
from rematopt.profiler.lowering import Lowered
from rematopt.profiler.profiling import measured
from rematopt.profiler.surroundings import surrounded
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
                graph, _ = measured(self._surrounded(lowered))
                return solve(graph, self._limit(), time_limit=self._time_limit)
        except InfeasibleLimitError as infeasible:
            self._warn(str(infeasible))
            return None

    def _limit(self) -> int:
        return self._schedule.peak_bytes if self._schedule.limit_bytes is None else self._schedule.limit_bytes

    def _surrounded(self, lowered: Lowered) -> Lowered:
        """The call's graph with the memory of model and optimizer, and whatever else the step is handed."""
        needed = optimizer_bytes(self._optimizer, lowered.device)
        static = static_bytes(self._model, (), {}, optimizer_state=needed.state)
        inputs = max(0, lowered.primal_bytes - static.parameters - static.buffers)
        found = surrounded(lowered, replace(static, inputs=inputs), needed)
        return replace(found, graph=replace(found.graph, signature=self._schedule.signature))

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            name = type(self._model).__name__
            warnings.warn(f"a call of {name} runs without a plan: {reason}", RuntimeWarning, stacklevel=2)
