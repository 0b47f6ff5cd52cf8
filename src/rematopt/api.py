"""The functions that join profiler, solver and executor; what needs torch is imported when it is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rematopt.cache import cache_key, cached, default_folder
from rematopt.profile import Profile
from rematopt.schedule import Schedule
from rematopt.solver import solve
from rematopt.units import check_one_limit

if TYPE_CHECKING:
    import torch

    from rematopt.executor import Handle, Measurement
    from rematopt.profiler import Rates

OnMismatch = Literal["replan", "plain", "error"]


def profile(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    timing: str | Rates = "measured",
    progress: Callable[[int, int, str], None] | None = None,
) -> Profile:
    """Measure sizes and times of a training step op by op, without running the step.

    Besides the model, no more is in memory at a time than one op's inputs, outputs and workspace: a model whose
    step does not fit can be profiled. One that does not fit itself can be, too: see :func:`sizes_only`.

    Parameters
    ----------
    model : nn.Module
        A model whose call Dynamo captures whole; best with the loss computed inside.
    args, kwargs : sequence, mapping
        The arguments of one training call.
    optimizer : Optimizer, optional
        Its state counts as static memory, and what its ``step()`` allocates for a moment as part of the
        step.
    accumulate : bool
        Whether gradients are accumulated over micro-batches: those of the micro-batch before are there
        already, beside the ones that the backward pass makes. Also where gradients are set to zero
        instead of None.
    timing : str or Rates
        ``"measured"``: ops are run. ``"roofline:NAME"``: nothing is run, and times are estimated from FLOPs,
        bytes and what a device can do at best; NAME is one of :data:`rematopt.profiler.DEVICES` (``a100``,
        ``h100``, ...), ``local`` for the device at hand, or a JSON file with the fields of
        :class:`rematopt.profiler.Rates`. Workspaces of ops are unknown then and count as 0.
    progress : callable, optional
        Called with the number of ops measured, their total and the name of the next one.

    Raises
    ------
    UnsupportedModelError
        If the call cannot be captured; the message names the construct and the way out.
    InvalidInputError
        If an argument cannot be used.

    Examples
    --------
    >>> import rematopt, rematopt.zoo
    >>> model, args, kwargs = rematopt.zoo.mlp(batch=64, width=32, depth=2)
    >>> profile = rematopt.profile(model, args, kwargs)
    >>> profile.save("mlp.profile.json")  # doctest: +SKIP
    """
    from rematopt import profiler

    return profiler.profile(
        model, args, kwargs, optimizer=optimizer, accumulate=accumulate, timing=timing, progress=progress
    )


def sizes_only() -> AbstractContextManager[None]:
    """Profile a model without its memory: tensors made inside have sizes but no contents.

    A profile made inside has the sizes, the structure and the fingerprint of one of the real model, so that a
    schedule solved from it applies there. Its times have to be estimated (``timing="roofline:..."``).

    Examples
    --------
    >>> import rematopt, rematopt.zoo
    >>> with rematopt.sizes_only():
    ...     model, args, kwargs = rematopt.zoo.mlp(batch=64, width=32, depth=2)
    ...     profile = rematopt.profile(model, args, kwargs, timing="roofline:h100")
    """
    from rematopt import profiler

    return profiler.sizes_only()


def apply(
    model: torch.nn.Module,
    schedule: Schedule,
    *,
    on_mismatch: OnMismatch = "replan",
    optimizer: torch.optim.Optimizer | None = None,
    debug: bool = False,
) -> Handle:
    """Make a model train by a schedule, in place.

    Class, parameters, state_dict keys and the training loop stay as they are. The numbers, too: loss,
    gradients, buffers and random state equal those of the plain model.

    Parameters
    ----------
    model : nn.Module
        The model that was profiled, or one built the same way.
    schedule : Schedule
        What :func:`rematopt.solve` returned.
    on_mismatch : {"replan", "plain", "error"}
        What to do with a call that the schedule was not made for (another batch size, say): plan it for
        the same limit (calls of the same form with smaller tensors run by the same steps), run it as
        the plain model does, with one warning, or raise.
    optimizer : Optimizer, optional
        Its state counts as static memory where a call is planned.
    debug : bool
        Compare every recomputed tensor with the one it replaces, at the cost of time, and raise
        :class:`rematopt.errors.RecomputationError` in the backward pass at the first difference.

    Returns
    -------
    Handle
        ``handle.remove()`` gives the plain model back.

    Raises
    ------
    ScheduleMismatchError
        If the schedule was made for a model with other parameters; when the model is called, if the
        call's graph is not the schedule's and ``on_mismatch`` is "error".

    Examples
    --------
    >>> import rematopt, rematopt.zoo
    >>> model, args, kwargs = rematopt.zoo.mlp(batch=64, width=32, depth=2)
    >>> schedule = rematopt.solve(rematopt.profile(model, args, kwargs), "min")
    >>> handle = rematopt.apply(model, schedule)
    >>> model(*args, **kwargs).backward()
    >>> handle.remove()
    """
    from rematopt import executor
    from rematopt.replan import Replan

    policy = Replan(model, schedule, optimizer=optimizer) if on_mismatch == "replan" else on_mismatch
    return executor.apply(model, schedule, on_mismatch=policy, debug=debug)


def optimize(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    memory_limit: int | float | str | None = None,
    activation_limit: int | float | str | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    strategy: str = "auto",
    time_limit: float = 60.0,
    gap: float = 0.01,
    on_mismatch: OnMismatch = "replan",
    cache: bool | str | os.PathLike[str] = True,
) -> Handle:
    """Profile, solve and apply in one call.

    The schedule is kept on disk and used again for the same graph, sizes, device, versions, limit and
    options; changes in any of them lead to a new one. Finding a stored one takes a few seconds.

    Parameters
    ----------
    model, args, kwargs, optimizer, accumulate
        As for :func:`profile`.
    memory_limit, activation_limit, strategy, time_limit, gap
        As for :func:`solve`.
    on_mismatch
        As for :func:`apply`.
    cache : bool or path
        True for ``$XDG_CACHE_HOME/rematopt`` (``~/.cache/rematopt``), a path for another folder, False
        to solve anew.

    Raises
    ------
    UnsupportedModelError
        If the call cannot be captured.
    InfeasibleLimitError
        If no schedule fits; the message gives the smallest feasible limit.

    Examples
    --------
    >>> import rematopt, rematopt.zoo
    >>> model, args, kwargs = rematopt.zoo.mlp(batch=64, width=32, depth=2)
    >>> handle = rematopt.optimize(model, args, kwargs, memory_limit="90%", cache=False)
    >>> model(*args, **kwargs).backward()
    """
    from rematopt import profiler
    from rematopt.device import describe
    from rematopt.model import device_of

    check_one_limit(memory_limit, activation_limit)
    graph = profiler.trace(model, args, kwargs, optimizer=optimizer, accumulate=accumulate)
    options = {"limit": memory_limit, "activations": activation_limit, "strategy": strategy}
    options |= {"time_limit": time_limit, "gap": gap, "optimizer_step": graph.optimizer_step_bytes}
    device = describe(device_of(model, args, kwargs or {}))
    key = cache_key(graph, device=device, versions=profiler.versions(), **options)

    def make() -> Schedule:
        measured = profile(model, args, kwargs, optimizer=optimizer, accumulate=accumulate)
        return solve(
            measured,
            memory_limit,
            activation_limit=activation_limit,
            strategy=strategy,
            time_limit=time_limit,
            gap=gap,
        )

    schedule = cached(_cache_folder(cache), key, make, fingerprint=graph.fingerprint)
    return apply(model, schedule, on_mismatch=on_mismatch, optimizer=optimizer)


def measure(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Callable[[Any], torch.Tensor] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    repeats: int = 5,
) -> Measurement:
    """Run training steps and return the real peak in bytes and the median time in seconds.

    The peak is that of forward, backward and the optimizer's step, the time that of forward and
    backward. Works on plain models and on those that a schedule was applied to. Parameters, gradients,
    buffers, the optimizer's state and the random state are left as they were.

    Parameters
    ----------
    model, args, kwargs
        What to call.
    loss : callable, optional
        From the model's output to the loss; by default the output itself, or its ``loss``.
    optimizer : Optimizer, optional
        Its state counts as static memory, its step as part of the step.
    accumulate : bool
        Whether gradients of a micro-batch before are there already.
    repeats : int
        Steps to time.
    """
    from rematopt import executor

    return executor.measure(model, args, kwargs, loss=loss, optimizer=optimizer, accumulate=accumulate, repeats=repeats)


def _cache_folder(cache: bool | str | os.PathLike[str]) -> Path | None:
    if isinstance(cache, bool):
        return default_folder() if cache else None
    return Path(cache)
