"""The largest batch inside a memory limit, for at most the time of one more forward pass.

The limit is what the unplanned step of a small batch needs. Beside ours stand the ratios that Checkmate (Jain et al.,
2020) published for its networks on a 16 GB GPU, with costs in operations; its MobileNet is the first version.
Run as ``python -m experiments.max_batch``.
"""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.networks import NETWORKS, Sizes
from experiments.side_by_side import OURS
from rematopt.console import exit_codes, note, print_json, print_table
from rematopt.errors import InvalidInputError
from rematopt.max_batch import Question, Search
from rematopt.records import Record
from rematopt.solver.result import unplanned
from rematopt.units import format_bytes

PLAIN = "store-all"
BASELINES = ("chen-sqrt", "chen-greedy", "revolve")

PUBLISHED: dict[str, tuple[float, float | None]] = {
    "mobilenet_v2": (5.1, 1.73),
    "unet": (61 / 16, None),
    "vgg19": (289 / 167, 289 / 266),
}
"""Checkmate's largest batch as a multiple of the plain one, and of the best baseline's where that is given."""


def largest_batches(name: str, sizes: Sizes, *, base: int, verify: bool, time_limit: float) -> Record:
    """Return the largest batch of each strategy at the memory that ``base`` takes without a plan."""
    sizes = {key: value for key, value in sizes.items() if key != "batch"}
    factory = f"zoo:{name}"
    sizing = Search(Question(factory=factory, sizes=sizes, limit_bytes=0, optimizer="none"))
    limit = unplanned(sizing.profile(base, real=verify).graph).peak_bytes
    question = Question(factory=factory, sizes=sizes, limit_bytes=limit, optimizer="none", time_limit=time_limit)
    search = Search(question, lambda line: note(f"  {line}"))
    found = {strategy: search.largest(strategy, verify=verify) for strategy in (PLAIN, *BASELINES, OURS)}
    best = max(BASELINES, key=lambda strategy: found[strategy].batch)
    published, over_baseline = PUBLISHED.get(name, (None, None))
    return {
        "model": name,
        "limit_bytes": limit,
        "batches": {strategy: largest.batch for strategy, largest in found.items()},
        "plain_batch": found[PLAIN].batch,
        "best_baseline": best,
        "best_baseline_batch": found[best].batch,
        "batch": found[OURS].batch,
        "measured_peak_bytes": found[OURS].measured_peak_bytes,
        "ratio": found[OURS].batch / max(1, found[PLAIN].batch),
        "ratio_to_baseline": found[OURS].batch / max(1, found[best].batch),
        "published_ratio": published,
        "published_ratio_to_baseline": over_baseline,
    }


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Names of the zoo; by default eleven of them.")] = None,
    base: Annotated[int, typer.Option(min=2, help="The limit is what this batch takes without a plan.")] = 8,
    verify: Annotated[bool, typer.Option(help="Profile each result on the device and run a step.")] = True,
    time_limit: Annotated[float, typer.Option(help="Seconds for each solve.")] = 5.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the largest batch inside a limit, by strategy."""
    names = models or list(NETWORKS)
    if unknown := [name for name in names if name not in NETWORKS]:
        raise InvalidInputError(f"{unknown[0]!r} is unknown; expected some of {', '.join(NETWORKS)}")
    records = []
    for i, name in enumerate(names):
        note(f"{i + 1}/{len(names)}  {name}")
        records.append(largest_batches(name, NETWORKS[name], base=base, verify=verify, time_limit=time_limit))
    if json:
        print_json(records)
        return
    print_table(
        "Largest batch at the memory of the plain one, for at most one more forward pass", list(map(row, records))
    )


def row(record: Record) -> dict[str, str]:
    """Return a record as people read it."""

    def times(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f} x"

    peak = record["measured_peak_bytes"]
    return {
        "model": record["model"],
        "limit": format_bytes(record["limit_bytes"]),
        "plain": str(record["plain_batch"]),
        "best baseline": f"{record['best_baseline_batch']} ({record['best_baseline']})",
        "rematopt": str(record["batch"]),
        "measured peak": "-" if peak is None else format_bytes(peak),
        "to plain": times(record["ratio"]),
        "Checkmate's": times(record["published_ratio"]),
        "to baseline": times(record["ratio_to_baseline"]),
        "Checkmate's to baseline": times(record["published_ratio_to_baseline"]),
    }


if __name__ == "__main__":
    with exit_codes():
        typer.run(main)
