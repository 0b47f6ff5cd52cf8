"""Schedules and comparisons as flat records: what ``--json`` prints and experiments write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rematopt.comparison import Comparison
from rematopt.front import Front
from rematopt.graph import Graph
from rematopt.profile import Profile
from rematopt.schedule import Schedule, Status
from rematopt.solver.result import unplanned
from rematopt.units import AboveSmallest, read_limits

if TYPE_CHECKING:
    from rematopt.max_batch import Largest, Question

Record = dict[str, Any]


_SOLVE_FIELDS = {
    "status": "status",
    "strategy": "strategy",
    "limit_bytes": "limit_bytes",
    "peak_bytes": "peak_bytes",
    "unplanned_peak_bytes": "unplanned_peak_bytes",
    "smallest_limit_bytes": "smallest_limit_bytes",
    "step_seconds": "seconds",
    "unplanned_seconds": "unplanned_seconds",
    "overhead": "overhead",
    "bound_seconds": "bound_seconds",
    "gap": "gap",
    "solve_seconds": "solve_seconds",
    "timing": "timing",
}
"""Field of a solve record and the attribute of the schedule that it holds."""


def solve_record(schedule: Schedule) -> Record:
    """Return the result of one solve; bytes are integers, times seconds."""
    return {field: getattr(schedule, attribute) for field, attribute in _SOLVE_FIELDS.items()}


def infeasible_record(
    graph: Graph,
    limit: int | str | None,
    smallest_limit_bytes: int | None,
    *,
    activation_limit: int | str | None = None,
) -> Record:
    """Return the record of a limit for which there is no schedule, with the fields of :func:`solve_record`."""
    plain = unplanned(graph)
    limit_bytes = read_limits(
        limit, activation_limit, unplanned_peak_bytes=plain.peak_bytes, static_bytes=graph.static.total
    )
    return dict.fromkeys(_SOLVE_FIELDS) | {
        "status": str(Status.INFEASIBLE),
        "limit_bytes": None if isinstance(limit_bytes, AboveSmallest) else limit_bytes,
        "unplanned_peak_bytes": plain.peak_bytes,
        "smallest_limit_bytes": smallest_limit_bytes,
        "unplanned_seconds": plain.seconds,
        "timing": graph.timing,
    }


def front_records(graph: Graph, front: Front) -> list[Record]:
    """Return one solve record a limit, by rising limit."""
    smallest = front.schedules[0].peak_bytes if front.schedules else None
    return [
        solve_record(point.schedule) if point.schedule else infeasible_record(graph, point.limit_bytes, smallest)
        for point in front.points
    ]


def max_batch_record(question: Question, plain: Largest, ours: Largest) -> Record:
    """Return the largest batch of a strategy, and that of the unplanned step."""
    schedule = ours.schedule
    return {
        "factory": question.factory,
        "limit_bytes": question.limit_bytes,
        "max_overhead": question.max_overhead,
        "strategy": ours.strategy,
        "batch": ours.batch,
        "unplanned_batch": plain.batch,
        "overhead": schedule.overhead if schedule else None,
        "gap": schedule.gap if schedule else None,
        "predicted_peak_bytes": schedule.peak_bytes if schedule else None,
        "measured_peak_bytes": ours.measured_peak_bytes,
    }


def comparison_record(comparison: Comparison) -> Record:
    """Return prediction and measurement of one schedule."""
    return {
        "limit_bytes": comparison.limit_bytes,
        "predicted_peak_bytes": comparison.predicted_peak_bytes,
        "measured_peak_bytes": comparison.measured_peak_bytes,
        "predicted_ratio": comparison.predicted_ratio,
        "measured_ratio": comparison.measured_ratio,
        "losses": list(comparison.losses),
    }


def graph_record(graph: Graph) -> Record:
    """Return what a graph weighs and takes."""
    return {
        "model": graph.signature.model,
        "forward_ops": graph.forward_count,
        "backward_ops": len(graph.ops) - graph.forward_count,
        "static_bytes": graph.static.total,
        "optimizer_step_bytes": graph.optimizer_step_bytes,
        "unplanned_peak_bytes": unplanned(graph).peak_bytes,
        "step_seconds": graph.seconds,
        "timing": graph.timing,
        "fingerprint": graph.fingerprint,
    }


def profile_record(profile: Profile) -> Record:
    """Return what a profile says as a whole."""
    return {
        **graph_record(profile.graph),
        "modelled_ops": profile.modelled_ops,
        "device": profile.device,
        "versions": dict(profile.versions),
    }
