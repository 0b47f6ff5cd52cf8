"""The command line: ``rematopt profile``, ``solve``, ``train``, ``pareto``, ``inspect``, ``explain`` and others.

Exit codes: 0 done, 1 error, 2 wrong usage, 3 the memory limit is infeasible. Results go to stdout,
remarks and progress to stderr.
"""

from __future__ import annotations

import ast
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from rematopt import views
from rematopt.artefacts import check_target, load, load_any, save
from rematopt.console import exit_codes, note, print_json
from rematopt.errors import ArtefactError, InfeasibleLimitError, InvalidInputError
from rematopt.graph import Graph
from rematopt.profile import Profile
from rematopt.records import (
    comparison_record,
    front_records,
    graph_record,
    infeasible_record,
    max_batch_record,
    profile_record,
    solve_record,
)
from rematopt.schedule import Schedule
from rematopt.units import parse_bytes, parse_share

app = typer.Typer(
    help="Train a PyTorch model inside a memory limit at the least extra time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Factory = Annotated[str, typer.Argument(help="path.py:name, package.module:name or zoo:name")]
Problem = Annotated[Path, typer.Argument(help="A profile, or a graph that `rematopt import-graph` wrote.")]
Sizes = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A size for the factory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the result to this file.")]
OptimizerName = Annotated[str, typer.Option("--optimizer", help="adamw, adam, sgd or none; its state and step count.")]
Accumulate = Annotated[bool, typer.Option("--accumulate", help="Plan for gradients added to those of a micro-batch.")]
StrategyName = Annotated[str, typer.Option("--strategy", help="How to solve; `auto` picks.")]
TimeLimit = Annotated[float, typer.Option("--time-limit", min=0.0, help="Seconds for each solve.")]
Gap = Annotated[float, typer.Option("--gap", min=0.0, help="Stop when this close to the bound (share of the step).")]
Device = Annotated[str, typer.Option("--device", help="Where to run, e.g. cuda.")]


def main() -> None:
    """Run the command line."""
    with exit_codes():
        app()


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from rematopt import __version__

        print(f"rematopt {__version__}")
        raise typer.Exit


@app.command()
def profile(
    factory: Factory,
    output: Output = None,
    set_: Sizes = None,
    optimizer: OptimizerName = "adamw",
    accumulate: Accumulate = False,
    device: Device = "cpu",
    timing: Annotated[
        str | None,
        typer.Option(help="measured; roofline:NAME (a100, h100, ..., a JSON file) or roofline:local to estimate."),
    ] = None,
    sizes_only: Annotated[
        bool, typer.Option("--sizes-only", help="Build the model without memory; times are estimated.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Measure sizes and times of a model's training step, without running the step."""
    from rematopt import api
    from rematopt.training import prepare, profile_run

    check_target(output)
    with api.sizes_only() if sizes_only else nullcontext():
        run = prepare(factory, _sizes(set_), optimizer=optimizer, device=device)
        how = timing or ("roofline:local" if sizes_only else "measured")
        measured = profile_run(run, how, accumulate=accumulate)
    if output is not None:
        measured.save(output)
    if json:
        print_json(profile_record(measured))
    else:
        views.show_profile(measured)


@app.command()
def solve(
    profile: Problem,
    limit: Annotated[
        str | None, typer.Option("--limit", help='Bytes, "8GiB", "60%" of the unplanned peak, or "min".')
    ] = None,
    activation_limit: Annotated[
        str | None, typer.Option("--activation-limit", help="In place of --limit: without static memory.")
    ] = None,
    output: Output = None,
    strategy: StrategyName = "auto",
    time_limit: TimeLimit = 60.0,
    gap: Gap = 0.01,
    json: AsJson = False,
) -> None:
    """Find the cheapest schedule that fits a memory limit; Ctrl-C keeps the best one so far."""
    from rematopt.progress import solver_progress
    from rematopt.solver import solve as find

    check_target(output)
    graph = _load_graph(profile)
    try:
        with solver_progress(graph.seconds) as report:
            found = find(
                graph,
                limit,
                activation_limit=activation_limit,
                strategy=strategy,
                time_limit=time_limit,
                gap=gap,
                progress=report,
            )
    except InfeasibleLimitError as error:
        if json:
            print_json(infeasible_record(graph, limit, error.smallest_limit_bytes, activation_limit=activation_limit))
        raise
    if output is not None:
        found.save(output)
    if json:
        print_json(solve_record(found))
    else:
        views.show_schedule(found)


@app.command()
def train(
    factory: Factory,
    schedule: Annotated[Path, typer.Option("--schedule", help="A schedule that `rematopt solve` wrote.")],
    steps: Annotated[int, typer.Option("--steps", min=2, help="Optimizer steps.")] = 10,
    accumulate: Annotated[int, typer.Option("--accumulate", min=1, help="Micro-batches a step.")] = 1,
    set_: Sizes = None,
    optimizer: OptimizerName = "adamw",
    learning_rate: Annotated[float, typer.Option("--lr", help="Learning rate.")] = 1e-3,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random numbers.")] = 0,
    device: Device = "cpu",
    json: AsJson = False,
) -> None:
    """Train by a schedule on the factory's batch; compare with the plain model and the unplanned step."""
    from rematopt.training import Run, prepare, unplanned_schedule
    from rematopt.turns import compare

    planned = load(schedule, Schedule)
    sizes = _sizes(set_)

    def make() -> Run:
        return prepare(factory, sizes, optimizer=optimizer, learning_rate=learning_rate, device=device)

    unplanned = unplanned_schedule(make())
    _, comparison, plain = compare(make, [unplanned, planned, None], steps=steps, seed=seed, micro_batches=accumulate)
    identical = comparison.losses == plain.losses
    if json:
        print_json(comparison_record(comparison) | {"identical": identical})
    else:
        views.show_comparison(comparison, identical=identical)


@app.command()
def pareto(
    profile: Problem,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for table, picture, schedules.")] = None,
    limits: Annotated[str, typer.Option(help='Number of limits, or a list: "80%,60%,1GiB,min".')] = "12",
    measure: Annotated[str | None, typer.Option(help="Factory of the model, to run each schedule, too.")] = None,
    set_: Sizes = None,
    optimizer: OptimizerName = "adamw",
    device: Device = "cpu",
    strategy: StrategyName = "auto",
    time_limit: TimeLimit = 30.0,
    gap: Gap = 0.01,
    jobs: Annotated[int, typer.Option(help="Limits solved at the same time; -1 for one a CPU.")] = -1,
    json: AsJson = False,
) -> None:
    """Solve a sweep of memory limits and draw the Pareto curve."""
    from rematopt.artefacts import make_folder
    from rematopt.front import pareto as sweep

    graph = _load_graph(profile)
    folder = None if output is None else make_folder(output)
    wanted = int(limits) if limits.strip().isdigit() else [part.strip() for part in limits.split(",")]
    front = sweep(graph, wanted, strategy=strategy, time_limit=time_limit, gap=gap, jobs=jobs)
    measured = []
    if measure is not None:
        from rematopt.turns import compare_each

        measured = compare_each(measure, _sizes(set_), front.schedules, optimizer=optimizer, device=device)
    if folder is not None:
        front.save(folder)
        front.plot(folder / "pareto.png", measured=measured)
    if json:
        print_json(front_records(graph, front))
    else:
        views.show_front(front, measured)


@app.command()
def max_batch(
    factory: Factory,
    limit: Annotated[str, typer.Option("--limit", help='Bytes, or a size: "2GiB".')],
    set_: Sizes = None,
    max_overhead: Annotated[
        str | None, typer.Option(help='Extra time allowed, e.g. "20%"; by default that of one more forward pass.')
    ] = None,
    verify: Annotated[bool, typer.Option(help="Profile the batch on the device and run a step of it.")] = True,
    output: Output = None,
    optimizer: OptimizerName = "adamw",
    device: Device = "cpu",
    strategy: StrategyName = "auto",
    time_limit: TimeLimit = 10.0,
    json: AsJson = False,
) -> None:
    """Find the largest batch (the factory's argument `batch`) that trains inside a memory limit."""
    from rematopt.max_batch import Question, Search

    check_target(output)
    question = Question(
        factory=factory,
        sizes=_sizes(set_),
        limit_bytes=parse_bytes(limit),
        max_overhead=None if max_overhead is None else parse_share(max_overhead),
        optimizer=optimizer,
        device=device,
        time_limit=time_limit,
    )
    search = Search(question, note)
    plain, ours = (search.largest(name, verify=verify) for name in ("store-all", strategy))
    if output is not None and ours.schedule is not None:
        ours.schedule.save(output)
    if json:
        print_json(max_batch_record(question, plain, ours))
    else:
        views.show_max_batch(question, plain, ours)
    if ours.batch == 0:
        note("not even a batch of 1 fits the limit in the time allowed; no schedule was written")
        raise typer.Exit(3)


@app.command()
def import_graph(
    file: Annotated[Path, typer.Argument(help="A graph in one of the published node-link JSON forms.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the graph to this file.")],
    json: AsJson = False,
) -> None:
    """Turn a published rematerialization instance into a graph that `solve` and `pareto` take."""
    from rematopt.solver.importing import import_graph as read

    check_target(output)
    graph = read(file)
    save(graph, output)
    if json:
        print_json(graph_record(graph))
    else:
        views.show_graph(graph)


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A profile or a schedule.")],
    by: Annotated[str, typer.Option(help="Rows of a profile: module or op.")] = "module",
    depth: Annotated[int, typer.Option(min=0, help="Modules down to this depth.")] = 3,
    top: Annotated[int, typer.Option(min=1, help="Ops to show, those that keep most first.")] = 20,
    json: AsJson = False,
) -> None:
    """Show what a profile or schedule file says."""
    match load_any(file):
        case Profile() as measured:
            views.inspect_profile(measured, by=by, depth=depth, top=top, as_json=json)
        case Schedule() as planned:
            if json:
                print_json(solve_record(planned))
            else:
                views.show_schedule(planned)
        case graph:
            if json:
                print_json(graph_record(graph))
            else:
                views.show_graph(graph)


@app.command()
def explain(
    profile: Problem,
    schedule: Annotated[
        Path | None, typer.Argument(help="A schedule to explain instead of the unplanned step.")
    ] = None,
    limits: Annotated[int, typer.Option(min=0, help="Memory limits to solve for; 0 for none.")] = 5,
    time_limit: TimeLimit = 10.0,
    depth: Annotated[int, typer.Option(min=0, help="Modules down to this depth.")] = 3,
    plot: Annotated[Path | None, typer.Option(help="Draw the memory timeline into this file.")] = None,
    measure: Annotated[str | None, typer.Option(help="Factory of the model, to draw a measured step, too.")] = None,
    set_: Sizes = None,
    optimizer: OptimizerName = "adamw",
    device: Device = "cpu",
    json: AsJson = False,
) -> None:
    """Say where the peak is, what is alive there, what causes it, and what less memory costs."""
    from rematopt.explanation import explain as find
    from rematopt.explanation.view import show_explanation

    check_target(plot)
    if measure is not None and plot is None:
        raise InvalidInputError("--measure draws a measured step; say where to with --plot FILE")
    artefact = _load_problem(profile)
    planned = None if schedule is None else load(schedule, Schedule)
    found = find(artefact, planned, limits=limits, time_limit=time_limit)
    if plot is not None:
        measured = None
        if measure is not None:
            from rematopt.training import measured_curve

            measured = measured_curve(measure, _sizes(set_), found.schedule, optimizer=optimizer, device=device)
        found.plot(plot, measured=measured)
    if json:
        print_json(found.record())
    else:
        show_explanation(found, depth=depth)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder with profiles, schedules, tables (.csv), pictures (.png).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
) -> None:
    """Gather what lies in a folder into one page that needs nothing else."""
    from rematopt.report import write_report

    check_target(output)
    write_report(folder, output)
    note(f"wrote {output}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for profile, schedules and pictures.")] = Path("out"),
    steps: Annotated[int, typer.Option(min=2, help="Training steps of each run.")] = 6,
    json: AsJson = False,
) -> None:
    """Train a six-layer GPT-2 at its full memory and at three limits, and compare."""
    from rematopt.demo import run_demo

    result = run_demo(out, steps=steps)
    if json:
        print_json(result.record())
    else:
        views.show_demo(result)
    if not (result.identical and result.within_limits):
        raise typer.Exit(1)


def _load_problem(path: Path) -> Profile | Graph:
    artefact = load_any(path)
    if isinstance(artefact, Schedule):
        raise ArtefactError(f"{path} is a rematopt schedule, expected a profile or a graph")
    return artefact


def _load_graph(path: Path) -> Graph:
    artefact = _load_problem(path)
    return artefact.graph if isinstance(artefact, Profile) else artefact


def _sizes(pairs: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a value is a Python literal, or else a string."""
    sizes: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidInputError(f"--set {pair!r} is not of the form NAME=VALUE, e.g. --set layers=6")
        try:
            sizes[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            sizes[name] = value
    return sizes
