"""What a search has so far: its best schedule and its best bound, from several searchers at once."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from threading import Event, Thread

from rematopt.schedule import Schedule, Status
from rematopt.solver.problem import Problem, SolveResult
from rematopt.solver.progress import Progress, Report
from rematopt.solver.result import RELATIVE_TOLERANCE, result_from_runs
from rematopt.solver.tighten import Tightening


class Incumbent:
    """The best schedule and the best bound so far.

    Parameters
    ----------
    problem : Problem
        What is solved.
    gap : float
        Distance to the bound, as a share of the step's time, that is good enough.
    report : callable, optional
        Is told about news, always by the thread that calls a method.
    """

    def __init__(self, problem: Problem, gap: float, report: Report | None = None) -> None:
        self.problem = problem
        self.gap = gap
        self.started = time.perf_counter()
        self.schedule: Schedule | None = None
        self.bound = problem.graph.seconds
        self.infeasible = False
        self._report = report
        self._told: tuple[float, float] | None = None
        self._searching = "auto"

    def take(self, result: SolveResult, name: str) -> None:
        """Remember what a strategy found, and tell about it."""
        self._searching = name
        self.infeasible = self.infeasible or result.status is Status.INFEASIBLE
        if result.schedule is not None and result.objective < self.seconds:
            self.schedule = result.schedule
        self.bound = max(self.bound, result.bound)
        self._tell()

    def take_runs(self, runs: Sequence[int], name: str, started: float) -> None:
        """Remember a sequence of op runs."""
        self.take(result_from_runs(self.problem, runs, strategy=name, started=started), name)

    def raise_bound(self, bound: float) -> None:
        """Remember a bound; another thread may call this, and tells nobody."""
        self.bound = max(self.bound, bound)

    def poll(self) -> bool:
        """Tell what is new; say whether a running search may end."""
        self._tell()
        return self.good_enough

    @property
    def seconds(self) -> float:
        """Time of the step under the best schedule, infinity without one."""
        return self.schedule.seconds if self.schedule is not None else math.inf

    @property
    def runs(self) -> list[int] | None:
        """Op runs of the best schedule."""
        return None if self.schedule is None else list(self.schedule.runs)

    @property
    def good_enough(self) -> bool:
        """Whether the gap is reached, or nothing is left to find."""
        if self.schedule is None:
            return self.infeasible
        return self.seconds - self.bound <= max(self.gap, RELATIVE_TOLERANCE) * self.seconds

    def result(self) -> SolveResult:
        """The best schedule with the best bound."""
        seconds = time.perf_counter() - self.started
        if self.schedule is None:
            status = Status.INFEASIBLE if self.infeasible else Status.TIME_LIMIT
            return SolveResult(schedule=None, status=status, objective=math.inf, bound=self.bound, seconds=seconds)
        bound = min(self.bound, self.seconds)
        proved = self.seconds <= bound * (1 + RELATIVE_TOLERANCE)
        status = Status.OPTIMAL if proved else Status.FEASIBLE
        schedule = replace(self.schedule, status=status, bound_seconds=bound, solve_seconds=seconds)
        return SolveResult(schedule=schedule, status=status, objective=schedule.seconds, bound=bound, seconds=seconds)

    def _tell(self) -> None:
        now = (self.seconds, min(self.bound, self.seconds))
        if self._report is None or now == self._told:
            return
        self._told = now
        self._report(
            Progress(
                strategy=self.schedule.strategy if self.schedule is not None else self._searching,
                seconds=now[0],
                bound=now[1],
                elapsed=time.perf_counter() - self.started,
            )
        )


class Bounding:
    """A context in which a thread of its own raises an incumbent's bound.

    HiGHS and NumPy, which do most of its work, leave a second core's worth of Python to the search
    for schedules meanwhile.

    Parameters
    ----------
    incumbent : Incumbent
        Whose bound is raised.
    deadline : float
        ``time.perf_counter()`` at which to stop.
    """

    def __init__(self, incumbent: Incumbent, deadline: float) -> None:
        self._incumbent = incumbent
        self._deadline = deadline
        self._stop = Event()
        self._search = Tightening(incumbent.problem, self._stop.is_set)
        self._thread = Thread(target=self._run, name="rematopt-bound", daemon=True)

    def __enter__(self) -> Bounding:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def settle(self, deadline: float) -> Tightening:
        """Let it go on until it is finished, the gap is reached, or ``deadline``; end it and return it."""
        while self._thread.is_alive() and time.perf_counter() < deadline and not self._incumbent.poll():
            self._thread.join(0.1)
        self._stop.set()
        self._thread.join()
        return self._search

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and self._search.step(self._deadline):
                self._incumbent.raise_bound(self._search.bound)
        except Exception as error:
            # A schedule with a weaker bound is worth more than none.
            warnings.warn(f"the bound stays at {self._search.bound} seconds: {error!r}", RuntimeWarning, stacklevel=2)
        self._incumbent.raise_bound(self._search.bound)
