"""Profile a model again and again: no size may change, and times should not by much.

Run as ``python -m experiments.repeat``.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from rematopt.console import exit_codes, note, percent, print_json, print_table
from rematopt.graph import Graph
from rematopt.training import prepare, profile_run
from rematopt.units import format_seconds

LONG_SECONDS = 50e-6
"""Ops that take less are left out of the comparison of times: a clock tick is a large part of them."""


def repeat(name: str, sizes: dict[str, Any], profiles: int) -> dict[str, Any]:
    """Return how far profiles of one model differ from their first one."""
    graphs = [profile_run(prepare(f"zoo:{name}", sizes)).graph for _ in range(profiles)]
    changes = [abs(change) for other in graphs[1:] for change in time_changes(graphs[0], other)]
    return {
        "model": name,
        "profiles": profiles,
        "step_seconds": [graph.seconds for graph in graphs],
        "sizes_changed": sum(sizes_changed(graphs[0], other) for other in graphs[1:]),
        "long_ops": len(changes) // max(1, profiles - 1),
        "median_change": statistics.median(changes) if changes else 0.0,
        "worst_change": max(changes, default=0.0),
    }


def sizes_changed(first: Graph, other: Graph) -> int:
    """Number of data and workspaces whose size differs."""
    data = sum(a != b for a, b in zip(first.data, other.data, strict=True))
    return data + sum(a.workspace_bytes != b.workspace_bytes for a, b in zip(first.ops, other.ops, strict=True))


def time_changes(first: Graph, other: Graph) -> list[float]:
    """Relative change of the time of each long op."""
    pairs = zip(first.ops, other.ops, strict=True)
    return [b.seconds / a.seconds - 1 for a, b in pairs if a.seconds > LONG_SECONDS]


def main(
    models: Annotated[str, typer.Option(help="Names of the zoo, separated by commas.")] = "mlp,resnet50,unet,gpt2",
    profiles: Annotated[int, typer.Option(min=2, help="Profiles of each.")] = 3,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Profile models repeatedly and show what changes."""
    records = []
    for name in models.split(","):
        note(f"{name} ...")
        records.append(repeat(name, {}, profiles))
    if json:
        print_json(records)
    else:
        print_table(f"{profiles} profiles of each model, compared with the first", [_row(r) for r in records])


def _row(record: dict[str, Any]) -> dict[str, str]:
    times: Sequence[float] = record["step_seconds"]
    return {
        "model": record["model"],
        "sizes changed": str(record["sizes_changed"]),
        "step": f"{format_seconds(min(times))} to {format_seconds(max(times))}",
        "ops above 50 us": str(record["long_ops"]),
        "change in the median": percent(record["median_change"]),
        "at worst": percent(record["worst_change"]),
    }


if __name__ == "__main__":
    with exit_codes():
        typer.run(main)
