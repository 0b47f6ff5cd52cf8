"""Profiles as pandas data frames: where time and memory of the training step go.

Columns of both views:

- ``seconds``: one run of the op; summed over a module's ops.
- ``output_bytes``: what the op allocates for its results; summed over a module's ops.
- ``retained_bytes``: the part of it that the step without rematerialization still holds when the
  backward pass begins: what backward reads, and what the caller holds.
- ``workspace_bytes``: allocated beyond the results while the op runs; the largest of a module's ops.
- ``flops``: floating point operations, where known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pandas as pd

from rematopt.errors import InvalidInputError
from rematopt.graph import Graph, Phase, module_prefixes

if TYPE_CHECKING:
    from rematopt.profile import Profile


def profile_frame(profile: Profile, by: Literal["op", "module"]) -> pd.DataFrame:
    """Tabulate a profile by op or by module.

    Raises
    ------
    InvalidInputError
        If ``by`` is neither.
    """
    if by == "op":
        return op_frame(profile)
    if by == "module":
        return module_frame(profile)
    raise InvalidInputError(f"cannot tabulate a profile by {by!r}; expected 'op' or 'module'")


def op_frame(profile: Profile) -> pd.DataFrame:
    """One row an op, in the order of the step."""
    graph = profile.graph
    retained = _retained(graph)
    rows = [
        {
            "op": op.name,
            "target": op.target,
            "phase": str(op.phase),
            "module": op.module,
            "seconds": op.seconds,
            "output_bytes": sum(graph.data[d].bytes for d in op.outputs),
            "retained_bytes": sum(graph.data[d].bytes for d in op.outputs if d in retained),
            "workspace_bytes": op.workspace_bytes,
            "flops": op.flops,
            "recompute": str(op.recompute),
            "timing": str(timing),
        }
        for op, timing in zip(graph.ops, profile.timings, strict=True)
    ]
    return pd.DataFrame(rows)


def module_frame(profile: Profile) -> pd.DataFrame:
    """One row a module, in the order of the first call; a row includes the module's submodules.

    The first row, with an empty name, is the model. ``depth`` counts the names in the path.
    """
    ops = op_frame(profile)
    backward = ops["phase"] == Phase.BACKWARD
    ops["forward_seconds"] = ops["seconds"].where(~backward, 0.0)
    ops["backward_seconds"] = ops["seconds"].where(backward, 0.0)
    ops["ops"] = 1
    inclusive = ops.assign(module=ops["module"].map(module_prefixes)).explode("module")
    totals = {
        "ops": "sum",
        "forward_seconds": "sum",
        "backward_seconds": "sum",
        "output_bytes": "sum",
        "retained_bytes": "sum",
        "workspace_bytes": "max",
        "flops": "sum",
    }
    frame = inclusive.groupby("module", sort=False).agg(totals).reset_index()
    frame.insert(1, "depth", [len(module_prefixes(module)) - 1 for module in frame["module"]])
    frame.insert(3, "seconds", frame["forward_seconds"] + frame["backward_seconds"])
    return frame


def _retained(graph: Graph) -> frozenset[int]:
    """Data of forward ops that the unplanned step holds when backward begins."""
    return frozenset(
        d
        for d, item in enumerate(graph.data)
        if item.producer < graph.forward_count
        and (item.kept or any(i >= graph.forward_count for i in graph.consumers[d]))
    )
