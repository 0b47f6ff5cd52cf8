"""By module: what is retained for the backward pass, what is recomputed, and what it takes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rematopt.graph import Graph, Phase, module_prefixes
from rematopt.schedule import Compute, Step
from rematopt.simulator import forward_end

_COLUMNS = (
    "forward_seconds",
    "backward_seconds",
    "retained_bytes",
    "unplanned_retained_bytes",
    "recomputed_bytes",
    "recomputed_seconds",
    "recomputed_ops",
)


def module_costs(graph: Graph, steps: Sequence[Step], unplanned_steps: Sequence[Step]) -> pd.DataFrame:
    """Tabulate a schedule, a row a module; a row includes the module's submodules.

    Columns, besides ``module`` and ``depth`` (names in the path):

    - ``forward_seconds``, ``backward_seconds``: first runs of the ops of each phase;
    - ``retained_bytes``, ``unplanned_retained_bytes``: results of forward ops that are alive when the
      backward pass begins, under this schedule and without rematerialization;
    - ``recomputed_bytes``, ``recomputed_seconds``, ``recomputed_ops``: results, time and number of
      further runs.

    Parameters
    ----------
    graph : Graph
        The graph.
    steps, unplanned_steps : sequence of Compute or Free
        The schedule, and the one that runs every op once.
    """
    rows = [dict.fromkeys(_COLUMNS, 0.0) for _ in graph.ops]
    for row, op in zip(rows, graph.ops, strict=True):
        row[f"{op.phase}_seconds"] = op.seconds
    for column, played in (("retained_bytes", steps), ("unplanned_retained_bytes", unplanned_steps)):
        for d in _retained(graph, played):
            rows[graph.data[d].producer][column] += graph.data[d].bytes
    for i in _further_runs(steps):
        rows[i]["recomputed_bytes"] += sum(graph.data[d].bytes for d in graph.ops[i].outputs)
        rows[i]["recomputed_seconds"] += graph.ops[i].seconds
        rows[i]["recomputed_ops"] += 1
    frame = pd.DataFrame(rows)
    frame.insert(0, "module", [module_prefixes(op.module) for op in graph.ops])
    summed = frame.explode("module").groupby("module", sort=False).sum().reset_index()
    summed.insert(1, "depth", [len(module_prefixes(module)) - 1 for module in summed["module"]])
    whole = [name for name in summed.columns if name.endswith(("_bytes", "_ops"))]
    return summed.astype(dict.fromkeys(whole, "int64"))


def _retained(graph: Graph, steps: Sequence[Step]) -> set[int]:
    """Data of forward ops that are alive when the backward pass begins."""
    alive: set[int] = set()
    for step in steps[: forward_end(graph, steps)]:
        if isinstance(step, Compute):
            alive.update(graph.ops[step.op].outputs)
        else:
            alive.discard(step.data)
    return {d for d in alive if graph.ops[graph.data[d].producer].phase is Phase.FORWARD}


def _further_runs(steps: Sequence[Step]) -> list[int]:
    seen: set[int] = set()
    again = []
    for step in steps:
        if isinstance(step, Compute):
            if step.op in seen:
                again.append(step.op)
            seen.add(step.op)
    return again
