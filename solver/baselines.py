"""The two ends: keep everything, keep nothing."""

from __future__ import annotations

import time

from rematopt.graph import Graph
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.result import result_from_runs
from rematopt.solver.sequence import first_runs, pruned
from rematopt.solver.stages import recomputable_ops, staged


class StoreAll:
    """Run every op once and keep what is still to be read: the step without rematerialization."""

    name = "store-all"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return the unplanned step if it fits the limit."""
        started = time.perf_counter()
        return result_from_runs(problem, first_runs(problem.graph), strategy=self.name, started=started)


class RecomputeAll:
    """Keep nothing that can be recomputed: each segment computes what it reads from scratch."""

    name = "recompute-all"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return that step if it fits the limit."""
        started = time.perf_counter()
        runs = runs_from_scratch(problem.graph)
        return result_from_runs(problem, runs, strategy=self.name, started=started)


def runs_from_scratch(graph: Graph) -> list[int]:
    """Before each segment, run again all that its data are made of, as far as it can run again."""
    stages = staged(graph)
    again = recomputable_ops(graph)
    runs: list[int] = []
    for k in range(len(stages.starts)):
        segment = stages.segment(k)
        pending = [d for i in segment for d in graph.ops[i].inputs]
        wanted: set[int] = set()
        while pending:
            data = graph.data[pending.pop()]
            if data.kept or data.producer not in again or data.producer >= segment.start or data.producer in wanted:
                continue
            wanted.add(data.producer)
            pending += graph.ops[data.producer].inputs
        runs += sorted(wanted)
        runs += segment
    return pruned(graph, runs)
