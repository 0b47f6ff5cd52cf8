"""Fit a plan under a memory limit by giving up retained data, cheapest relief first.

A *gap* is the time between two neighbouring accesses of a data during which it only waits. Giving a gap
up frees its bytes there and costs the runs that produce the data anew at the end of the gap. The
choice is the greedy rule for covering problems: the fewest seconds for each byte-stage by which the
stages exceed the limit. Scores are kept in a heap and worked out again only when they reach its top.
"""

from __future__ import annotations

import heapq
import random
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rematopt.solver.plan import Plan
from rematopt.solver.stages import is_general, recomputable_ops

NOTHING = float("inf")
MAX_DEPTH = 6
"""How many levels of producers are considered for running again together."""


@dataclass(frozen=True)
class Eviction:
    """Runs that produce a data anew at the end of a gap, and later runs that they make unnecessary.

    Parameters
    ----------
    stage : int
        Stage in which ``ops`` run again.
    ops : tuple of int
        The ops, in the graph's order.
    merged : tuple of (int, int)
        Op and stage of later further runs to drop, since what they made now comes from ``stage``.
    """

    stage: int
    ops: tuple[int, ...]
    merged: tuple[tuple[int, int], ...] = ()

    def apply(self, plan: Plan) -> None:
        """Change ``plan``."""
        plan.apply(self.ops, self.stage)
        for i, stage in self.merged:
            if stage in plan.ran[i]:
                plan.drop(i, stage)


