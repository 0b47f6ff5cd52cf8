"""What the commands show to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rematopt.comparison import Comparison
from rematopt.console import note, percent, print_facts, print_json, print_table
from rematopt.errors import InvalidInputError
from rematopt.front import Front
from rematopt.graph import Graph, StaticBytes, is_estimate
from rematopt.profile import Profile
from rematopt.records import graph_record
from rematopt.schedule import Schedule
from rematopt.units import format_bytes, format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from rematopt.demo import DemoResult
    from rematopt.max_batch import Largest, Question


def show_profile(profile: Profile) -> None:
    """Print what a profile says as a whole."""
    print_facts(
        f"Profile of {profile.graph.signature.model or 'a graph'} on {profile.device}", graph_facts(profile.graph)
    )
    if profile.graph.estimated:
        note("times are estimates of what the device can do at best; workspaces of ops are unknown and count as 0")
    elif profile.modelled_ops:
        note(f"the time of {profile.modelled_ops} ops is inferred from the others; they cannot be run by themselves")


def show_graph(graph: Graph) -> None:
    """Print what a graph says as a whole."""
    print_facts(f"Graph of {graph.signature.model or 'unknown origin'}", graph_facts(graph))


def graph_facts(graph: Graph) -> dict[str, str]:
    """Return size, time and memory of a graph, as people read them."""
    record = graph_record(graph)
    facts = {
        "ops": f"{record['forward_ops']} forward, {record['backward_ops']} backward",
        "time of a step": format_seconds(graph.seconds) + _source(graph.timing),
        "unplanned peak": format_bytes(record["unplanned_peak_bytes"]),
        "static memory": static_memory(graph.static),
    }
    if graph.optimizer_step_bytes:
        facts["optimizer's step"] = f"{format_bytes(graph.optimizer_step_bytes)} for a moment"
    return facts


def static_memory(static: StaticBytes) -> str:
    """Return the bytes of static memory, and those of each kind there is."""
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in static.by_kind.items() if size)
    return format_bytes(static.total) + (f" ({parts})" if parts else "")


def show_schedule(schedule: Schedule) -> None:
    """Print peak, time and proof of a schedule."""
    unplanned = format_bytes(schedule.unplanned_peak_bytes)
    limit = "none" if schedule.limit_bytes is None else format_bytes(schedule.limit_bytes)
    facts = {
        "memory limit": limit,
        "peak": f"{format_bytes(schedule.peak_bytes)} (unplanned {unplanned})",
        "time of a step": f"{format_seconds(schedule.seconds)} ({percent(schedule.overhead, sign=True)})"
        + _source(schedule.timing),
        "gap to the bound": f"{percent(schedule.gap, digits=2)} of the step",
        "ops run again": str(schedule.recomputed),
        "found by": f"{schedule.strategy} in {format_seconds(schedule.solve_seconds)}, {schedule.status}",
    }
    if schedule.smallest_limit_bytes is not None:
        facts["smallest limit known"] = format_bytes(schedule.smallest_limit_bytes)
    print_facts(f"Schedule for {schedule.signature.model or 'a graph'}", facts)
    if is_estimate(schedule.timing):
        note("workspaces of ops count as 0 where times are estimated: a real step may need more than this peak")


def show_comparison(comparison: Comparison, *, identical: bool) -> None:
    """Print prediction and measurement of one training run, and whether its losses are the plain model's."""
    losses = comparison.losses
    facts = {
        "memory limit": _size(comparison.limit_bytes),
        "peak": f"{format_bytes(comparison.measured_peak_bytes)} (predicted {_size(comparison.predicted_peak_bytes)})",
        "time": f"{comparison.measured_ratio:.3f} x the unplanned step (predicted {comparison.predicted_ratio:.3f})",
        "loss": f"{losses[0]:.4f} at the first step, {losses[-1]:.4f} at step {len(losses)}",
        "compared to plain": "identical at every step" if identical else "NOT identical",
    }
    print_facts("Training by the schedule", facts)


def show_max_batch(question: Question, plain: Largest, ours: Largest) -> None:
    """Print the largest batch, and that of the unplanned step."""
    schedule = ours.schedule
    facts = {
        "memory limit": format_bytes(question.limit_bytes),
        "largest batch": str(ours.batch),
        "without a plan": str(plain.batch),
    }
    if plain.batch:
        facts["gain"] = f"{ours.batch / plain.batch:.2f} times"
    if schedule is not None:
        facts["extra time"] = f"{percent(schedule.overhead, sign=True)} of the step (predicted)"
        facts["peak"] = f"{format_bytes(schedule.peak_bytes)} predicted, {_size(ours.measured_peak_bytes)} measured"
    print_facts(f"Largest batch of {question.factory}", facts)
    if (ours.measured_peak_bytes or 0) > question.limit_bytes:
        note("the measured peak EXCEEDS the limit; try a smaller limit")


