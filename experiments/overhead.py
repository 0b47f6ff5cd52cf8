"""Measure what the executor itself costs.

The schedule that recomputes nothing against the same model under PyTorch's own ``aot_eager`` backend,
step by step in turns. Run as ``python -m experiments.overhead``.
"""

from __future__ import annotations

import statistics
from typing import Annotated, Any

import torch
import typer

import rematopt
from experiments.steps import seconds_of_step
from rematopt.console import exit_codes, note, percent, print_json, print_table
from rematopt.training import prepare, unplanned_schedule
from rematopt.units import format_seconds

WARM_UP = 2
"""Steps of each that are not timed."""


def overhead(name: str, sizes: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Return median step times of both and the median of their ratio, round by round."""
    planned, reference = prepare(f"zoo:{name}", sizes), prepare(f"zoo:{name}", sizes)
    rematopt.apply(planned.model, unplanned_schedule(planned), on_mismatch="error")
    reference.model.compile(backend="aot_eager", fullgraph=True, dynamic=False)
    times: list[list[float]] = []
    for round_ in range(WARM_UP + rounds):
        # Whoever runs second finds warmer caches, so the order alternates.
        pair = [seconds_of_step(run) for run in (planned, reference)[:: 1 if round_ % 2 else -1]]
        times.append(pair[:: 1 if round_ % 2 else -1])
    timed = times[WARM_UP:]
    return {
        "model": name,
        "rounds": rounds,
        "store_all_seconds": statistics.median(own for own, _ in timed),
        "aot_eager_seconds": statistics.median(other for _, other in timed),
        "overhead": statistics.median(own / other for own, other in timed) - 1,
    }


def main(
    models: Annotated[str, typer.Option(help="Names of the zoo, separated by commas.")] = "mlp,resnet50,unet,gpt2",
    rounds: Annotated[int, typer.Option(min=1, help="Timed steps of each.")] = 15,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time the schedule that recomputes nothing against PyTorch's aot_eager."""
    records = []
    for name in models.split(","):
        note(f"{name} ...")
        torch.compiler.reset()
        records.append(overhead(name, {}, rounds))
    if json:
        print_json(records)
        return
    rows = [
        {
            "model": record["model"],
            "store-all": format_seconds(record["store_all_seconds"]),
            "aot_eager": format_seconds(record["aot_eager_seconds"]),
            "overhead": percent(record["overhead"], sign=True),
        }
        for record in records
    ]
    print_table(f"One step, median of {rounds} in turns", rows)


if __name__ == "__main__":
    with exit_codes():
        typer.run(main)
