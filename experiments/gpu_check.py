"""Check a GPU: predictions, numbers and times of the zoo there, as far as a few minutes allow.

For each model: a profile, schedules at the unplanned peak, halfway down and at the smallest limit, each
trained for real beside the unplanned step; numbers compared bit by bit; the reserved peak beside the
replay of the allocator. Run as ``python -m experiments.gpu_check -o DIR``; with ``--device cpu --small``
it is rehearsed on a machine without a GPU.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pandas as pd
import torch
import typer

import rematopt
from experiments.autocast import CASTS, Autocast
from experiments.networks import LARGE, SMALL
from experiments.numbers import numbers_by, same
from experiments.steps import seconds_of_step
from rematopt.artefacts import make_folder, write_atomically
from rematopt.comparison import Comparison
from rematopt.console import exit_codes, note, percent, print_facts, print_json, print_table
from rematopt.errors import InvalidInputError
from rematopt.front import pareto
from rematopt.profile import Profile
from rematopt.reserved import reserved_of
from rematopt.schedule import Schedule
from rematopt.training import Run, prepare, profile_run, unplanned_schedule
from rematopt.turns import compare
from rematopt.units import format_bytes, format_seconds
from rematopt.zoo import MODELS

LIMITS = ("100%", "min+50%", "min")

ORDER = ("gpt2", "resnet50", "gpt2:bf16", "unet", "mlp", "llama", "vit")
"""Models, the most telling first."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to check.

    Parameters
    ----------
    device : str
        Where to run.
    small : bool
        Whether to take the sizes of a rehearsal.
    steps : int
        Steps that each run trains.
    time_limit : float
        Seconds for each solve.
    minutes : float
        No model is begun that is not expected to end within them.
    """

    device: str = "cuda"
    small: bool = False
    steps: int = 6
    time_limit: float = 5.0
    minutes: float = 5.0


def check_device(name: str) -> None:
    """Make sure that the device is there.

    Raises
    ------
    InvalidInputError
        If it is not.
    """
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InvalidInputError("this machine has no CUDA device; rehearse with --device cpu --small")


def make_run(name: str, settings: Settings) -> Run:
    """Build the model ``name`` of the zoo, or ``name:bf16`` under autocast, on the device."""
    base, _, cast = name.partition(":")
    sizes = (SMALL if settings.small else LARGE).get(base, {})
    run = prepare(f"zoo:{base}", sizes, optimizer="none", device=settings.device)
    dtype = CASTS[cast]
    if dtype is None:
        return run
    model = Autocast(run.model, dtype)
    return Run(model=model, optimizer=None, calls=run.calls, example=run.example)


def check(name: str, settings: Settings) -> list[dict[str, Any]]:
    """Return a record for each limit of one model, by falling limit."""

    def make() -> Run:
        return make_run(name, settings)

    started = time.perf_counter()
    profile = profile_run(make())
    profile_seconds = time.perf_counter() - started
    schedules = pareto(profile, LIMITS, time_limit=settings.time_limit, progress=False).schedules[::-1]
    runs = compare(make, [unplanned_schedule(make()), *schedules], steps=settings.steps)[1:]
    wanted = _step_on_cpu(make(), "same kernels")
    records = []
    for schedule, run in zip(schedules, runs, strict=True):
        record = _record(name, profile, schedule, run)
        record["identical"] = same(_step_on_cpu(make(), schedule), wanted)
        record["measured_reserved_bytes"] = measured_reserved(make, schedule, settings.device)
        records.append(record | {"profile_seconds": profile_seconds})
    return records


def _step_on_cpu(run: Run, how: Schedule | str) -> list[torch.Tensor]:
    """What one step computes, kept where it takes no memory of the GPU."""
    return [tensor.cpu() for tensor in numbers_by(run, how, 0).tensors]


def measured_reserved(make: Callable[[], Run], schedule: Schedule, device: str) -> int | None:
    """Bytes that the allocator reserves for a model and its step by a schedule; None where there is no such counter.

    The model is built anew with an empty cache, and nothing else of this check is on the device then.
    """
    if not device.startswith("cuda"):
        return None
    torch.compiler.reset()  # compiled calls hold on to their models
    before = _reserved_without_cache(device)
    run = make()
    rematopt.apply(run.model, schedule, on_mismatch="error")
    seconds_of_step(run)
    _reserved_without_cache(device)
    torch.cuda.reset_peak_memory_stats(device)
    seconds_of_step(run)
    return torch.cuda.max_memory_reserved(device) - before


def _reserved_without_cache(device: str) -> int:
    gc.collect()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(device)


def _record(name: str, profile: Profile, schedule: Schedule, run: Comparison) -> dict[str, Any]:
    reserved = reserved_of(profile.graph, schedule.steps)
    return {
        "model": name,
        "limit_bytes": schedule.limit_bytes,
        "unplanned_peak_bytes": schedule.unplanned_peak_bytes,
        "predicted_peak_bytes": run.predicted_peak_bytes,
        "measured_peak_bytes": run.measured_peak_bytes,
        "predicted_reserved_bytes": reserved.reserved_bytes,
        "predicted_ratio": run.predicted_ratio,
        "measured_ratio": run.measured_ratio,
        "unplanned_seconds": schedule.unplanned_seconds,
        "gap": schedule.gap,
        "device": profile.device,
        "versions": profile.versions,
    }


def records_of(names: Sequence[str], settings: Settings) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of a model after the other while the minutes last; lines on stderr say which."""
    started, longest = time.perf_counter(), 0.0
    for name in names:
        begun = time.perf_counter()
        if begun - started + longest > 60 * settings.minutes:
            note(f"{name}: left out, the {settings.minutes:g} minutes are used up")
            continue
        note(f"{name} ...")
        torch.compiler.reset()
        yield check(name, settings)
        longest = max(longest, time.perf_counter() - begun)