class Evictor:
    """Gives up gaps of a plan until it fits its limit.

    Parameters
    ----------
    plan : Plan
        Changed in place.
    limit_bytes : int
        What every stage must come down to.
    deadline : float
        ``time.perf_counter()`` after which it stops.
    noise : float
        Spread of the random factor on each score, for searches that repeat; 0 for the plain rule.
    rng : random.Random
        Source of that factor.
    most_seconds : float
        Seconds of further runs beyond which it gives up.
    """

    def __init__(
        self,
        plan: Plan,
        limit_bytes: int,
        deadline: float,
        noise: float = 0.0,
        rng: random.Random | None = None,
        most_seconds: float = NOTHING,
    ) -> None:
        self.most_seconds = most_seconds
        self.plan = plan
        self.limit = limit_bytes
        self.deadline = deadline
        self.noise = noise
        self.rng = rng or random.Random(0)
        self.may_run_again = recomputable_ops(plan.graph)
        self.first_stage = 0 if is_general(plan.graph) else plan.graph.forward_count
        self._heap: list[tuple[float, int, int]] = []
        self._factors: dict[tuple[int, int], float] = {}

    def run(self) -> bool:
        """Give up gaps until the plan fits; False if the rule or the time is at its end before."""
        plan = self.plan
        over = self._over()
        if over.any():
            self._fill(over)
        while over.any():
            if not self._heap or plan.seconds > self.most_seconds or time.perf_counter() > self.deadline:
                return False
            _, d, stage = heapq.heappop(self._heap)
            if not plan.retained(d, stage) or stage not in plan.touched[d]:
                continue
            score, eviction = self._score(d, stage, over)
            if eviction is None or (self._heap and score > self._heap[0][0]):
                if score < NOTHING:
                    heapq.heappush(self._heap, (score, d, stage))
                continue
            eviction.apply(plan)
            over = self._over()
            self._renew(eviction, over)
        return True

    def _over(self) -> NDArray[np.int64]:
        """For each stage the bytes above the limit."""
        return np.maximum(self.plan.level - self.limit, 0)

    def _fill(self, over: NDArray[np.int64]) -> None:
        """Queue every gap that lies in a stage above the limit, with an optimistic score."""
        total = np.concatenate(([0], np.cumsum(over)))
        for d, touched in enumerate(self.plan.touched):
            for before, stage in pairwise(touched):
                if total[stage + 1] > total[before]:
                    self._push(d, before, stage, over)

    def _push(self, d: int, before: int, stage: int, over: NDArray[np.int64]) -> None:
        plan = self.plan
        p = plan.producer[d]
        if p not in self.may_run_again or stage in plan.ran[p] or stage < self.first_stage:
            return
        relief = self._most_relief(d, before, stage, over)
        if relief:
            # The merge of a later run may win back the seconds of this one, hence nothing below zero.
            least = 0.0 if self._later_run(p, stage) is not None else plan.cost[p]
            heapq.heappush(self._heap, (self._factor(d, stage) * least / relief, d, stage))

    def _most_relief(self, d: int, before: int, stage: int, over: NDArray[np.int64]) -> int:
        """Bytes over the limit that giving up the gap of ``d`` can take away, all stages together."""
        again = self.plan.again
        # At its two ends a gap can only give way to what runs again there.
        reach = over[before if again[before] else before + 1 : stage + bool(again[stage])]
        made = self.plan.makes[self.plan.producer[d]]
        size = self.plan.size[d] if len(made) == 1 else sum(self.plan.size[e] for e in made)
        return int(np.minimum(reach, size).sum())

    def _later_run(self, i: int, stage: int) -> int | None:
        """The next stage behind ``stage`` in which op ``i`` runs again, if what it makes is read from there."""
        following = [s for d in self.plan.makes[i] if (s := self.plan.next_access(d, stage)) is not None]
        later = min((s for s in following if s in self.plan.ran[i]), default=None)
        return later

    def _renew(self, eviction: Eviction, over: NDArray[np.int64]) -> None:
        """Queue the gaps around the runs of an eviction, whose scores may have become better."""
        plan = self.plan
        near = {d for i in eviction.ops for d in (*plan.reads[i], *plan.makes[i])}
        near |= {d for e in tuple(near) for i in plan.graph.consumers[e] for d in plan.makes[i]}
        for d in near:
            touched = plan.touched[d]
            for before, stage in pairwise(touched):
                self._push(d, before, stage, over)

    def _score(self, d: int, stage: int, over: NDArray[np.int64]) -> tuple[float, Eviction | None]:
        """The best eviction that ends the gap of ``d`` before ``stage``.

        A way that cannot be better than the next gap in the heap is not tried; where only such ways
        are left the result is a bound on their scores, without an eviction.
        """
        plan, seconds, excess = self.plan, self.plan.seconds, int(over.sum())
        most = self._most_relief(d, plan.previous_access(d, stage), stage, over)
        if not most:
            return NOTHING, None
        rival = self._heap[0][0] if self._heap else NOTHING
        factor = self._factor(d, stage)
        best, chosen, skipped = NOTHING, None, NOTHING
        for net_seconds, ways in self._depths(d, stage):
            least = factor * net_seconds / most
            if least >= best:
                break
            if least > rival:
                # Deeper ways cost no less.
                skipped = least
                break
            for eviction in ways:
                mark = plan.mark()
                eviction.apply(plan)
                relief = excess - plan.excess(self.limit)
                score = factor * (plan.seconds - seconds) / relief if relief > 0 else NOTHING
                plan.rollback(mark)
                if score < best:
                    best, chosen = score, eviction
        return (skipped, None) if skipped < best else (best, chosen)

    def _factor(self, d: int, stage: int) -> float:
        """Random factor on the scores of a gap, always the same one."""
        if not self.noise:
            return 1.0
        return self._factors.setdefault((d, stage), 1 + self.noise * self.rng.random())

    def _depths(self, d: int, stage: int) -> Iterator[tuple[float, list[Eviction]]]:
        """Ways to have ``d`` anew in ``stage``, with ever more of its ancestors run again too.

        Each depth comes with the seconds that its ways and all deeper ones cost at least.
        """
        plan = self.plan
        start = plan.producer[d]
        ops: set[int] = set()
        merged: list[tuple[int, int]] = []
        frontier = [start]
        net_seconds, depth = 0.0, 0
        while frontier:
            for i in frontier:
                later = self._later_run(i, stage)
                if later is None:
                    net_seconds += plan.cost[i]
                else:
                    merged.append((i, later))
            ops.update(frontier)
            frontier = self._producers(frontier, ops, stage)
            ways = []
            if depth < MAX_DEPTH or not frontier:
                chosen = tuple(sorted(ops))
                ways = [Eviction(stage, chosen)]
                if merged:
                    ways.append(Eviction(stage, chosen, tuple(merged)))
            if depth == 0:
                ways += self._earlier(d, start, stage)
            yield net_seconds, ways
            depth += 1

    def _producers(self, frontier: list[int], ops: set[int], stage: int) -> list[int]:
        """Producers of what ``frontier`` reads and ``stage`` lacks."""
        plan = self.plan
        missing = {plan.producer[e] for i in frontier for e in plan.reads[i] if not plan.available(e, stage)}
        return [p for p in missing if p not in ops and p in self.may_run_again]

    def _earlier(self, d: int, i: int, stage: int) -> Iterator[Eviction]:
        """Run ``i`` again where its inputs are last at hand, so that ``d`` waits instead of them."""
        plan = self.plan
        lost = [e for e in plan.reads[i] if not plan.available(e, stage)]
        if not lost:
            return
        last = min(plan.previous_access(e, stage) for e in lost)
        touched = plan.touched[d]
        if last > max(i, touched[bisect_left(touched, stage) - 1]) and last >= self.first_stage:
            yield Eviction(last, (i,))


def fit(plan: Plan, limit_bytes: int, deadline: float, noise: float = 0.0, rng: random.Random | None = None) -> bool:
    """Bring ``plan`` under the limit, then drop every run that the limit does not call for.

    Returns
    -------
    bool
        Whether the plan fits; if not, it is left as far as it came.
    """
    if not Evictor(plan, limit_bytes, deadline, noise, rng).run():
        return False
    trim(plan, limit_bytes)
    return True


def trim(plan: Plan, limit_bytes: int) -> None:
    """Drop further runs, the dearest first, wherever the limit allows to retain instead."""
    runs = [(plan.cost[i], i, t) for t, again in enumerate(plan.again) for i in again]
    for _, i, stage in sorted(runs, reverse=True):
        if stage in plan.ran[i]:
            mark = plan.mark()
            plan.drop(i, stage)
            if plan.peak_bytes > limit_bytes:
                plan.rollback(mark)
