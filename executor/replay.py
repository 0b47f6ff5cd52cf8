"""Turning a schedule into the forward and the backward fx graph that execute it.

The steps are replayed one by one: ``Compute`` copies the op's node, ``Free`` forgets its data. Views
are copied where they are used, from the copy of their storage that is alive at that point. What the
backward pass uses of the forward pass becomes an additional output of the one and an input of the
other. Frees need no code: generated fx code drops each value behind its last use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from rematopt.executor.checking import check, checksum
from rematopt.executor.passes import DROPPABLE, Pass, fake_integers
from rematopt.executor.random_state import replay_random, save_random_state
from rematopt.graph import Recompute
from rematopt.profiler.lowering import Lowered
from rematopt.profiler.normalise import comes_again, recomputation
from rematopt.profiler.operators import is_getitem, is_tangent
from rematopt.schedule import Compute, Free, Step
from rematopt.storage import tensors_in


class Replay:
    """Writes the graphs of one schedule.

    Parameters
    ----------
    lowered : Lowered
        The joint graph and its lowering.
    steps : sequence of Compute or Free
        A valid schedule of ``lowered.graph``.
    forward_end : int
        Index of the first step of the backward pass.
    debug : bool
        Whether recomputed tensors are compared with the ones they replace.
    """

    def __init__(self, lowered: Lowered, steps: Sequence[Step], forward_end: int, *, debug: bool = False) -> None:
        self._lowered = lowered
        self._debug = debug
        self._checksums: dict[Node, Node] = {}
        self._step = 0
        self._forward_steps = steps[:forward_end]
        self._backward_steps = steps[forward_end:]
        self._done: set[int] = set()
        self._alive: set[int] = set()
        self._holders: dict[int, list[Node]] = {}
        for node, d in (*lowered.data_of.items(), *lowered.base_of.items()):
            self._holders.setdefault(d, []).append(node)
        runs = [step.op for step in steps if isinstance(step, Compute)]
        self._again = {op for op, count in Counter(runs).items() if count > 1}
        self._needed_states = {state for op, state in lowered.states.items() if op in self._again}

    def graphs(self) -> tuple[GraphModule, GraphModule]:
        """Write both graphs.

        Returns
        -------
        tuple of GraphModule
            Forward: the primals to the forward outputs and what backward needs. Backward: what it
            needs and the tangents to the gradients.
        """
        joint = self._lowered.joint
        outputs = self._lowered.results
        placeholders = joint.module.graph.find_nodes(op="placeholder")
        tangents = [p for p in placeholders if is_tangent(p)]

        forward = Pass()
        forward.values = {p: forward.add_input(p) for p in placeholders if p not in tangents}
        self._write(forward, self._forward_steps)
        results = [self._result(forward, node) for node in outputs[: joint.forward_outputs]]

        backward = Pass(outer=forward)
        backward.values = {p: backward.add_input(p) for p in tangents}
        self._write(backward, self._backward_steps)
        gradients = [self._result(backward, node) for node in outputs[joint.forward_outputs :]]
        backward.order_inputs()
        return (
            forward.finish(joint.module, "Forward", (*results, *backward.imported)),
            backward.finish(joint.module, "Backward", tuple(gradients)),
        )

    def _write(self, into: Pass, steps: Sequence[Step]) -> None:
        for step in steps:
            self._step += 1
            if isinstance(step, Free):
                self._free(into, step.data)
            elif self._lowered.nodes[step.op] is None:
                self._stand_in(into, step.op)
            else:
                self._compute(into, step.op)

    def _free(self, into: Pass, d: int) -> None:
        self._alive.discard(d)
        into.forget(d)
        for node in self._holders.get(d, ()):
            into.forget(node)

    def _stand_in(self, into: Pass, op: int) -> None:
        """An op without a node; only the saving of a random state that is used again becomes code."""
        if op in self._needed_states:
            (state,) = self._lowered.graph.ops[op].outputs
            device = self._draws_on(next(i for i, at in self._lowered.states.items() if at == op))
            saved = into.call(save_random_state, (device,), {})
            size = save_random_state(device).numel()
            saved.meta["val"] = fake_integers(self._lowered.joint.module, size, torch.uint8)
            into.values[state] = saved

    def _compute(self, into: Pass, op: int) -> None:
        node = self._lowered.nodes[op]
        assert node is not None
        target, args, kwargs = self._call(into, op, node)
        new = into.call(target, args, kwargs, like=node)
        fresh = [d for d in self._lowered.graph.ops[op].outputs if d not in self._alive]
        self._alive.update(fresh)
        self._bind(into, op, node, new, fresh)
        if self._debug and op in self._again:
            self._watch(into, op, node, fresh)
        self._done.add(op)

    def _call(self, into: Pass, op: int, node: Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """What to call for this run of ``op``."""
        again = op in self._done
        target, args, kwargs = recomputation(node) if again else (node.target, node.args, node.kwargs)
        args, kwargs = map_arg((args, kwargs), lambda n: self._value(into, n))
        if again and self._lowered.graph.ops[op].recompute is Recompute.RANDOM:
            (saved,) = self._lowered.graph.ops[self._lowered.states[op]].outputs
            return replay_random, (self._draws_on(op), into.find(saved), target, *args), kwargs
        return target, args, kwargs

    def _draws_on(self, op: int) -> torch.device:
        """Where a random op runs: its generator is that device's, whatever the rest of the model runs on."""
        node = self._lowered.nodes[op]
        assert node is not None
        return tensors_in(node.meta["val"])[0].device

    def _bind(self, into: Pass, op: int, node: Node, new: Node, fresh: Sequence[int]) -> None:
        """Make the results of a run the current values, except where an older copy is still alive."""
        if node in self._lowered.data_of:
            if self._lowered.data_of[node] in fresh:
                into.values[node] = new
            return
        for result in filter(is_getitem, node.users):
            d = self._lowered.data_of.get(result)
            missing = op in self._done and not comes_again(node, result)
            if not missing and (d is None or d in fresh):
                into.values[result] = self._pick(into, new, result)

    def _watch(self, into: Pass, op: int, node: Node, fresh: Sequence[int]) -> None:
        """Save checksums of an op's results at its first run, compare with them at every later one."""
        item = self._lowered.graph.ops[op]
        for result in (node, *node.users):
            value = into.values.get(result)
            if value is None or self._lowered.data_of.get(result) not in fresh:
                continue
            if op not in self._done:
                self._checksums[result] = into.call(checksum, (value,), {})
                self._checksums[result].meta["val"] = fake_integers(self._lowered.joint.module, 2)
                into.values[self._checksums[result]] = self._checksums[result]
            else:
                place = f"step {self._step - 1}: {item.name} ({item.target}) in {item.module or 'the model'}"
                into.call(check, (value, into.find(self._checksums[result]), place), {})

    def _pick(self, into: Pass, source: Node, like: Node) -> Node:
        picked = into.call(like.target, (source, like.args[1]), {}, like=like)
        picked.meta[DROPPABLE] = True
        return picked

    def _value(self, into: Pass, node: Node) -> Node:
        """The current value of a node of the joint graph; views are rebuilt from it where they are missing."""
        known = into.values.get(node) if self._is_view(node) else into.find(node)
        if known is not None:
            return known
        if node.op == "get_attr":
            new = into.graph.get_attr(str(node.target))
            new.meta = dict(node.meta)
        elif self._is_view(node):
            args, kwargs = map_arg((node.args, node.kwargs), lambda n: self._value(into, n))
            new = into.call(node.target, args, kwargs, like=node)
            new.meta[DROPPABLE] = True
        else:
            raise AssertionError(f"{node.name} is used while no copy of it is alive")
        into.values[node] = new
        return new

    def _is_view(self, node: Node) -> bool:
        return node in self._lowered.views

    def _result(self, into: Pass, node: Node | None) -> Node | None:
        return None if node is None else self._value(into, node)