def main(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for gpu_check.json and gpu_check.csv.")],
    models: Annotated[
        str, typer.Option(help="Names, separated by commas; NAME:bf16 or NAME:fp16 for autocast.")
    ] = ",".join(ORDER),
    device: Annotated[str, typer.Option(help="Where to run; cpu to rehearse.")] = "cuda",
    small: Annotated[bool, typer.Option("--small", help="Tiny sizes.")] = False,
    steps: Annotated[int, typer.Option(min=2, help="Training steps of each run.")] = 6,
    time_limit: Annotated[float, typer.Option(help="Seconds for each solve.")] = 5.0,
    minutes: Annotated[float, typer.Option(help="Begin no model that would not end within them.")] = 5.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check predictions, numbers and times on a GPU; exit code 1 if a limit is broken or numbers differ."""
    check_device(device)
    names = _known(models.split(","))
    folder = make_folder(output)
    settings = Settings(device=device, small=small, steps=steps, time_limit=time_limit, minutes=minutes)
    records = [record for found in records_of(names, settings) for record in found]
    write_atomically(folder / "gpu_check.json", msgspec.json.encode(records) + b"\n")
    write_atomically(folder / "gpu_check.csv", pd.DataFrame(records).to_csv(index=False).encode())
    if json:
        print_json(records)
    else:
        print_table("Predicted and measured; times as multiples of the unplanned step", [_row(r) for r in records])
        print_facts("", {"files": f"{folder}/gpu_check.json, {folder}/gpu_check.csv"})
    if not all(record["identical"] and record["measured_peak_bytes"] <= record["limit_bytes"] for record in records):
        raise typer.Exit(1)


def _known(names: list[str]) -> list[str]:
    for name in names:
        base, _, cast = name.partition(":")
        if base not in MODELS or cast not in CASTS:
            raise InvalidInputError(
                f"{name!r} is unknown; expected one of {', '.join(MODELS)}, for autocast with :bf16 or :fp16 behind it"
            )
    return names


def _row(record: dict[str, Any]) -> dict[str, str]:
    reserved = record["measured_reserved_bytes"]
    return {
        "model": record["model"],
        "limit": format_bytes(record["limit_bytes"]),
        "predicted": format_bytes(record["predicted_peak_bytes"]),
        "measured": format_bytes(record["measured_peak_bytes"]),
        "off by": percent(record["measured_peak_bytes"] / record["predicted_peak_bytes"] - 1, sign=True),
        "reserved": "-" if reserved is None else format_bytes(reserved),
        "predicted reserved": format_bytes(record["predicted_reserved_bytes"]),
        "predicted time": f"{record['predicted_ratio']:.3f}",
        "measured time": f"{record['measured_ratio']:.3f}",
        "step": format_seconds(record["unplanned_seconds"]),
        "identical": "yes" if record["identical"] else "NO",
    }


if __name__ == "__main__":
    with exit_codes():
        typer.run(main)
