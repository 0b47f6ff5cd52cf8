"""A schedule under construction whose memory is known after every small change.

The first runs of the ops, in the graph's order, are the *stages*: stage ``t`` ends with the first run
of op ``t`` and may begin with further runs of earlier ops, in the graph's order. Which op runs again in
which stage is the whole state. What is retained follows from it: a data lives from one access to the
next unless the next access finds it produced anew. Every choice of further runs is therefore a valid
schedule; it only differs in seconds and in memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from rematopt.graph import Graph, Recompute

_INSIDE = -1
"""Marks a log entry that holds what a stage weighed inside, instead of an op that ran or ran not."""


class Plan:
    """Further runs by stage, with the resident bytes of every stage kept up to date.

    Parameters
    ----------
    graph : Graph
        Ops in the order of their first runs.

    Attributes
    ----------
    level : ndarray of int64
        For each stage the largest resident bytes while it runs, equal to what the simulator finds.
    seconds : float
        Time of all further runs.
    again : list of list of int
        For each stage the ops that run again in it, sorted.
    touched : list of list of int
        For each data the stages that produce or read it, sorted; empty for data that stay to the end.
    ran : list of set of int
        For each op the stages in which it runs.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        stages = len(graph.ops)
        free = [not item.kept for item in graph.data]
        self.reads = [[d for d in op.inputs if free[d]] for op in graph.ops]
        self.makes = [[d for d in op.outputs if free[d]] for op in graph.ops]
        self.size = [item.bytes for item in graph.data]
        self.producer = [item.producer for item in graph.data]
        self.cost = [op.seconds for op in graph.ops]
        self.once = [op.recompute is Recompute.NEVER for op in graph.ops]
        # Outputs that stay to the end are resident already when their op runs again, and then weigh twice.
        self.transient = [
            op.workspace_bytes + sum(graph.data[d].bytes for d in op.outputs if not free[d]) for op in graph.ops
        ]
        self.made_bytes = [sum(self.size[d] for d in made) for made in self.makes]
        self.again: list[list[int]] = [[] for _ in range(stages)]
        self.ran: list[set[int]] = [{i} for i in range(stages)]
        self.seconds = 0.0
        self.touched: list[list[int]] = [[] for _ in graph.data]
        self._count: list[dict[int, int]] = [{} for _ in graph.data]
        for i in range(stages):
            for d in (*self.makes[i], *self.reads[i]):
                self.touched[d].append(i)
                self._count[d][i] = 1
        self._inside = np.array([self.made_bytes[i] + self.transient[i] for i in range(stages)], dtype=np.int64)
        self.level: NDArray[np.int64] = self._inside + graph.static.total
        for d, item in enumerate(graph.data):
            end = stages if item.kept else self.touched[d][-1] + 1
            self.level[item.producer + 1 : end] += item.bytes
        self._stale: set[int] = set()
        self._log: list[tuple[int, int, int]] = []

    @classmethod
    def from_runs(cls, graph: Graph, runs: Iterable[int]) -> Plan:
        """Read a sequence of runs whose first runs follow the graph's order.

        Runs of one stage are sorted and merged: an op that runs several times between two first runs
        runs once.

        Raises
        ------
        ValueError
            If the first runs do not follow the graph's order.
        """
        plan = cls(graph)
        stage = 0
        waiting: set[int] = set()
        for i in runs:
            if i < stage:
                waiting.add(i)
            elif i == stage:
                plan.apply(sorted(waiting), stage)
                waiting.clear()
                stage += 1
            else:
                raise ValueError(f"op {i} runs before op {stage}; a plan keeps the graph's order of first runs")
        plan.commit()
        return plan

    @property
    def runs(self) -> list[int]:
        """The sequence of op runs."""
        return [i for t, again in enumerate(self.again) for i in (*again, t)]

    @property
    def peak_bytes(self) -> int:
        """Largest resident bytes."""
        return int(self.level.max(initial=self.graph.static.total))

    def excess(self, limit: int) -> int:
        """Sum over the stages of the bytes above ``limit``."""
        return int(np.maximum(self.level - limit, 0).sum())

    def apply(self, ops: Sequence[int], stage: int) -> None:
        """Run ``ops`` again in ``stage``; those that run there already are passed over."""
        for i in ops:
            if stage not in self.ran[i]:
                self._log.append((i, stage, 0))
                self._add(i, stage)
        self._settle()

    def drop(self, i: int, stage: int) -> None:
        """Do not run op ``i`` again in ``stage``, nor what ran there only for it."""
        waiting = [i]
        while waiting:
            j = waiting.pop()
            self._log.append((j, stage, 0))
            self._remove(j, stage)
            waiting += {p for d in self.reads[j] if self.useless(p := self.producer[d], stage)}
        self._settle()

    def useless(self, i: int, stage: int) -> bool:
        """Whether op ``i`` runs again in ``stage`` and nobody reads what it makes there."""
        if stage not in self.ran[i] or stage == i:
            return False
        return all(self._count[d][stage] == 1 and not self.stays(d, stage) for d in self.makes[i])

    def stays(self, d: int, stage: int) -> bool:
        """Whether data ``d``, accessed in ``stage``, is retained when the stage ends."""
        after = self.next_access(d, stage)
        return after is not None and after not in self.ran[self.producer[d]]

    def retained(self, d: int, stage: int) -> bool:
        """Whether data ``d`` is alive when ``stage`` begins."""
        touched = self.touched[d]
        at = bisect_left(touched, stage)
        return 0 < at < len(touched) and touched[at] not in self.ran[self.producer[d]]

    def available(self, d: int, stage: int) -> bool:
        """Whether reading ``d`` in ``stage`` needs no further bytes: it is retained into it, or made in it."""
        return not self.touched[d] or stage in self._count[d] or self.retained(d, stage)

    def next_access(self, d: int, stage: int) -> int | None:
        """The first stage behind ``stage`` that produces or reads ``d``."""
        touched = self.touched[d]
        at = bisect_right(touched, stage)
        return touched[at] if at < len(touched) else None

    def previous_access(self, d: int, stage: int) -> int:
        """The last stage before ``stage`` that produces or reads ``d``, which some earlier stage does."""
        return self.touched[d][bisect_left(self.touched[d], stage) - 1]

    def commit(self) -> None:
        """Forget how to take back the changes made so far."""
        self._log.clear()

    def mark(self) -> int:
        """A point to which :meth:`rollback` can return."""
        return len(self._log)

    def rollback(self, mark: int = 0) -> None:
        """Take back all changes since ``mark``."""
        while len(self._log) > mark:
            i, stage, inside = self._log.pop()
            if i == _INSIDE:
                self.level[stage] += inside - self._inside[stage]
                self._inside[stage] = inside
            elif stage in self.ran[i]:
                self._remove(i, stage)
            else:
                self._add(i, stage)
        # The log has restored what the stages weighed inside.
        self._stale.clear()

    def _add(self, i: int, stage: int) -> None:
        insort(self.again[stage], i)
        self.ran[i].add(stage)
        self.seconds += self.cost[i]
        self._stale.add(stage)
        for d in self.reads[i]:
            if self._enter(d, stage) and not self.stays(d, stage):
                self._weigh(d, stage, self.size[d])
        for d in self.makes[i]:
            if not self._enter(d, stage) or self.stays(d, stage):
                self._weigh(d, stage, -self.size[d])

    def _remove(self, i: int, stage: int) -> None:
        self.again[stage].remove(i)
        self.ran[i].remove(stage)
        self.seconds -= self.cost[i]
        self._stale.add(stage)
        for d in self.reads[i]:
            if self._leave(d, stage) and not self.stays(d, stage):
                self._weigh(d, stage, -self.size[d])
        for d in self.makes[i]:
            if not self._leave(d, stage) or self.stays(d, stage):
                self._weigh(d, stage, self.size[d])

    def _enter(self, d: int, stage: int) -> bool:
        """Count one more access; say whether it is the stage's first."""
        count = self._count[d]
        if stage in count:
            count[stage] += 1
            return False
        count[stage] = 1
        insort(self.touched[d], stage)
        return True

    def _leave(self, d: int, stage: int) -> bool:
        """Count one access less; say whether it was the stage's last."""
        count = self._count[d]
        if count[stage] > 1:
            count[stage] -= 1
            return False
        del count[stage]
        del self.touched[d][bisect_left(self.touched[d], stage)]
        return True

    def _weigh(self, d: int, stage: int, change: int) -> None:
        """``d`` is now (or no longer) retained from its access before ``stage`` until ``stage``."""
        before = self.previous_access(d, stage)
        self.level[before + 1 : stage + 1] += change
        self._stale.add(before)

    def _settle(self) -> None:
        """Weigh the inside of the stages whose runs or surroundings changed."""
        for stage in self._stale:
            before = int(self._inside[stage])
            if self.again[stage] or before != self.made_bytes[stage] + self.transient[stage]:
                inside = self._weigh_inside(stage)
                if inside != before:
                    self._log.append((_INSIDE, stage, before))
                    self.level[stage] += inside - before
                    self._inside[stage] = inside
        self._stale.clear()

    def _weigh_inside(self, stage: int) -> int:
        """Largest bytes inside a stage beyond what is retained into it."""
        runs = (*self.again[stage], stage)
        last: dict[int, int] = {}
        for at, i in enumerate(runs):
            for d in self.makes[i]:
                last[d] = at
            for d in self.reads[i]:
                last[d] = at
        freed = [0] * len(runs)
        for d, at in last.items():
            # The same as `not self.stays(d, stage)`, written out because most time is spent here.
            touched = self.touched[d]
            after = bisect_right(touched, stage)
            if after == len(touched) or touched[after] in self.ran[self.producer[d]]:
                freed[at] += self.size[d]
        now = peak = 0
        for at, i in enumerate(runs):
            now += self.made_bytes[i]
            if now + self.transient[i] > peak:
                peak = now + self.transient[i]
            now -= freed[at]
        return peak
