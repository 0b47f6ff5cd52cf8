"""The largest batch that trains inside a memory limit.

Bisection on profiles without memory: they have the exact sizes of a batch, and nothing is run. What is found there is
then profiled on the device, where workspaces count, too, and its schedule runs a real step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from rematopt import api
from rematopt.console import percent
from rematopt.errors import InvalidInputError, UnsupportedModelError
from rematopt.factory import find_factory
from rematopt.graph import Graph, Phase
from rematopt.profile import Profile
from rematopt.profiler.roofline import local_rates
from rematopt.schedule import Schedule
from rematopt.simulator import simulate
from rematopt.solver.bounds import peak_floor
from rematopt.solver.problem import Problem
from rematopt.solver.registry import Options, create
from rematopt.solver.result import unplanned
from rematopt.training import Run, prepare, profile_run, usable

FIRST = 8
"""Batch that is tried first where the factory names none."""

MOST = 2**20
"""No larger batch is tried."""

RESOLUTION = 64
"""Batches are told apart to one part in so many."""

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked: a model, a limit, and what it may cost.

    Parameters
    ----------
    factory : str
        As for :func:`rematopt.factory.make_example`; it takes the batch as ``batch``.
    sizes : mapping
        Its other arguments.
    limit_bytes : int
        Limit on the peak of the whole step.
    max_overhead : float or None
        Extra time that is allowed, as a share of the step; None for the time of one more forward pass.
    optimizer, device : str
        As for :func:`rematopt.training.prepare`.
    time_limit : float
        Seconds for each solve.
    """

    factory: str
    sizes: Mapping[str, Any]
    limit_bytes: int
    max_overhead: float | None = None
    optimizer: str = "adamw"
    device: str = "cpu"
    time_limit: float = 10.0

    def __post_init__(self) -> None:
        if "batch" in self.sizes:
            raise InvalidInputError("batch is what is searched for; leave --set batch=... out")
        if "batch" not in inspect.signature(find_factory(self.factory)).parameters:
            raise InvalidInputError(f"factory {self.factory} takes no argument named batch; give it one")

    @property
    def first(self) -> int:
        """The batch to try first."""
        default = inspect.signature(find_factory(self.factory)).parameters["batch"].default
        return default if isinstance(default, int) else FIRST


@dataclass(frozen=True, kw_only=True)
class Largest:
    """The largest batch that a strategy fits into the limit.

    Parameters
    ----------
    strategy : str
        Who solved.
    batch : int
        0 if not even a batch of one fits.
    schedule : Schedule or None
        For that batch.
    measured_peak_bytes : int or None
        Peak of a real step by that schedule; None if no step was run.
    """

    strategy: str
    batch: int
    schedule: Schedule | None = None
    measured_peak_bytes: int | None = None


