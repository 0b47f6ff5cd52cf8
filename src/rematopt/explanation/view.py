"""What ``rematopt explain`` shows: cause and next saving on the first screen, details below."""

from __future__ import annotations

from rematopt.console import percent, print_facts, print_table
from rematopt.explanation.advice import HAIR
from rematopt.explanation.explanation import Explanation
from rematopt.explanation.peak import cause_of, grouped
from rematopt.schedule import Schedule
from rematopt.units import format_bytes, format_seconds
from rematopt.views import static_memory

_PEAK_ROWS = 6


def show_explanation(found: Explanation, *, depth: int) -> None:
    """Print an explanation; modules down to ``depth``."""
    title = f"{found.graph.signature.model or 'A graph'}" + (f" on {found.device}" if found.device else "")
    if found.graph.estimated:
        title += ", times estimated, workspaces unknown"
    print_facts(title, _facts(found))
    print_table("Alive at the peak, largest first", _alive_rows(found))
    if found.front.schedules:
        print_table("What less memory costs", [_limit_row(s) for s in reversed(found.front.schedules)])
    if found.advice:
        print_facts("Advice", {f"{at}.": text for at, text in enumerate(found.advice, 1)})
    print_table("By module", _module_rows(found, depth))


def _facts(found: Explanation) -> dict[str, str]:
    peak = found.peak
    facts = {
        "peak": f"{format_bytes(peak.bytes)} at step {peak.step} of {len(found.schedule.steps)}: {peak.place}",
        "of which": f"{static_memory(found.graph.static)} static, "
        f"{format_bytes(peak.alive_bytes)} in {len(peak.alive)} tensors, "
        f"{format_bytes(peak.transient_bytes)} workspace",
    }
    if (cause := cause_of(peak)) is not None:
        within = f", {format_bytes(cause.module_bytes)} of it in {cause.module}" if cause.module else ""
        facts["cause"] = f"{format_bytes(cause.bytes)} {cause.role}{within}"
    if found.reserved is not None:
        facts["reserved"] = (
            f"{format_bytes(found.reserved.reserved_bytes)} by CUDA's allocator "
            f"({percent(found.reserved.fragmentation)} fragmentation; with expandable segments "
            f"{format_bytes(found.reserved.expandable_bytes)})"
        )
    if found.smallest_limit_bytes is not None:
        facts["smallest limit"] = f"{format_bytes(found.smallest_limit_bytes)} found"
        facts["next saving"] = _next_saving(found)
    facts["floor"] = found.floor.explain(found.graph)
    return facts


def _next_saving(found: Explanation) -> str:
    following = found.next_saving
    if following is None or following.peak_bytes > (1 - HAIR) * found.peak.bytes:
        return "none: no schedule with a noticeably smaller peak is known"
    less = 1 - following.peak_bytes / found.peak.bytes
    extra = following.seconds - found.schedule.seconds
    return (
        f"--limit {following.limit_bytes} ({format_bytes(following.peak_bytes)}, {percent(less)} less) for "
        f"{percent(extra / found.unplanned.seconds, sign=True)} time"
    )


def _alive_rows(found: Explanation) -> list[dict[str, str]]:
    groups = grouped(found.peak.alive)
    rows = [
        {
            "size": format_bytes(group.bytes),
            "count": str(group.count),
            "shape": group.like.label or "-",
            "made by": group.like.target.removeprefix("aten.").removesuffix(".default"),
            "is": group.like.role,
            "module": group.like.module or "-",
        }
        for group in groups[:_PEAK_ROWS]
    ]
    rest = groups[_PEAK_ROWS:]
    if rest:
        size, count = sum(group.bytes for group in rest), sum(group.count for group in rest)
        others = {"size": format_bytes(size), "count": str(count), "is": "others"}
        rows.append(dict.fromkeys(rows[0], "") | others)
    return rows


def _limit_row(schedule: Schedule) -> dict[str, str]:
    return {
        "limit": format_bytes(schedule.limit_bytes or schedule.peak_bytes),
        "peak": format_bytes(schedule.peak_bytes),
        "step": format_seconds(schedule.seconds),
        "time": percent(schedule.overhead, sign=True),
        "gap": percent(schedule.gap),
        "recomputed ops": str(schedule.recomputed),
    }


def _module_rows(found: Explanation, depth: int) -> list[dict[str, str]]:
    frame = found.modules()
    return [
        {
            "module": "  " * row["depth"] + (row["module"].rpartition(".")[2] or "(model)"),
            "forward": format_seconds(row["forward_seconds"]),
            "backward": format_seconds(row["backward_seconds"]),
            "retained": format_bytes(row["retained_bytes"]),
            "unplanned": format_bytes(row["unplanned_retained_bytes"]),
            "recomputed": format_bytes(row["recomputed_bytes"]),
            "in": format_seconds(row["recomputed_seconds"]) if row["recomputed_ops"] else "-",
        }
        for row in frame[frame["depth"] <= depth].to_dict(orient="records")
    ]
