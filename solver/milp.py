"""``milp``: the exact strategy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rematopt.solver.answer import result_from_answer
from rematopt.solver.arrays import Model
from rematopt.solver.drive import Poll, run
from rematopt.solver.formulation import Formulation, formulate
from rematopt.solver.greedy import greedy_runs
from rematopt.solver.presolve import NOTHING, Reduction, reduce_for_speed
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.stages import staged
from rematopt.solver.strengthen import strengthened
from rematopt.solver.tighten import Tightening

if TYPE_CHECKING:
    import highspy

START_SHARE, START_WINDOW = 0.2, 8
"""Share of the time for finding a schedule to start from, and the window in which it is searched."""

TIGHTEN_SHARE = 0.2
"""Share of the time for finding cuts that the exact model begins with."""


class Milp:
    """Mixed integer program over the staged form (:mod:`rematopt.solver.stages`).

    Parameters
    ----------
    window : int, optional
        Search only schedules that recompute within this many ops of what a segment reads, with the
        reductions of presolve: fast, without a proof. Exact if not given.
    everywhere : bool
        Allow runs inside forward and of backward ops in graphs with a backward pass.
    gap : float
        Distance to the bound, as a share of the step's time, at which to stop.
    writer : callable, optional
        How to build the solver's model; see :func:`rematopt.solver.drive.default_writer`.
    """

    name = "milp"

    def __init__(
        self,
        *,
        window: int | None = None,
        everywhere: bool = False,
        gap: float = 0.0,
        writer: Callable[[Model], highspy.Highs] | None = None,
    ) -> None:
        self.window = window
        self.everywhere = everywhere
        self.gap = gap
        self.writer = writer

    def solve(
        self,
        problem: Problem,
        time_limit: float,
        *,
        start: Sequence[int] | None = None,
        tightening: Tightening | None = None,
        poll: Poll | None = None,
    ) -> SolveResult:
        """Solve a problem.

        Parameters
        ----------
        problem : Problem
            Graph and limit.
        time_limit : float
            Seconds of wall time.
        start : sequence of int, optional
            Op runs to start from; if not given, those that quicker searches find.
        tightening : Tightening, optional
            A search for a bound of the same problem, whose cuts and bound the exact model takes over as it
            stands; if not given, it begins with one of its own.
        poll : callable, optional
            Asked meanwhile, see :data:`rematopt.solver.drive.Poll`.

        Raises
        ------
        KeyboardInterrupt
            If the user stops the search before any schedule is found.
        """
        started = time.perf_counter()
        graph = problem.graph
        if start is None:
            start = self._start(problem, START_SHARE * time_limit)
        form = self._formulate(problem)
        bound = graph.seconds
        if self.window is None and not self.everywhere:
            if tightening is None:
                tightening = Tightening(problem, poll)
                tightening.run(time.perf_counter() + TIGHTEN_SHARE * (started + time_limit - time.perf_counter()))
            form, bound = strengthened(form, tightening.cuts), tightening.bound
        values = form.solution(start) if start is not None else None
        gap = max(1e-6, self.gap * graph.seconds / form.cost_scale)
        answer = run(
            form.model,
            deadline=started + time_limit,
            absolute_gap=gap,
            start=values,
            # From a good start they are a waste: they took three quarters of the time.
            heuristics=values is None or self.window is not None,
            writer=self.writer,
            poll=poll,
        )
        return result_from_answer(
            problem,
            answer,
            form.sequence(answer.values) if answer.values is not None else None,
            strategy=self.name,
            started=started,
            cost_scale=form.cost_scale,
            exact=self.window is None,
            bound=bound,
        )

    def _start(self, problem: Problem, seconds: float) -> Sequence[int] | None:
        """Runs from the greedy rule; for the exact search improved within a window."""
        if self.window is not None:
            return greedy_runs(problem, time.perf_counter() + seconds)
        found = Milp(window=START_WINDOW, gap=self.gap, writer=self.writer).solve(problem, seconds).schedule
        return None if found is None else list(found.runs)

    def _formulate(self, problem: Problem) -> Formulation:
        reduction: Reduction = NOTHING
        if self.window is not None:
            reduction = reduce_for_speed(problem.graph, problem.limit_bytes)
        stages = staged(problem.graph, reduction=reduction, window=self.window, everywhere=self.everywhere)
        return formulate(stages, problem.limit_bytes)
