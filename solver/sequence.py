"""From a sequence of op runs to a schedule's steps.

Once it is known which op runs when, the best frees follow: each copy of a data is dropped behind its
last read before the data is produced again or the step ends. Every strategy therefore only decides
on the sequence of runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from rematopt.graph import Graph
from rematopt.schedule import Compute, Free, Step


def steps_from_runs(graph: Graph, runs: Sequence[int]) -> tuple[Step, ...]:
    """Put the earliest possible frees into a sequence of op runs.

    Parameters
    ----------
    graph : Graph
        The graph that the runs refer to.
    runs : sequence of int
        Op indices in the order in which they run; an op may appear several times.

    Returns
    -------
    tuple of Compute or Free
        The runs, with each copy of a data freed behind its last read; data that must stay until the
        step ends are never freed.
    """
    free_behind: list[list[int]] = [[] for _ in runs]
    needed: set[int] = set()
    for at in range(len(runs) - 1, -1, -1):
        op = graph.ops[runs[at]]
        # What nobody reads before its next production dies with the run that produced it.
        free_behind[at] += [d for d in op.outputs if d not in needed]
        needed.difference_update(op.outputs)
        free_behind[at] += [d for d in op.inputs if d not in needed]
        needed.update(op.inputs)
    steps: list[Step] = []
    for at, i in enumerate(runs):
        steps.append(Compute(i))
        steps += [Free(d) for d in sorted(set(free_behind[at])) if not graph.data[d].kept]
    return tuple(steps)


def first_runs(graph: Graph) -> range:
    """Every op once, in the graph's order: the step without rematerialization."""
    return range(len(graph.ops))


def pruned(graph: Graph, runs: Sequence[int]) -> list[int]:
    """Leave out the repeated runs none of whose outputs is read before the next production.

    Solvers are free to leave such runs in where they cost nothing.
    """
    first = {i: at for at, i in reversed(list(enumerate(runs)))}
    needed: set[int] = set()
    left = []
    for at in range(len(runs) - 1, -1, -1):
        op = graph.ops[runs[at]]
        if first[runs[at]] != at and needed.isdisjoint(op.outputs):
            continue
        needed.difference_update(op.outputs)
        needed.update(op.inputs)
        left.append(runs[at])
    return left[::-1]
