"""What records of a race say about one method beside the others."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from rematopt.records import Record

OURS = "auto"
"""The method that the others are compared with."""

NOISE = 0.01
"""Two times, or two peaks, that differ by less are equal."""


def usable(records: Iterable[Record]) -> list[Record]:
    """Return the records of what ran and whose gradients are right."""
    return [record for record in records if not record["error"] and record["gradients"] != "wrong"]


def dominates(a: Record, b: Record, value: str) -> bool:
    """Whether ``a`` needs no more memory and no more of ``value`` than ``b``, and clearly less of one of them."""
    axes = ("measured_peak_bytes", value)
    no_more = all(a[axis] <= b[axis] for axis in axes)
    return no_more and any(a[axis] < b[axis] * (1 - NOISE) for axis in axes)


def cheapest_within(records: Iterable[Record], axis: str, most: float, value: str) -> float | None:
    """Return the least ``value`` among the records with at most ``most`` on ``axis``; None if there is none."""
    return min((record[value] for record in records if record[axis] <= most), default=None)


def by_method(records: Iterable[Record]) -> list[Record]:
    """Compare our method with each other one, over all models.

    Returns
    -------
    list of dict
        An entry a method: in how many ``settings`` it ran and ``failed``, how many had ``wrong`` gradients or left
        other buffers or random numbers behind (``state_changed``); medians over its usable settings: ``time_ratio``
        (our time as a share of its, at no more memory), ``peak_ratio`` (our peak as a share of its, in no more
        time), ``recomputed`` and ``recomputed_ours`` (FLOPs run again as a share of the step's, ours at no more
        memory); and how many of its settings ours do not dominate (``undominated``).
    """
    records = list(records)
    methods = dict.fromkeys(record["method"] for record in records if record["method"] != OURS)
    return [_method(name, records) for name in methods]


def _method(name: str, records: Sequence[Record]) -> Record:
    theirs = [record for record in records if record["method"] == name]
    good = usable(theirs)
    ran = [record for record in theirs if not record["error"]]
    pairs = [(record, _ours(records, record["model"])) for record in good]
    return {
        "method": name,
        "models": len({record["model"] for record in ran}),
        "settings": len(ran),
        "failed": len(theirs) - len(ran),
        "wrong": sum(record["gradients"] == "wrong" for record in ran),
        "state_changed": sum(not record["state_identical"] for record in ran),
        "time_ratio": _median(pairs, lambda r, ours: _share(_at_peak(ours, r, "measured_ratio"), r["measured_ratio"])),
        "peak_ratio": _median(pairs, lambda r, ours: _share(_in_time(ours, r), r["measured_peak_bytes"])),
        "recomputed": _median(pairs, lambda r, ours: r["recomputed_flops"] / max(1, r["step_flops"])),
        "recomputed_ours": _median(
            pairs, lambda r, ours: _share(_at_peak(ours, r, "recomputed_flops"), max(1, r["step_flops"]))
        ),
        "undominated": sum(not any(dominates(own, r, "measured_ratio") for own in ours) for r, ours in pairs),
    }


def _ours(records: Sequence[Record], model: str) -> list[Record]:
    return [record for record in usable(records) if record["method"] == OURS and record["model"] == model]


def _at_peak(ours: list[Record], record: Record, value: str) -> float | None:
    return cheapest_within(ours, "measured_peak_bytes", record["measured_peak_bytes"], value)


def _in_time(ours: list[Record], record: Record) -> float | None:
    return cheapest_within(ours, "measured_ratio", record["measured_ratio"], "measured_peak_bytes")


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None else part / whole


def _median(
    pairs: Sequence[tuple[Record, list[Record]]], value: Callable[[Record, list[Record]], float | None]
) -> float | None:
    found = [v for record, ours in pairs if (v := value(record, ours)) is not None]
    return statistics.median(found) if found else None


def undominated_share(records: Iterable[Record], value: str = "measured_ratio") -> float | None:
    """Return the share of our settings that no other method dominates; None without any."""
    good = usable(records)
    ours = [record for record in good if record["method"] == OURS]
    others = [record for record in good if record["method"] != OURS]
    beaten = [any(o["model"] == own["model"] and dominates(o, own, value) for o in others) for own in ours]
    return 1 - sum(beaten) / len(ours) if ours else None
