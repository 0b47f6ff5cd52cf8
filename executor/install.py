"""Putting a schedule on a model, and taking it off again."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import torch
from torch._dynamo.exc import BackendCompilerFailed

from rematopt.compiler import compiled_call
from rematopt.errors import InvalidInputError, RematoptError, ScheduleMismatchError
from rematopt.executor.autograd import prepare_backward
from rematopt.executor.backend import Fallback, ScheduleBackend
from rematopt.model import parameter_lines
from rematopt.profiler.lowering import Lowered
from rematopt.schedule import Schedule

OnMismatch = Literal["plain", "error"]
_ATTRIBUTE = "_compiled_call_impl"


class Handle:
    """A schedule on a model.

    Attributes
    ----------
    model : torch.nn.Module
        The model, the same object as before.
    schedule : Schedule
        What it runs by.
    """

    def __init__(self, model: torch.nn.Module, schedule: Schedule) -> None:
        self.model = model
        self.schedule = schedule
        self._before = model.__dict__.get(_ATTRIBUTE)

    def remove(self) -> None:
        """Make it the plain model again; a second call does nothing."""
        if self._before is not None:
            self.model.__dict__[_ATTRIBUTE] = self._before
        else:
            self.model.__dict__.pop(_ATTRIBUTE, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()


def apply(
    model: torch.nn.Module,
    schedule: Schedule,
    *,
    on_mismatch: OnMismatch | Fallback = "plain",
    debug: bool = False,
) -> Handle:
    """Make ``model`` train by ``schedule``, in place.

    The model keeps its class, parameters, hooks and ``state_dict`` keys; copies and pickles of it are
    plain models. Calls without gradients run without recomputation.

    Parameters
    ----------
    model : torch.nn.Module
        The model that was profiled, or one built alike.
    schedule : Schedule
        A schedule of its training step.
    on_mismatch : {"plain", "error"} or callable
        What to do with a call that the schedule was not made for (another batch size, say): run it
        like the plain model with one warning, raise :class:`ScheduleMismatchError`, or what the
        callable decides (see :data:`rematopt.executor.backend.Fallback`).
    debug : bool
        Compare every recomputed tensor with the one it replaces, at the cost of time, and raise
        :class:`rematopt.errors.RecomputationError` in the backward pass at the first difference.

    Returns
    -------
    Handle
        To take the schedule off again; also a context manager.

    Raises
    ------
    ScheduleMismatchError
        If the schedule was made for a model with other parameters.
    InvalidInputError
        If ``on_mismatch`` is none of these, or the schedule is not one of a captured model.
    """
    if not callable(on_mismatch) and on_mismatch not in ("plain", "error"):
        raise InvalidInputError(f"on_mismatch is {on_mismatch!r}; use 'plain', 'error' or a callable")
    _check_parameters(model, schedule)
    fallback = on_mismatch if callable(on_mismatch) else (_refuse if on_mismatch == "error" else _Plain())
    backend = ScheduleBackend(schedule, fallback, debug=debug)
    compiled = compiled_call(model, backend.compiler(), whole=False)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            output = compiled(*args, **kwargs)
        except BackendCompilerFailed as error:
            if isinstance(error.inner_exception, RematoptError):
                raise error.inner_exception from None
            raise
        prepare_backward(output)
        return output

    handle = Handle(model, schedule)
    model.__dict__[_ATTRIBUTE] = call
    return handle


def _check_parameters(model: torch.nn.Module, schedule: Schedule) -> None:
    """Compare what the schedule's model had with what this one has."""
    if not schedule.signature.model:
        raise InvalidInputError("this schedule was not made from a model's profile, so no model can run by it")
    theirs, mine = schedule.signature.parameters, parameter_lines(model)
    missing = sorted(set(theirs) - set(mine))
    added = sorted(set(mine) - set(theirs))
    if missing or added:
        parts = [f"the schedule's model has {missing[0]}"] if missing else []
        parts += [f"this one has {added[0]}"] if added else []
        raise ScheduleMismatchError(
            f"the schedule was made for another {schedule.signature.model}: {len(missing) + len(added)} parameters or "
            f"buffers differ; {', '.join(parts)}. Profile this model and solve again"
        )


def _refuse(_lowered: Lowered | None, error: ScheduleMismatchError) -> None:
    raise error


class _Plain:
    """Runs other calls like the plain model and says so once."""

    def __init__(self) -> None:
        self._warned = False

    def __call__(self, _lowered: Lowered | None, error: ScheduleMismatchError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"this call runs without recomputation: {error}", RuntimeWarning, stacklevel=2)