class Search:
    """Looks for the largest batch; profiles are kept for the next strategy.

    Parameters
    ----------
    question : Question
        What is asked.
    report : callable, optional
        Is told in a line what was found for each batch.

    Raises
    ------
    InvalidInputError
        If the device cannot be used.
    """

    def __init__(self, question: Question, report: Report = lambda _: None) -> None:
        self.question = question
        self._report = report
        self._profiles: dict[tuple[int, bool], Profile] = {}
        # Measured once: two batches compare only by the same rates.
        with usable(question.device):
            self._rates = local_rates(torch.device(question.device), {"bfloat16"}, question.device)
        self._schedules: dict[tuple[int, str, bool], Schedule | None] = {}

    def largest(self, strategy: str, *, verify: bool = True) -> Largest:
        """Return the largest batch that ``strategy`` fits into the limit.

        Parameters
        ----------
        strategy : str
            Name of a strategy; ``store-all`` is the unplanned step.
        verify : bool
            Whether the batch is profiled on the device and a step of it is run.
        """
        question = self.question
        batch = largest_true(lambda b: self._schedule(b, strategy, real=False) is not None, question.first)
        if not verify or batch == 0:
            return Largest(
                strategy=strategy, batch=batch, schedule=self._schedule(batch, strategy, real=False) if batch else None
            )
        # Workspaces only add to what the estimate says, so that no larger batch is worth a try.
        guess = self._guess(batch, strategy)
        batch = largest_true(lambda b: self._schedule(b, strategy, real=True) is not None, guess, most=batch)
        schedule = self._schedule(batch, strategy, real=True) if batch else None
        if schedule is None:
            return Largest(strategy=strategy, batch=0)
        peak = self._measured_peak(batch, schedule)
        return Largest(strategy=strategy, batch=batch, schedule=schedule, measured_peak_bytes=peak)

    def _guess(self, batch: int, strategy: str) -> int:
        """Shrink a batch by what its schedule takes too much where workspaces count."""
        schedule = self._schedule(batch, strategy, real=False)
        graph = self.profile(batch, real=True).graph
        assert schedule is not None
        peak = simulate(graph, schedule.steps).peak_bytes
        room = self.question.limit_bytes - graph.static.total
        return min(batch, max(1, int(batch * room / max(1, peak - graph.static.total))))

    def profile(self, batch: int, *, real: bool) -> Profile:
        """Profile a batch: on the device, or by its sizes only."""
        key = batch, real
        if key not in self._profiles:
            if real:
                self._profiles[key] = profile_run(self._prepare(batch))
            else:
                with api.sizes_only():
                    self._profiles[key] = profile_run(self._prepare(batch), self._rates)
        return self._profiles[key]

    def _prepare(self, batch: int) -> Run:
        question = self.question
        sizes = {**question.sizes, "batch": batch}
        return prepare(question.factory, sizes, optimizer=question.optimizer, device=question.device)

    def _schedule(self, batch: int, strategy: str, *, real: bool) -> Schedule | None:
        """Return a schedule that keeps the limit and costs no more than allowed, or None."""
        key = batch, strategy, real
        if key not in self._schedules:
            found = self._schedules[key] = self._solved(batch, strategy, real=real)
            kind = "measured" if real else "by sizes"
            said = f"fits, {percent(found.overhead, sign=True)} time" if found else "does not fit"
            self._report(f"batch {batch} ({kind}, {strategy}): {said}")
        return self._schedules[key]

    def _solved(self, batch: int, strategy: str, *, real: bool) -> Schedule | None:
        try:
            graph = self.profile(batch, real=real).graph
        except UnsupportedModelError:
            if batch > 1:
                raise
            return None  # batch normalization refuses a single row
        found = _solve(graph, self.question, strategy)
        return found if found and found.overhead <= _allowed(graph, self.question.max_overhead) else None

    def _measured_peak(self, batch: int, schedule: Schedule) -> int:
        run = self._prepare(batch)
        args, kwargs = run.example
        api.apply(run.model, schedule, on_mismatch="error")
        return api.measure(run.model, args, kwargs, optimizer=run.optimizer, repeats=1).peak_bytes


def _allowed(graph: Graph, max_overhead: float | None) -> float:
    if max_overhead is not None:
        return max_overhead
    forward = sum(op.seconds for op in graph.ops if op.phase is Phase.FORWARD)
    return forward / graph.seconds if graph.seconds else 0.0


def _solve(graph: Graph, question: Question, strategy: str) -> Schedule | None:
    problem = Problem(graph=graph, limit_bytes=question.limit_bytes)
    if peak_floor(graph).bytes > question.limit_bytes:
        return None
    if unplanned(graph).peak_bytes <= question.limit_bytes:
        strategy = "store-all"
    return create(strategy, Options(gap=0.01)).solve(problem, question.time_limit).schedule


def largest_true(holds: Callable[[int], bool], first: int, *, most: int = MOST) -> int:
    """Return the largest number from 1 to ``most`` for which ``holds``, which it does up to some number.

    From :data:`RESOLUTION` on the result may be too small by one part in so many.

    Parameters
    ----------
    holds : callable
        Asked for about two times the logarithm of the result.
    first : int
        Asked first; from there the search doubles upwards, or goes down in doubling steps.
    most : int
        No larger number is asked for.

    Returns
    -------
    int
        0 if it holds for none.
    """
    low, high = 0, most + 1
    at = min(max(1, first), most)
    step = max(1, at // 16)
    while high - low > max(1, low // RESOLUTION):
        if holds(at):
            low = at
        else:
            high = at
        if high > most:
            at = min(2 * low, most)
        elif low:
            at = (low + high) // 2
        else:
            at, step = max(1, high - step), 2 * step
    return low
