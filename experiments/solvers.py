"""Compare the solver's strategies on graphs: published instances, or profiles of one's own.

Each JSON file of a folder is a rematopt profile or graph, or a graph that
:func:`rematopt.solver.importing.import_graph` reads. Run as ``python -m experiments.solvers --graphs DIR``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rematopt.artefacts import load_any
from rematopt.console import exit_codes, note, percent, print_json, print_table
from rematopt.errors import ArtefactError, InvalidInputError
from rematopt.graph import Graph
from rematopt.profile import Profile
from rematopt.records import infeasible_record, solve_record
from rematopt.solver.importing import import_graph
from rematopt.solver.problem import Problem
from rematopt.solver.registry import STRATEGIES, Options, create
from rematopt.solver.result import unplanned
from rematopt.solver.smallest import smallest_peak

CASES: dict[str, tuple[float, ...]] = {
    "vgg16": (0.9, 0.85),
    "vgg19": (0.9, 0.8),
    "fcn8": (0.9, 0.8),
    "unet": (0.9, 0.8, 0.7, 0.6, 0.5),
    "segnet": (0.8, 0.6),
    "mobilenet": (0.7, 0.5),
    "resnet50": (0.9, 0.8),
    "rl1": (0.9, 0.8),
    "rl2": (0.9, 0.8),
    "rl3": (0.8,),
    "rl4": (0.8,),
}
"""Limits of the published instances, as shares of their unplanned peaks."""

OTHER_SHARES = (0.8, 0.6, 0.4, 0.2)
"""Limits of all other graphs, as shares of the way from the smallest peak found to the unplanned peak."""


def read(path: Path) -> Graph:
    """Read a graph from any of the files that this experiment takes."""
    try:
        artefact = load_any(path)
    except ArtefactError:
        return import_graph(path)
    if isinstance(artefact, Profile):
        return artefact.graph
    if isinstance(artefact, Graph):
        return artefact
    raise ArtefactError(f"{path} is a rematopt {type(artefact).__name__.lower()}; expected a profile or a graph")


def limits(name: str, graph: Graph, time_limit: float) -> dict[float, int]:
    """The limits of a graph: for each share the bytes."""
    peak = unplanned(graph).peak_bytes
    if name in CASES:
        return {share: math.ceil(share * peak) for share in CASES[name]}
    smallest = smallest_peak(graph, time_limit).peak_bytes
    return {share: smallest + int(share * (peak - smallest)) for share in OTHER_SHARES}


def solved(
    name: str, graph: Graph, limit: tuple[float, int], strategy: str, options: Options, time_limit: float
) -> dict[str, Any]:
    """Return the record of one strategy at one limit."""
    share, limit_bytes = limit
    started = time.perf_counter()
    result = create(strategy, options).solve(Problem(graph=graph, limit_bytes=limit_bytes), time_limit)
    seconds = time.perf_counter() - started
    if result.schedule is None:
        found = infeasible_record(graph, limit_bytes, None)
    else:
        # What the caller waited for counts, and who was asked.
        found = solve_record(replace(result.schedule, solve_seconds=seconds))
    record = {"graph": name, "ops": len(graph.ops), "limit": share, **found}
    return record | {"strategy": strategy, "status": str(result.status), "solve_seconds": seconds}


def records_of(
    paths: list[Path], strategies: list[str], options: Options, time_limit: float
) -> Iterator[dict[str, Any]]:
    """Yield a record a graph, limit and strategy; a line on stderr says what was just found."""
    for path in paths:
        try:
            graph = read(path)
        except ArtefactError as error:
            note(f"left out: {error}")
            continue
        for limit in limits(path.stem, graph, time_limit).items():
            for strategy in strategies:
                record = solved(path.stem, graph, limit, strategy, options, time_limit)
                note("  ".join(_row(record).values()))
                yield record


def main(
    graphs: Annotated[Path, typer.Option(help="Folder of JSON files.")],
    only: Annotated[str, typer.Option(help="Names of files, separated by commas; all known cases if not given.")] = "",
    strategies: Annotated[str, typer.Option(help="Strategies, separated by commas.")] = "auto",
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds for each solve.")] = 60.0,
    gap: Annotated[float, typer.Option(min=0.0, help="Gap that is good enough; 0 asks for a proof.")] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare the solver's strategies on graphs: published instances, or profiles of one's own."""
    names = strategies.split(",")
    if unknown := [name for name in names if name not in STRATEGIES]:
        raise InvalidInputError(f"there is no strategy {unknown[0]!r}; choose from {', '.join(STRATEGIES)}")
    records = list(records_of(_files(graphs, only), names, Options(gap=gap), time_limit))
    if json:
        print_json(records)
        return
    print_table("Strategies; overhead, bound and gap in percent of the step", [_row(record) for record in records])


def _files(folder: Path, only: str) -> list[Path]:
    if not folder.is_dir():
        raise InvalidInputError(f"--graphs {folder} is no folder; name one that holds JSON files")
    if only:
        paths = [folder / f"{name}.json" for name in only.split(",")]
    else:
        known = [folder / f"{name}.json" for name in CASES if (folder / f"{name}.json").exists()]
        paths = known or sorted(folder.glob("*.json"))
    if not paths:
        raise InvalidInputError(f"--graphs {folder} holds no JSON files")
    return paths


def _row(record: dict[str, Any]) -> dict[str, str]:
    plain, bound = record["unplanned_seconds"], record["bound_seconds"]
    peak = record["peak_bytes"]
    return {
        "graph": record["graph"],
        "ops": str(record["ops"]),
        "limit": f"{record['limit']:.2f}",
        "strategy": record["strategy"],
        "overhead": percent(record["overhead"], digits=3),
        "bound": percent(bound / plain - 1 if bound is not None and plain else None, digits=3),
        "gap": percent(record["gap"], digits=3),
        "seconds": f"{record['solve_seconds']:.1f}",
        "peak": "-" if peak is None else f"{peak / record['unplanned_peak_bytes']:.3f}",
        "status": record["status"],
    }


if __name__ == "__main__":
    with exit_codes():
        typer.run(main)
