"""Compare ways to train in less memory, side by side and for real.

For each model and method: the measured peak, the measured time in turns with the plain model, the exact number of
operations run again, and whether gradients, buffers and random numbers are the plain model's. rematopt is asked
for schedules at the peaks that the other methods reach, so that times compare at equal memory. Run as
``python -m experiments.pareto gpt2 unet -o out``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import pandas as pd
import torch
import typer

import rematopt
from experiments.methods import BASELINES, PLAIN, planned
from experiments.networks import NETWORKS, Sizes
from experiments.plot_methods import plot_methods
from experiments.race import Race
from experiments.side_by_side import OURS, by_method, undominated_share, usable
from rematopt.artefacts import make_folder, write_atomically
from rematopt.console import exit_codes, note, percent, print_json, print_table
from rematopt.errors import InvalidInputError
from rematopt.plot_style import finish
from rematopt.profile import Profile
from rematopt.records import Record
from rematopt.solver.registry import STRATEGIES
from rematopt.training import Run, prepare, profile_run
from rematopt.units import SMALLEST, format_bytes
from rematopt.zoo import MODELS

DEFAULT_METHODS = tuple(name for name in BASELINES if name != "inductor budget")
HEURISTICS = ("chen-sqrt", "chen-greedy", "revolve", "chain", "lp-rounding")
NEAR = 0.01
"""Peaks that lie closer together, as a share, get one limit."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to run the experiment.

    Parameters
    ----------
    methods, strategies : tuple of str
        Names of PyTorch's methods and of rematopt's other strategies.
    rounds : int
        Timed steps of each.
    limits : int
        Memory limits for which schedules are made; the other strategies get one of them.
    time_limit : float
        Seconds for each solve.
    device : str
        Where to run.
    seed : int
        Seed of the step whose numbers are compared.
    """

    methods: tuple[str, ...] = DEFAULT_METHODS
    strategies: tuple[str, ...] = HEURISTICS
    rounds: int = 7
    limits: int = 5
    time_limit: float = 6.0
    device: str = "cpu"
    seed: int = 0


SETTINGS = Settings()


def side_by_side(name: str, sizes: Sizes, settings: Settings = SETTINGS) -> list[Record]:
    """Race all methods on one model of the zoo and return a record a method and setting."""
    torch.compiler.reset()

    def make() -> Run:
        return prepare(f"zoo:{name}", sizes, optimizer="none", device=settings.device)

    race = Race(make, seed=settings.seed)
    race.enter([PLAIN, *(BASELINES[method] for method in settings.methods)], label=f"{name}: baselines")
    profile = profile_run(make())
    wanted = _limits(race, profile, settings)
    ours = planned(OURS, profile, wanted, time_limit=settings.time_limit)
    few = wanted[len(wanted) // 2 :][:1]
    others = [planned(strategy, profile, few, time_limit=settings.time_limit) for strategy in settings.strategies]
    race.enter([ours, *others], label=f"{name}: schedules")
    race.time(settings.rounds, label=f"{name}: timing")
    shared = {"device": profile.device, "versions": profile.versions, "seed": settings.seed, "sizes": sizes}
    return [{"model": name, **record, **shared} for record in race.records()]


def _limits(race: Race, profile: Profile, settings: Settings) -> list[int]:
    """The smallest limit and those peaks of the other methods that a schedule can be asked for, thinned out."""
    smallest = rematopt.solve(profile, SMALLEST, time_limit=settings.time_limit).peak_bytes
    distinct = [smallest]
    for peak in sorted(race.peaks):
        if peak > distinct[-1] * (1 + NEAR):
            distinct.append(peak)
    if len(distinct) <= settings.limits:
        return distinct
    gaps = max(1, settings.limits - 1)
    return sorted({distinct[round(k * (len(distinct) - 1) / gaps)] for k in range(settings.limits)})


def write(records: Sequence[Record], folder: Path) -> None:
    """Write ``rows.csv``, ``rows.json`` and a figure a model, by time and by operations."""
    frame = pd.DataFrame(records).drop(columns=["versions", "sizes"])
    write_atomically(folder / "rows.csv", frame.to_csv(index=False).encode())
    write_atomically(folder / "rows.json", msgspec.json.format(msgspec.json.encode(records)) + b"\n")
    for model in dict.fromkeys(record["model"] for record in records):
        own = [record for record in records if record["model"] == model]
        finish(plot_methods(own, title=f"{model}: memory against time"), folder / f"{model}.png")
        axes = plot_methods(own, value="recomputed_flops", title=f"{model}: memory against operations run again")
        finish(axes, folder / f"{model}-flops.png")


def rows(records: Iterable[Record]) -> list[dict[str, str]]:
    """Return the records as people read them."""
    return [
        {
            "model": record["model"],
            "method": record["method"],
            "setting": format_bytes(record["limit_bytes"]) if record["limit_bytes"] else record["setting"],
            "peak": format_bytes(record["measured_peak_bytes"]),
            "activations": format_bytes(record["activation_bytes"]),
            "time": f"{record['measured_ratio']:.3f}",
            "spread": f"{record['ratio_low']:.3f} to {record['ratio_high']:.3f}",
            "run again": percent(record["recomputed_flops"] / max(1, record["step_flops"])),
            "gradients": record["gradients"],
            "state": "identical" if record["state_identical"] else "changed",
        }
        for record in records
        if not record["error"]
    ]


def summary_rows(records: Iterable[Record]) -> list[dict[str, str]]:
    """Return a row a method: what rematopt takes beside it, over all models."""

    def times(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    return [
        {
            "method": entry["method"],
            "models": str(entry["models"]),
            "settings": str(entry["settings"]),
            "wrong gradients": str(entry["wrong"]),
            "changed state": str(entry["state_changed"]),
            "time at equal peak": times(entry["time_ratio"]),
            "peak at equal time": times(entry["peak_ratio"]),
            "run again": percent(entry["recomputed"]),
            "run again by rematopt": percent(entry["recomputed_ours"]),
            "not dominated": str(entry["undominated"]),
        }
        for entry in by_method(records)
    ]


def conclusion(records: Sequence[Record]) -> str:
    """Return in one line how many of our settings no other method dominates."""
    by_time, by_flops = undominated_share(records), undominated_share(records, "recomputed_flops")
    count = sum(record["method"] == OURS for record in usable(records))
    return (
        f"rematopt is dominated by no other method in {percent(by_time, digits=0)} of {count} settings by time, "
        f"in {percent(by_flops, digits=0)} by operations"
    )


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names of the zoo; by default eleven of them.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for rows and figures.")] = None,
    methods: Annotated[str, typer.Option(help=f"Of {', '.join(BASELINES)}.")] = ",".join(DEFAULT_METHODS),
    strategies: Annotated[str, typer.Option(help="Other strategies to replay, e.g. milp.")] = ",".join(HEURISTICS),
    rounds: Annotated[int, typer.Option(min=1, help="Timed steps of each.")] = SETTINGS.rounds,
    limits: Annotated[int, typer.Option(min=1, help="Limits for which schedules are made.")] = SETTINGS.limits,
    time_limit: Annotated[float, typer.Option(help="Seconds for each solve.")] = SETTINGS.time_limit,
    device: Annotated[str, typer.Option(help="Where to run, e.g. cuda.")] = SETTINGS.device,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare ways to train in less memory on models of the zoo."""
    names = _known(",".join(models or NETWORKS), MODELS)
    settings = Settings(
        methods=_known(methods, BASELINES),
        strategies=_known(strategies, STRATEGIES),
        rounds=rounds,
        limits=limits,
        time_limit=time_limit,
        device=device,
    )
    folder = None if output is None else make_folder(output)
    records: list[Record] = []
    for i, name in enumerate(names):
        note(f"{i + 1}/{len(names)}  {name}")
        records += side_by_side(name, NETWORKS.get(name, {}), settings)
        if folder is not None:
            write(records, folder)
    for record in records:
        if record["error"]:
            note(f"{record['model']}: {record['method']} {record['setting']} did not run: {record['error']}")
    if json:
        print_json(records)
        return
    print_table("Methods side by side; times as multiples of the plain step", rows(records))
    print_table("\nrematopt beside each method, medians over its settings", summary_rows(records))
    print(conclusion(records))


def _known(names: str, known: Iterable[str]) -> tuple[str, ...]:
    found = tuple(name for name in names.split(",") if name)
    if unknown := [name for name in found if name not in known]:
        raise InvalidInputError(f"{unknown[0]!r} is unknown; expected some of {', '.join(known)}")
    return found


if __name__ == "__main__":
    with exit_codes():
        typer.run(main)
