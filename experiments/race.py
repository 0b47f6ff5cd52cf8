"""Methods side by side on one model: real peak, real time in turns, exact FLOPs, numbers compared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import rematopt
from experiments.flops import flops_of
from experiments.methods import PLAIN, Method, Planned
from experiments.numbers import Numbers, gradient_error, numbers_of_step, same, verdict
from experiments.steps import seconds_of_step, step_of
from rematopt.executor import Measurement
from rematopt.progress import counted
from rematopt.records import Record
from rematopt.schedule import Schedule
from rematopt.training import Run


@dataclass(kw_only=True)
class Racer:
    """A model that was prepared by a method, and what was measured of it.

    Parameters
    ----------
    method, setting : str
        Who prepared it and how.
    run : Run
        The model and its arguments.
    numbers : Numbers
        Of its first step.
    flops : int
        Of a step.
    measured : Measurement
        Peak of a step.
    schedule : Schedule or None
        By which it runs.
    seconds : list of float
        Times of the steps in turns.
    """

    method: str
    setting: str
    run: Run
    numbers: Numbers
    flops: int
    measured: Measurement
    schedule: Schedule | None
    seconds: list[float] = field(default_factory=list)

    def time_step(self) -> None:
        """Run and time one more step."""
        self.seconds.append(seconds_of_step(self.run))


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A method that did not run."""

    method: str
    setting: str
    error: str


class Race:
    """Races methods on one model.

    Parameters
    ----------
    make : callable
        Builds a run; must build the same one each time.
    seed : int
        Seed of the step whose numbers are compared.
    """

    def __init__(self, make: Callable[[], Run], *, seed: int = 0) -> None:
        self._make = make
        self._seed = seed
        self.racers: list[Racer] = []
        self.failures: list[Failure] = []

    def enter(self, methods: Iterable[Method], *, label: str) -> None:
        """Prepare the model by each method at each setting and measure numbers, FLOPs and peak."""
        model = self._make().model
        entries = [(method, setting) for method in methods for setting in method.settings(model)]
        for method, setting in counted(entries, total=len(entries), label=label):
            try:
                self.racers.append(self._racer(method, setting))
            except Exception as error:  # whatever a method of others raises is a result, too
                first = (str(error).strip().splitlines() or [""])[0]
                failure = f"{type(error).__name__}: {first}"
                self.failures.append(Failure(method=method.name, setting=setting, error=failure))

    def _racer(self, method: Method, setting: str) -> Racer:
        run = self._make()
        method.prepare(run.model, setting)
        numbers = numbers_of_step(run, self._seed)
        run.model.zero_grad(set_to_none=True)
        flops = flops_of(step_of(run))
        args, kwargs = run.example
        return Racer(
            method=method.name,
            setting=setting,
            run=run,
            numbers=numbers,
            flops=flops,
            measured=rematopt.measure(run.model, args, kwargs, repeats=1),
            schedule=method.schedules[setting] if isinstance(method, Planned) else None,
        )

    def time(self, rounds: int, *, label: str) -> None:
        """Time all in turns, forth and back, so that a slow moment of the machine hits all of them."""
        for round_ in counted(range(rounds), total=rounds, label=label):
            for racer in self.racers[:: -1 if round_ % 2 else 1]:
                racer.time_step()

    @property
    def peaks(self) -> list[int]:
        """Measured peaks of what computes the right gradients."""
        return [r.measured.peak_bytes for r in self.racers if verdict(r.numbers, self._references) != "wrong"]

    @property
    def _references(self) -> list[Numbers]:
        return [racer.numbers for racer in self.racers if racer.method in (PLAIN.name, "aot_eager")]

    def records(self) -> Iterator[Record]:
        """Yield a record a method and setting; times refer to the plain model."""
        plain = next(racer for racer in self.racers if racer.method == PLAIN.name)
        for racer in self.racers:
            yield _record(racer, plain, self._references)
        for failure in self.failures:
            yield dict.fromkeys(_record(plain, plain, self._references)) | {
                "method": failure.method,
                "setting": failure.setting,
                "error": failure.error,
            }


def _record(racer: Racer, plain: Racer, references: Sequence[Numbers]) -> Record:
    low, ratio, high = _quartiles([own / other for own, other in zip(racer.seconds, plain.seconds, strict=True)])
    schedule = racer.schedule
    unplanned = schedule.unplanned_seconds if schedule else None
    return {
        "method": racer.method,
        "setting": racer.setting,
        "measured_peak_bytes": racer.measured.peak_bytes,
        "activation_bytes": racer.measured.peak_bytes - racer.measured.static.total,
        "measured_seconds": statistics.median(racer.seconds),
        "measured_ratio": ratio,
        "ratio_low": low,
        "ratio_high": high,
        "step_flops": plain.flops,
        "recomputed_flops": racer.flops - plain.flops,
        "gradients": verdict(racer.numbers, references),
        "gradient_error": min(gradient_error(racer.numbers, reference) for reference in references),
        "state_identical": any(same(racer.numbers.state, reference.state) for reference in references),
        "limit_bytes": schedule.limit_bytes if schedule else None,
        "predicted_peak_bytes": schedule.peak_bytes if schedule else None,
        "predicted_ratio": schedule.seconds / schedule.unplanned_seconds if schedule else None,
        "bound_ratio": schedule.bound_seconds / unplanned if schedule and unplanned else None,
        "error": None,
    }


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
