"""``cpsat``: retention intervals (after MOCCASIN, Bartan et al. 2023), with exact ends.

The staged time axis gives every possible run a position. An op runs at most ``copies`` times: first
at its fixed position, then optionally where a stage has a slot for it. Each run of an op starts one
interval for each of its outputs, which ends behind the last read it serves; every read is served by
one copy. A cumulative constraint holds the limit. What MOCCASIN approximates by some lengths is exact
here, and workspace is an interval of length one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from rematopt.solver.answer import result_from_answer
from rematopt.solver.drive import Answer
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.scaling import units_for
from rematopt.solver.stages import Stages, staged

MOST_COST = 10**6
"""Largest integer cost of a run; larger ones slow CP-SAT down."""


class CpSat:
    """Constraint program over retention intervals.

    Parameters
    ----------
    copies : int
        Most runs of an op. The result is proved optimal only where no op could run more often.
    workers : int
        Threads of the solver.
    """

    name = "cpsat"

    def __init__(self, *, copies: int = 3, workers: int = 2) -> None:
        self.copies = copies
        self.workers = workers

    def solve(self, problem: Problem, time_limit: float, *, start: Sequence[int] | None = None) -> SolveResult:
        """Solve ``problem``, with the op runs ``start`` as a hint where given."""
        started = time.perf_counter()
        form = _Form(problem, self.copies)
        if start is not None:
            form.hint(start)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = self.workers
        solver.parameters.max_time_in_seconds = max(0.01, time_limit - (time.perf_counter() - started))
        status = solver.solve(form.model)
        found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        answer = Answer(
            values=None,
            bound=solver.best_objective_bound if status != cp_model.INFEASIBLE else -math.inf,
            proved=status in (cp_model.OPTIMAL, cp_model.INFEASIBLE),
        )
        return result_from_answer(
            problem,
            answer,
            form.sequence(solver) if found else None,
            strategy=self.name,
            started=started,
            cost_scale=form.cost_unit,
            exact=form.complete,
        )


@dataclass(frozen=True)
class _Run:
    """One run of an op: whether and where on the time axis."""

    active: cp_model.IntVar
    at: cp_model.IntVar


class _Form:
    """The constraint program and the way back from its solution."""

    def __init__(self, problem: Problem, copies: int) -> None:
        self.graph = problem.graph
        self.stages: Stages = staged(self.graph)
        self.model = cp_model.CpModel()
        self.places: list[list[int]] = [[] for _ in self.graph.ops]
        self.firsts = [0] * len(self.graph.ops)
        for at, slot in enumerate(self.stages.slots):
            if slot.again:
                self.places[slot.op].append(at)
            else:
                self.firsts[slot.op] = at
        self.horizon = len(self.stages.slots)
        self.complete = all(len(places) < copies for places in self.places)
        self.runs = [self._runs(i, copies) for i in range(len(self.graph.ops))]
        room = problem.limit_bytes - self.graph.static.total
        sizes = {d.bytes for d in self.graph.data} | {op.workspace_bytes for op in self.graph.ops}
        self.units = units_for(sizes, max(room, 1))
        self.ends: dict[tuple[int, int], cp_model.IntVar] = {}
        self._limit(int(self.units.room(room)))
        for d in range(len(self.graph.data)):
            self._serve(d)
        self.cost_unit = self._minimise()

    def _runs(self, i: int, copies: int) -> list[_Run]:
        """The first run of op ``i``, then further ones in order."""
        one, first = self.model.new_constant(1), self.model.new_constant(self.firsts[i])
        runs = [_Run(one, first)]
        domain = cp_model.Domain.from_values(self.places[i])
        for c in range(1, min(copies, len(self.places[i]) + 1)):
            at = self.model.new_int_var_from_domain(domain, f"at_{i}_{c}")
            run = _Run(self.model.new_bool_var(f"run_{i}_{c}"), at)
            self.model.add_implication(run.active, runs[-1].active)
            self.model.add(run.at > runs[-1].at).only_enforce_if(run.active)
            runs.append(run)
        return runs

    def _limit(self, capacity: int) -> None:
        intervals, demands = [], []
        for i, op in enumerate(self.graph.ops):
            for c, run in enumerate(self.runs[i]):
                if op.workspace_bytes:
                    intervals.append(self._interval(run, run.at + 1, f"work_{i}_{c}"))
                    demands.append(self.units.size(op.workspace_bytes))
                for d in op.outputs:
                    kept = self.graph.data[d].kept and c == 0
                    lowest = self.horizon if kept else self.firsts[i] + 1
                    end = self.model.new_int_var(lowest, self.horizon, f"end_{d}_{c}")
                    self.model.add(end > run.at).only_enforce_if(run.active)
                    self.ends[d, c] = end
                    intervals.append(self._interval(run, end, f"alive_{d}_{c}"))
                    demands.append(self.units.size(self.graph.data[d].bytes))
        if capacity < 0:
            self.model.add_bool_or([])
            return
        self.model.add_cumulative(intervals, demands, capacity)

    def _interval(self, run: _Run, end: cp_model.LinearExprT, name: str) -> cp_model.IntervalVar:
        length = self.model.new_int_var(0, self.horizon, f"length_{name}")
        return self.model.new_optional_interval_var(run.at, length, end, run.active, name)

    def _serve(self, d: int) -> None:
        """Every run that reads ``d`` is served by one run of its producer."""
        producer = self.graph.data[d].producer
        for j in self.graph.consumers[d]:
            for c, read in enumerate(self.runs[j]):
                serving = []
                for b, made in enumerate(self.runs[producer]):
                    serves = self.model.new_bool_var(f"serve_{d}_{b}_{j}_{c}")
                    self.model.add_implication(serves, made.active)
                    self.model.add(made.at < read.at).only_enforce_if(serves)
                    self.model.add(self.ends[d, b] > read.at).only_enforce_if(serves)
                    serving.append(serves)
                self.model.add_bool_or(serving).only_enforce_if(read.active)

    def _minimise(self) -> float:
        """Set the objective; costs are whole numbers of the returned seconds, rounded down for the bound's sake."""
        seconds = [self.graph.ops[i].seconds for i in range(len(self.graph.ops)) if self.places[i]]
        whole = all(value == int(value) for value in seconds)
        unit = float(math.gcd(*map(int, seconds)) or 1) if whole else 0.0
        if not whole or max(seconds, default=0.0) / unit > MOST_COST:
            unit = max(seconds) / MOST_COST
        terms = [
            int(self.graph.ops[i].seconds / unit) * run.active for i, runs in enumerate(self.runs) for run in runs[1:]
        ]
        self.model.minimize(sum(terms) if terms else 0)
        return unit

    def hint(self, sequence: Sequence[int]) -> None:
        """Suggest the runs of a sequence that is in staged form."""
        places: list[list[int]] = [[] for _ in self.graph.ops]
        slot_of = {(slot.op, slot.stage): at for at, slot in enumerate(self.stages.slots) if slot.again}
        stage_of = {start: k for k, start in enumerate(self.stages.starts)}
        seen: set[int] = set()
        stage = 0
        for i in sequence:
            if i in seen and (i, stage + 1) in slot_of:
                places[i].append(slot_of[i, stage + 1])
            seen.add(i)
            stage = max(stage, stage_of.get(i, 0))
        for i, runs in enumerate(self.runs):
            for c, run in enumerate(runs[1:]):
                self.model.add_hint(run.active, c < len(places[i]))
                if c < len(places[i]):
                    self.model.add_hint(run.at, places[i][c])

    def sequence(self, solver: cp_model.CpSolver) -> list[int]:
        """The op runs of the solution found."""
        found = [
            (solver.value(run.at), i) for i, runs in enumerate(self.runs) for run in runs if solver.value(run.active)
        ]
        return [i for _, i in sorted(found)]
