"""``checkmate``: the formulation of Jain et al. (*Checkmate*, MLSys 2020), for comparison.

In stage ``t`` op ``t`` runs for the first time and earlier ops may run again:

    R[t,i]       op i runs in stage t                      S[t,d]  data d is kept into stage t
    FREE[t,d,k]  d is freed behind op k in stage t         U[t,k]  memory while op k runs

    R[t,k] <= R[t,i] + S[t,d]        for each input d of k, made by i                      (1b)
    S[t,d] <= R[t-1,i] + S[t-1,d]                                                          (1c)
    R[t,t] = 1, nothing later than t runs or is kept in stage t                            (8)
    U[t,k+1] = U[t,k] - bytes freed behind k + R[t,k+1] * bytes made by k+1                (2), (3)
    FREE[t,d,k] = 1 exactly if haz = 0, haz = 1 - R[t,k] + S[t+1,d] + sum of R[t,j], j > k  (5), (7)

The paper's ops have one output and no workspace. Here S and FREE belong to data, workspace counts
while its op runs. An op with several outputs may run again for one of them alone: the others are
freed behind the op itself, and the second copy of one that is alive goes back at once (DOUBLE).
"""

from __future__ import annotations

import time

from rematopt.graph import Recompute
from rematopt.solver.answer import result_from_answer
from rematopt.solver.arrays import INFINITY, Floats, Model, ModelBuilder
from rematopt.solver.drive import run
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.scaling import units_for

Entries = dict[int, float]


class Checkmate:
    """The published formulation, with one stage an op, in graphs of either kind."""

    name = "checkmate"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Solve ``problem`` within ``time_limit`` seconds."""
        started = time.perf_counter()
        form = _Form(problem)
        answer = run(form.model, deadline=started + time_limit)
        return result_from_answer(
            problem,
            answer,
            form.sequence(answer.values) if answer.values is not None else None,
            strategy=self.name,
            started=started,
            cost_scale=form.cost_scale,
            exact=True,
        )


class _Form:
    """Columns and rows, stage by stage."""

    def __init__(self, problem: Problem) -> None:
        self.graph = problem.graph
        self.builder = ModelBuilder()
        room = problem.limit_bytes - self.graph.static.total
        sizes = {d.bytes for d in self.graph.data} | {op.workspace_bytes for op in self.graph.ops}
        self.units = units_for(sizes, max(room, 1))
        self.room = self.units.room(room)
        self.cost_scale = self.graph.seconds / max(1, len(self.graph.ops)) or 1.0
        self.runs = [self._run_columns(t) for t in range(len(self.graph.ops))]
        self.kept = [self._kept_columns(t) for t in range(len(self.graph.ops) + 1)]
        for t in range(len(self.graph.ops)):
            self._dependencies(t)
            self._memory(t)
        self.model: Model = self.builder.build()

    def sequence(self, values: Floats) -> list[int]:
        """The op runs of a solution."""
        again = [[i for i, column in runs.items() if values[column] > 0.5] for runs in self.runs]
        return [i for t, repeats in enumerate(again) for i in (*repeats, t)]

    def _run_columns(self, t: int) -> dict[int, int]:
        ops = self.graph.ops
        return {
            i: self.builder.column("R", cost=ops[i].seconds / self.cost_scale, integer=True)
            for i in range(t)
            if ops[i].recompute is not Recompute.NEVER
        }

    def _kept_columns(self, t: int) -> dict[int, int]:
        """``S``; nothing is kept behind the last op but what stays until the step ends."""
        last = t == len(self.graph.ops)
        return {
            d: self.builder.column("S", lower=float(data.kept), integer=True)
            for d, data in enumerate(self.graph.data)
            if data.producer < t and (data.kept or not last)
        }

    def _run(self, t: int, i: int, factor: float = 1.0) -> tuple[Entries, float]:
        """``factor * R[t,i]`` as entries and a constant."""
        if i == t:
            return {}, factor
        column = self.runs[t].get(i)
        return ({} if column is None else {column: factor}), 0.0

    def _dependencies(self, t: int) -> None:
        for k in range(t + 1):
            if k != t and k not in self.runs[t]:
                continue
            for d in self.graph.ops[k].inputs:
                reads, certain = self._run(t, k, -1.0)
                makes, _ = self._run(t, self.graph.data[d].producer)
                self.builder.row(reads | makes | {self.kept[t][d]: 1.0}, lower=-certain)
        for d, column in self.kept[t].items():
            producer = self.graph.data[d].producer
            if producer < t - 1:
                makes, _ = self._run(t - 1, producer)
                self.builder.row(makes | {self.kept[t - 1][d]: 1.0, column: -1.0}, lower=0.0)

    def _memory(self, t: int) -> None:
        graph, size = self.graph, self.units.size
        level: Entries = {column: float(size(graph.data[d].bytes)) for d, column in self.kept[t].items()}
        for k in range(t + 1):
            runs, certain = self._run(t, k)
            if not runs and not certain:
                continue
            made = float(sum(size(graph.data[d].bytes) for d in graph.ops[k].outputs))
            memory = self.builder.column("U", lower=-INFINITY, upper=INFINITY)
            change = {column: -factor for column, factor in level.items()} | {column: -made for column in runs}
            self.builder.row({memory: 1.0} | change, lower=made * certain, upper=made * certain)
            workspace = float(size(graph.ops[k].workspace_bytes))
            self.builder.row({memory: 1.0} | dict.fromkeys(runs, workspace), upper=self.room - workspace * certain)
            level = {memory: 1.0} | self._freed(t, k)

    def _freed(self, t: int, k: int) -> Entries:
        """Bytes that go behind op ``k`` in stage ``t``, as entries of the level."""
        freed: Entries = {}
        several = k < t and len(self.graph.ops[k].outputs) > 1
        for d in (*self.graph.ops[k].inputs, *(self.graph.ops[k].outputs if several else ())):
            if not self.graph.data[d].kept:
                column = self.builder.column("FREE", integer=True)
                self._free_rule(t, k, d, column)
                freed[column] = -float(self.units.size(self.graph.data[d].bytes))
        if several:
            for d in self.graph.ops[k].outputs:
                column = self.builder.column("DOUBLE")
                self.builder.row({column: 1.0, self.kept[t][d]: -1.0}, upper=0.0)
                self.builder.row({column: 1.0, self.runs[t][k]: -1.0}, upper=0.0)
                freed[column] = -float(self.units.size(self.graph.data[d].bytes))
        return freed

    def _free_rule(self, t: int, k: int, d: int, free: int) -> None:
        """``FREE`` is one exactly if no hazard is (7)."""
        hazards, constant = self._run(t, k, -1.0)
        constant += 1.0
        terms = 1
        following = self.kept[t + 1].get(d)
        if following is not None:
            hazards = hazards | {following: 1.0}
            terms += 1
        for j in self.graph.consumers[d]:
            if k < j <= t:
                entries, certain = self._run(t, j)
                hazards, constant, terms = hazards | entries, constant + certain, terms + 1
        self.builder.row(hazards | {free: 1.0}, lower=1.0 - constant)
        self.builder.row(hazards | {free: float(terms)}, upper=terms - constant)
