"""``lp-rounding``: round the linear relaxation, after the two-phase rounding of Checkmate (Jain et al., 2020).

An op runs again in a stage where the relaxation runs it by at least a threshold; whatever is read and
not made anew is retained, so that every threshold gives a valid schedule. Retaining a data that a stage
reads and running its producer again are the two sides of one decision, which is why rounding the runs
is rounding the retentions. Thresholds are swept, also for relaxations under lower limits that leave
room for what rounding adds, and every outcome is measured against the true limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

from rematopt.solver.drive import run
from rematopt.solver.formulation import Formulation, formulate
from rematopt.solver.lifetimes import evaluate
from rematopt.solver.plan import Plan
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.result import result_from_runs
from rematopt.solver.segments import cheapest
from rematopt.solver.stages import staged

THRESHOLDS = tuple(k / 20 for k in range(19, 0, -1))
"""Shares of a run from which it is made, tried in turn."""

INNER_LIMITS = (1.0, 0.95, 0.9, 0.8)
"""Limits of the relaxation as shares of the true limit above the static bytes."""


@dataclass
class _Relaxations:
    """Solves the relaxations one by one and remembers the bound of the true limit."""

    problem: Problem
    deadline: float
    bound: float = 0.0

    def plans(self) -> Iterator[Plan]:
        """What the thresholds make of each relaxation."""
        graph = self.problem.graph
        stages = staged(graph)
        for share in INNER_LIMITS:
            limit = graph.static.total + round(share * (self.problem.limit_bytes - graph.static.total))
            # The true limit's relaxation is built to bound the true optimum, whose sizes are not rounded up.
            form = formulate(stages, limit, optimistic=share == 1.0)
            answer = run(form.model.relaxed(), deadline=self.deadline)
            if share == 1.0 and math.isfinite(answer.bound):
                self.bound = graph.seconds + max(0.0, answer.bound) * form.cost_scale * (1 - 1e-7)
            if answer.values is None:
                return
            for threshold in THRESHOLDS:
                yield _rounded(form, [evaluate(expr, answer.values) for expr in form.runs], threshold)


class LpRounding:
    """The cheapest rounding of the relaxation that fits the limit."""

    name = "lp-rounding"

    def solve(self, problem: Problem, time_limit: float) -> SolveResult:
        """Return that schedule with the relaxation's bound."""
        started = time.perf_counter()
        relaxations = _Relaxations(problem, started + time_limit)
        best = cheapest(problem, relaxations.plans(), relaxations.deadline)
        return result_from_runs(problem, best.runs, strategy=self.name, started=started, bound=relaxations.bound)


def _rounded(form: Formulation, shares: list[float], threshold: float) -> Plan:
    """The plan that runs again what the relaxation runs by at least ``threshold``."""
    stages = form.stages
    plan = Plan(stages.graph)
    chosen: list[list[int]] = [[] for _ in stages.starts]
    for slot, share in zip(stages.slots, shares, strict=True):
        if slot.again and share >= threshold:
            chosen[slot.stage].append(slot.op)
    for ops, start in zip(chosen, stages.starts, strict=True):
        plan.apply(ops, start)
    # Readers come behind what they read, so going backwards leaves nothing useless.
    for stage in reversed(range(len(plan.again))):
        for i in reversed(tuple(plan.again[stage])):
            if plan.useless(i, stage):
                plan.drop(i, stage)
    plan.commit()
    return plan
