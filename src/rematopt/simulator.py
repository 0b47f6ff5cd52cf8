"""The one definition of validity, peak memory and time of a schedule.

Resident bytes = static bytes + all data alive. While an op runs its outputs are already allocated,
its inputs not yet freed, and its workspace is added; an output that is alive already (the op runs
again for another of its outputs) is allocated a second time and dropped when the op ends. Data of
the kinds output, tangent and gradient stay until the step ends. The peak is the largest resident value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rematopt.errors import InvalidScheduleError
from rematopt.graph import Graph, Phase, Recompute
from rematopt.schedule import Compute, Free, Step


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What a schedule does.

    Parameters
    ----------
    peak_bytes : int
        Largest resident bytes.
    peak_step : int
        Index of the (first) step that reaches it; -1 for a graph without ops.
    peak_data : tuple of int
        Data alive at that moment, outputs of the running op included.
    seconds : float
        Sum of the times of all runs.
    resident_bytes : tuple of int
        For each step the resident bytes *while* it is executed (after it for a free).
    forward_end : int
        Index of the first step of the backward pass (``len(steps)`` for a graph without one).
    """

    peak_bytes: int
    peak_step: int
    peak_data: tuple[int, ...]
    seconds: float
    resident_bytes: tuple[int, ...]
    forward_end: int


class _State:
    """What is alive, and why what is not alive is not."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.alive: set[int] = set()
        self.freed_at: dict[int, int] = {}
        self.done: set[int] = set()
        self.bytes = graph.static.total

    def name(self, d: int) -> str:
        return f"d{d} (output of {self.graph.ops[self.graph.data[d].producer].name})"

    def compute(self, at: int, i: int) -> int:
        """Run op ``i`` and return the resident bytes while it runs."""
        op = self.graph.ops[i]
        for d in op.inputs:
            if d not in self.alive:
                why = f"freed at step {self.freed_at[d]}" if d in self.freed_at else "not computed before"
                raise InvalidScheduleError(f"step {at} ({op.name}) reads {self.name(d)}, {why}")
        if i in self.done and op.recompute is Recompute.NEVER:
            raise InvalidScheduleError(f"step {at} runs {op.name} again, which may run only once")
        if i not in self.done:
            for j in op.after:
                if j not in self.done:
                    raise InvalidScheduleError(f"step {at} runs {op.name} before {self.graph.ops[j].name}")
        during = self.bytes + sum(self.graph.data[d].bytes for d in op.outputs) + op.workspace_bytes
        for d in op.outputs:
            if d not in self.alive:
                self.alive.add(d)
                self.bytes += self.graph.data[d].bytes
        self.done.add(i)
        return during

    def free(self, at: int, d: int) -> None:
        """Drop data ``d``."""
        if d not in self.alive:
            raise InvalidScheduleError(f"step {at} frees {self.name(d)}, which is not alive")
        if self.graph.data[d].kept:
            raise InvalidScheduleError(
                f"step {at} frees {self.name(d)}, a {self.graph.data[d].kind}, which stays until the step ends"
            )
        self.alive.remove(d)
        self.freed_at[d] = at
        self.bytes -= self.graph.data[d].bytes


def _check_indices(graph: Graph, steps: Sequence[Step]) -> None:
    for at, step in enumerate(steps):
        if isinstance(step, Compute) and not 0 <= step.op < len(graph.ops):
            raise InvalidScheduleError(f"step {at} computes op {step.op}; the graph has {len(graph.ops)}")
        if isinstance(step, Free) and not 0 <= step.data < len(graph.data):
            raise InvalidScheduleError(f"step {at} frees data {step.data}; the graph has {len(graph.data)}")


def forward_end(graph: Graph, steps: Sequence[Step]) -> int:
    """Index of the first step of the backward pass.

    It begins behind the last first run of a forward op and the frees that follow it.
    """
    seen: set[int] = set()
    last = -1
    for at, step in enumerate(steps):
        if isinstance(step, Compute) and step.op not in seen:
            seen.add(step.op)
            if graph.ops[step.op].phase is Phase.FORWARD:
                last = at
    end = last + 1
    while end < len(steps) and isinstance(steps[end], Free):
        end += 1
    return end


def simulate(graph: Graph, steps: Sequence[Step]) -> Simulation:
    """Play the steps and return peak, time and the memory timeline.

    Parameters
    ----------
    graph : Graph
        The graph that the steps refer to.
    steps : sequence of Compute or Free
        The whole training step.

    Raises
    ------
    InvalidScheduleError
        At the first violation: an input that is not alive, a second run of an op that may run only
        once, a free of what is not alive or must stay, a broken order, an op that never runs, or a
        backward op that runs before the forward ops are done.
    """
    _check_indices(graph, steps)
    state = _State(graph)
    end = forward_end(graph, steps)
    resident: list[int] = []
    seconds, peak, peak_step, peak_data = 0.0, graph.static.total, -1, frozenset[int]()
    for at, step in enumerate(steps):
        if isinstance(step, Free):
            state.free(at, step.data)
            resident.append(state.bytes)
            continue
        if at < end and graph.ops[step.op].phase is Phase.BACKWARD:
            raise InvalidScheduleError(f"step {at} runs backward op {graph.ops[step.op].name} inside forward")
        resident.append(state.compute(at, step.op))
        seconds += graph.ops[step.op].seconds
        if resident[-1] > peak:
            peak, peak_step, peak_data = resident[-1], at, frozenset(state.alive)
    missing = [op.name for i, op in enumerate(graph.ops) if i not in state.done]
    if missing:
        raise InvalidScheduleError(f"{len(missing)} ops never run, the first is {missing[0]}")
    return Simulation(
        peak_bytes=peak,
        peak_step=peak_step,
        peak_data=tuple(sorted(peak_data)),
        seconds=seconds,
        resident_bytes=tuple(resident),
        forward_end=end,
    )
