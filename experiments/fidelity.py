"""Compare prediction with measurement, and planned with plain numbers, over the zoo.

For each model of the zoo: schedules at 100, 75, 50, 25 and 0 % of the way from the smallest feasible limit to
the unplanned peak, each trained for real. Run as ``python -m experiments.fidelity``, with ``--optimizer adamw
--accumulate 2`` for the peak of whole training steps.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import rematopt
from experiments.numbers import numbers_by, same
from rematopt.artefacts import make_folder
from rematopt.comparison import Comparison
from rematopt.console import exit_codes, note, percent, print_facts, print_json, print_table
from rematopt.errors import InvalidInputError
from rematopt.front import pareto
from rematopt.profile import Profile
from rematopt.schedule import Schedule
from rematopt.training import Run, prepare, profile_run, unplanned_schedule
from rematopt.turns import compare
from rematopt.units import format_bytes
from rematopt.zoo import MODELS

SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Limits as shares of the way from the smallest feasible limit to the unplanned peak."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to run the experiment.

    Parameters
    ----------
    steps : int
        Steps that each run trains.
    time_limit : float
        Seconds for each solve.
    optimizer : str
        As for :func:`rematopt.training.prepare`.
    accumulate : int
        Micro-batches a step.
    seed : int
        Seed of the random numbers in training.
    folder : Path or None
        Where the schedules are kept.
    """

    steps: int = 6
    time_limit: float = 10.0
    optimizer: str = "none"
    accumulate: int = 1
    seed: int = 0
    folder: Path | None = None


SETTINGS = Settings()


def fidelity(name: str, sizes: dict[str, Any], settings: Settings = SETTINGS) -> list[dict[str, Any]]:
    """Return a record for each limit of one model, by falling limit."""

    def make() -> Run:
        return prepare(f"zoo:{name}", sizes, optimizer=settings.optimizer)

    profile = profile_run(make(), accumulate=settings.accumulate > 1)
    smallest = rematopt.solve(profile, "min", time_limit=settings.time_limit)
    room = smallest.unplanned_peak_bytes - smallest.peak_bytes
    limits = [smallest.peak_bytes + int(share * room) for share in SHARES]
    schedules = pareto(profile, limits, time_limit=settings.time_limit, progress=False).schedules[::-1]
    _, *runs = compare(
        make,
        [unplanned_schedule(make()), *schedules],
        steps=settings.steps,
        seed=settings.seed,
        micro_batches=settings.accumulate,
    )
    numbers = partial(numbers_by, seed=settings.seed, micro_batches=settings.accumulate)
    references = {kind: numbers(make(), kind).tensors for kind in ("plain", "same kernels")}
    records = []
    for schedule, run in zip(schedules, runs, strict=True):
        found = numbers(make(), schedule).tensors
        record = _record(name, schedule, run) | {"smallest_limit_bytes": smallest.peak_bytes}
        record["identical"] = same(found, references["same kernels"])
        record["identical_to_eager"] = same(found, references["plain"])
        records.append(record | _provenance(name, profile, schedule, settings))
    return records


def _record(name: str, schedule: Schedule, run: Comparison) -> dict[str, Any]:
    return {
        "model": name,
        "limit_bytes": schedule.limit_bytes,
        "unplanned_peak_bytes": schedule.unplanned_peak_bytes,
        "smallest_limit_bytes": None,
        "predicted_peak_bytes": run.predicted_peak_bytes,
        "measured_peak_bytes": run.measured_peak_bytes,
        "predicted_ratio": run.predicted_ratio,
        "measured_ratio": run.measured_ratio,
    }


def _provenance(name: str, profile: Profile, schedule: Schedule, settings: Settings) -> dict[str, Any]:
    path = None
    if settings.folder is not None:
        path = settings.folder / f"{name}-{schedule.limit_bytes}.json"
        schedule.save(path)
    return {
        "optimizer": settings.optimizer,
        "accumulate": settings.accumulate,
        "device": profile.device,
        "versions": profile.versions,
        "seed": settings.seed,
        "schedule": None if path is None else str(path),
    }


def records_of(names: list[str], sizes: dict[str, dict[str, Any]], settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the records of several models; a line on stderr says which one runs."""
    for name in names:
        note(f"{name} ...")
        yield from fidelity(name, sizes.get(name, {}), settings)


def main(
    models: Annotated[str, typer.Option(help="Names of the zoo, separated by commas.")] = ",".join(MODELS),
    steps: Annotated[int, typer.Option(min=2, help="Training steps of each run.")] = SETTINGS.steps,
    time_limit: Annotated[float, typer.Option(help="Seconds for each solve.")] = SETTINGS.time_limit,
    optimizer: Annotated[str, typer.Option(help="adamw, adam, sgd or none.")] = SETTINGS.optimizer,
    accumulate: Annotated[int, typer.Option(min=1, help="Micro-batches a step.")] = SETTINGS.accumulate,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the schedules.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare prediction with measurement, and planned with plain numbers, over the zoo."""
    names = models.split(",")
    if unknown := [name for name in names if name not in MODELS]:
        raise InvalidInputError(f"the zoo has no {unknown[0]!r}; it has {', '.join(MODELS)}")
    folder = None if output is None else make_folder(output)
    settings = Settings(steps=steps, time_limit=time_limit, optimizer=optimizer, accumulate=accumulate, folder=folder)
    records = list(records_of(names, {}, settings))
    if json:
        print_json(records)
        return
    print_table("Prediction and measurement; times as multiples of the unplanned step", [_row(r) for r in records])
    print_facts("", summary(records))


def summary(records: list[dict[str, Any]]) -> dict[str, str]:
    """Say in a few lines how far measurements are from predictions."""
    peaks = [r["measured_peak_bytes"] / r["predicted_peak_bytes"] - 1 for r in records]
    times = [r["measured_ratio"] / r["predicted_ratio"] - 1 for r in records]
    kept = sum(r["measured_peak_bytes"] <= r["limit_bytes"] for r in records)
    same = sum(r["identical"] for r in records)
    return {
        "peak off by": _spread(peaks),
        "time ratio off by": _spread(times),
        "limits kept": f"{kept} of {len(records)}",
        "numbers identical": f"{same} of {len(records)}",
    }


def _spread(errors: list[float]) -> str:
    median = statistics.median(map(abs, errors))
    return f"{percent(median, digits=2)} in the median, {percent(max(errors, key=abs), sign=True, digits=2)} at worst"


def _row(record: dict[str, Any]) -> dict[str, str]:
    predicted, measured = record["predicted_peak_bytes"], record["measured_peak_bytes"]
    return {
        "model": record["model"],
        "limit": format_bytes(record["limit_bytes"]),
        "predicted peak": format_bytes(predicted),
        "measured peak": format_bytes(measured),
        "off by": percent(measured / predicted - 1, sign=True),
        "kept": "yes" if measured <= record["limit_bytes"] else "NO",
        "predicted time": f"{record['predicted_ratio']:.3f}",
        "measured time": f"{record['measured_ratio']:.3f}",
        "identical": "yes" if record["identical"] else "NO",
        "to eager": "yes" if record["identical_to_eager"] else "no",
    }


if __name__ == "__main__":
    with exit_codes():
        typer.run(main)