def front_rows(front: Front, measured: Sequence[Comparison] = ()) -> list[dict[str, str]]:
    """Return a row a limit."""
    rows = []
    peaks = {comparison.limit_bytes: comparison for comparison in measured}
    for point in front.points:
        schedule, comparison = point.schedule, peaks.get(point.limit_bytes)
        row = {"limit": format_bytes(point.limit_bytes)} | _schedule_cells(schedule)
        if measured:
            row["measured peak"] = _size(comparison.measured_peak_bytes if comparison else None)
            row["measured time"] = percent(comparison.measured_ratio - 1 if comparison else None, sign=True)
        rows.append(row)
    return rows


def show_front(front: Front, measured: Sequence[Comparison]) -> None:
    """Print a row a limit, and the baselines below."""
    print_table("Cheapest schedules by memory limit", front_rows(front, measured))
    print_table(
        "Baselines",
        [
            {"strategy": s.strategy, "peak": format_bytes(s.peak_bytes), "time": percent(s.overhead, sign=True)}
            for s in front.baselines
        ],
    )


def _schedule_cells(schedule: Schedule | None) -> dict[str, str]:
    if schedule is None:
        return dict.fromkeys(("peak", "time", "gap", "solve"), "-") | {"status": "infeasible", "strategy": "-"}
    return {
        "peak": format_bytes(schedule.peak_bytes),
        "time": percent(schedule.overhead, sign=True),
        "gap": percent(schedule.gap, digits=2),
        "solve": f"{schedule.solve_seconds:.1f} s",
        "status": str(schedule.status),
        "strategy": schedule.strategy,
    }


def inspect_profile(profile: Profile, *, by: str, depth: int, top: int, as_json: bool) -> None:
    """Print where time and memory of a profile go, by module or by op.

    Raises
    ------
    InvalidInputError
        If ``by`` is neither.
    """
    if by not in ("module", "op"):
        raise InvalidInputError(f"--by {by!r}: expected module or op")
    if as_json:
        frame = _module_frame(profile, depth) if by == "module" else _op_frame(profile, top)
        print_json(frame.to_dict(orient="records"))
        return
    show_profile(profile)
    print_table("", module_rows(profile, depth) if by == "module" else _op_rows(profile, top))


def module_rows(profile: Profile, depth: int) -> list[dict[str, str]]:
    """Return a row a module down to a depth; names are indented by theirs."""
    return [
        {"module": "  " * row["depth"] + (row["module"].rpartition(".")[2] or "(model)")}
        | _profile_cells(row, "module")
        for _, row in _module_frame(profile, depth).iterrows()
    ]


def _op_rows(profile: Profile, top: int) -> list[dict[str, str]]:
    return [{"op": row["op"]} | _profile_cells(row, "op") for _, row in _op_frame(profile, top).iterrows()]


def _module_frame(profile: Profile, depth: int) -> pd.DataFrame:
    frame = profile.to_dataframe("module")
    return frame[frame["depth"] <= depth]


def _op_frame(profile: Profile, top: int) -> pd.DataFrame:
    return profile.to_dataframe("op").nlargest(top, "retained_bytes")


def _profile_cells(row: pd.Series, by: str) -> dict[str, str]:
    sizes = ("retained_bytes", "output_bytes", "workspace_bytes")
    cells = {"time": format_seconds(row["seconds"])}
    cells |= {name.removesuffix("_bytes"): format_bytes(row[name]) for name in sizes}
    if by == "op":
        cells |= {name: row[name] for name in ("phase", "target", "module")}
    else:
        cells |= {"ops": str(row["ops"])}
    return cells


def show_demo(result: DemoResult) -> None:
    """Print the table of the demo and its verdict."""
    plain = result.plain
    rows = [
        {
            "limit": _size(schedule.limit_bytes),
            "predicted peak": _size(run.predicted_peak_bytes),
            "measured peak": format_bytes(run.measured_peak_bytes),
            "predicted time": f"{run.predicted_ratio:.3f}",
            "measured time": f"{run.measured_ratio:.3f}",
            "gap": percent(schedule.gap, digits=2),
            "solve": f"{schedule.solve_seconds:.1f} s",
            "last loss": f"{run.losses[-1]:.6f}",
        }
        for schedule, run in result.rows
    ]
    reference = dict.fromkeys(rows[0], "-") | {
        "limit": "plain model",
        "measured peak": format_bytes(plain.measured_peak_bytes),
        "measured time": f"{plain.measured_ratio:.3f}",
        "last loss": f"{plain.losses[-1]:.6f}",
    }
    print_table("GPT-2 on real text; times as multiples of the unplanned step", [*rows, reference])
    losses = "identical to the plain model's at every step" if result.identical else "NOT those of the plain model"
    print_facts(
        "",
        {
            "losses": f"{losses} ({len(plain.losses)} steps, {len(rows)} schedules)",
            "limits": "kept by every measured peak" if result.within_limits else "EXCEEDED by a measured peak",
            "files": f"{result.folder}/: profile.json, schedules, pareto.csv, pareto.png, timeline.png, losses.png",
        },
    )


def _source(timing: str) -> str:
    """Say where times come from, unless they were measured."""
    return f", estimated ({timing})" if is_estimate(timing) else ""


def _size(size: int | None) -> str:
    return "-" if size is None else format_bytes(size)
