"""The compiler backend that makes a model run by a schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._functorch.partitioners import default_partition
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen

from rematopt.compiler import joint_backend
from rematopt.errors import ScheduleMismatchError, UnsupportedModelError
from rematopt.executor.missing import for_missing_tangents
from rematopt.executor.replay import Replay
from rematopt.profiler.capture import JointGraph
from rematopt.profiler.lowering import Lowered, lower
from rematopt.schedule import Schedule

Fallback = Callable[[Lowered | None, ScheduleMismatchError], Schedule | None]
"""Asked for the schedule of a graph that the given one was not made for; None runs the graph as it is.

The lowered graph is None where it cannot be planned at all.
"""


class ScheduleBackend:
    """Partitions joint graphs by a schedule.

    Parameters
    ----------
    schedule : Schedule
        For the graph whose fingerprint it carries.
    fallback : callable
        Decides on every other graph; may raise.
    debug : bool
        Whether recomputed tensors are compared with the ones they replace.
    """

    def __init__(self, schedule: Schedule, fallback: Fallback, *, debug: bool = False) -> None:
        self._schedule = schedule
        self._fallback = fallback
        self._debug = debug

    def compiler(self) -> Any:
        """A backend for ``torch.compile``."""
        return joint_backend(self.partition, _forward, _backward)

    def partition(
        self, module: GraphModule, inputs: Any, *, num_fwd_outputs: int, **kwargs: Any
    ) -> tuple[GraphModule, GraphModule]:
        """Split a joint graph (AOTAutograd's ``partition_fn``) by its schedule."""
        lowered, schedule = self._plan(JointGraph(module, num_fwd_outputs))
        if lowered is None or schedule is None:
            forward, backward = default_partition(module, inputs, num_fwd_outputs=num_fwd_outputs, **kwargs)
            return forward, backward
        return Replay(lowered, schedule.steps, schedule.forward_end, debug=self._debug).graphs()

    def _plan(self, joint: JointGraph) -> tuple[Lowered | None, Schedule | None]:
        try:
            lowered = lower(joint)
        except UnsupportedModelError as error:
            return None, self._fallback(None, ScheduleMismatchError(str(error)))
        if lowered.graph.fingerprint == self._schedule.fingerprint:
            return lowered, self._schedule
        return lowered, self._fallback(lowered, ScheduleMismatchError(difference(self._schedule, lowered)))


def difference(schedule: Schedule, lowered: Lowered) -> str:
    """What tells a captured graph from the one that a schedule was made for."""
    graph = lowered.graph
    found = [graph.describe(i) for i in range(len(graph.ops))]
    text = f"the schedule was made for a graph of {len(schedule.ops)} ops, this call has {len(found)}"
    for i, (mine, theirs) in enumerate(zip(schedule.ops, found, strict=False)):
        if mine != theirs:
            return f"{text}; they first differ at op {i}: the schedule has {mine}, the call has {theirs}"
    for d, (size, item) in enumerate(zip(schedule.data_bytes, graph.data, strict=False)):
        if size != item.bytes:
            place = f"{graph.describe_data(d)} of {graph.ops[item.producer].name}"
            return f"{text} and the same ones; {place} has {size} bytes in the schedule, {item.bytes} in the call"
    return f"{text}, and nothing more is known of the schedule's; solve again"


def _forward(module: GraphModule, _inputs: Any) -> Callable[[list[Any]], Any]:
    return _boxed(_generated(module))


def _backward(module: GraphModule, _inputs: Any) -> Callable[[list[Any]], Any]:
    return _boxed(for_missing_tangents(module, _generated(module)))


def _generated(module: GraphModule) -> Callable[[list[Any]], Any]:
    """Generated code that takes its arguments as a list and empties it, so that they die at their last use."""
    module.graph.set_codegen(_BoxedCodeGen())
    module.recompile()
    forward: Callable[[list[Any]], Any] = module.forward
    return forward


def _boxed(run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Mark a function as one that takes its arguments as a list which it empties."""

    def call(args: list[Any]) -> Any:
        return run(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
