"""The moment of the peak: which op runs, and what is alive then."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rematopt.graph import Graph, Kind, Phase, module_prefixes
from rematopt.schedule import Compute, Step
from rematopt.simulator import simulate


class Role(StrEnum):
    """What a tensor is alive for."""

    RESULT = "result of this op"
    READ = "read by this op"
    BACKWARD = "kept for backward"
    LATER = "read later"
    OUTPUT = "model output"
    GRADIENT = "parameter gradient"
    TANGENT = "gradient of the loss"


_HELD = {Kind.OUTPUT: Role.OUTPUT, Kind.GRADIENT: Role.GRADIENT, Kind.TANGENT: Role.TANGENT}


@dataclass(frozen=True, kw_only=True)
class Alive:
    """A tensor's storage that is alive at the peak.

    Parameters
    ----------
    data : int
        Its index in the graph.
    bytes : int
        Its size.
    label : str
        Dtype and shape, e.g. ``f32[2, 512]``.
    producer, target, module : str
        The op that made it, what that calls, and the module that called it.
    role : Role
        What it is alive for.
    """

    data: int
    bytes: int
    label: str
    producer: str
    target: str
    module: str
    role: Role


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The moment at which most memory is resident.

    Parameters
    ----------
    bytes : int
        Resident bytes: static memory, everything alive, and what the running op allocates besides.
    step : int
        Index of the step in the schedule.
    op : int
        Index of the op that runs.
    name, target, module : str
        That op, what it calls, and the module that called it.
    phase : Phase
        The half of the step in which it runs here (a forward op may run again in backward).
    recomputed : bool
        Whether it runs again.
    static_bytes : int
        What was there before the step.
    transient_bytes : int
        Workspace, and results that are allocated a second time while the op runs again.
    alive : tuple of Alive
        Largest first.
    """

    bytes: int
    step: int
    op: int
    name: str
    target: str
    module: str
    phase: Phase
    recomputed: bool
    static_bytes: int
    transient_bytes: int
    alive: tuple[Alive, ...]

    @property
    def alive_bytes(self) -> int:
        """Sum over what is alive."""
        return sum(item.bytes for item in self.alive)

    @property
    def place(self) -> str:
        """Where it is, for people."""
        again = "running again " if self.recomputed else ""
        where = f" in {self.module}" if self.module else ""
        return f"{again}{self.name} ({self.target}){where}, {self.phase}"


@dataclass(frozen=True, kw_only=True)
class Group:
    """Tensors that are alike but for the number of their layer.

    Parameters
    ----------
    count : int
        How many.
    bytes : int
        Size of all together.
    like : Alive
        One of them; its module has ``*`` where they differ.
    """

    count: int
    bytes: int
    like: Alive


@dataclass(frozen=True, kw_only=True)
class Cause:
    """The role that most of what is alive plays, and the module that most of it comes from.

    Parameters
    ----------
    role : Role
        What it is alive for.
    bytes : int
        Its size.
    module : str
        Deepest module that made most of it; empty for the model itself.
    module_bytes : int
        What that module made of it.
    """

    role: Role
    bytes: int
    module: str
    module_bytes: int


MOST = 0.75
"""Share from which on a part counts as most of the whole."""


def cause_of(peak: Peak) -> Cause | None:
    """Find the cause of a peak; None if nothing is alive there."""
    sizes: Counter[Role] = Counter()
    for item in peak.alive:
        sizes[item.role] += item.bytes
    if not sizes:
        return None
    ((role, size),) = sizes.most_common(1)
    modules: Counter[str] = Counter()
    for item in peak.alive:
        if item.role is role:
            modules.update(dict.fromkeys(module_prefixes(item.module), item.bytes))
    module = max(
        (name for name in modules if modules[name] >= MOST * size), key=lambda name: len(module_prefixes(name))
    )
    return Cause(role=role, bytes=size, module=module, module_bytes=modules[module])


def peak_of(graph: Graph, steps: Sequence[Step]) -> Peak:
    """Find the peak of a schedule.

    Parameters
    ----------
    graph : Graph
        The graph.
    steps : sequence of Compute or Free
        A valid schedule of it, with at least one step.

    Raises
    ------
    InvalidScheduleError
        If the steps are no schedule of the graph.
    """
    played = simulate(graph, steps)
    at = max(0, played.peak_step)
    step = steps[at]
    assert isinstance(step, Compute)
    op = graph.ops[step.op]
    alive = _alive(graph, steps, at, played.peak_data)
    return Peak(
        bytes=played.peak_bytes,
        step=at,
        op=step.op,
        name=op.name,
        target=op.target,
        module=op.module,
        phase=Phase.FORWARD if at < played.forward_end else Phase.BACKWARD,
        recomputed=any(isinstance(s, Compute) and s.op == step.op for s in steps[:at]),
        static_bytes=graph.static.total,
        transient_bytes=played.peak_bytes - graph.static.total - sum(item.bytes for item in alive),
        alive=alive,
    )


def _alive(graph: Graph, steps: Sequence[Step], at: int, data: Sequence[int]) -> tuple[Alive, ...]:
    found = []
    for d in data:
        item, producer = graph.data[d], graph.ops[graph.data[d].producer]
        found.append(
            Alive(
                data=d,
                bytes=item.bytes,
                label=item.label,
                producer=producer.name,
                target=producer.target,
                module=producer.module,
                role=_role(graph, steps, at, d),
            )
        )
    return tuple(sorted(found, key=lambda item: (-item.bytes, item.data)))


def _role(graph: Graph, steps: Sequence[Step], at: int, d: int) -> Role:
    step = steps[at]
    assert isinstance(step, Compute)
    if graph.data[d].kind in _HELD:
        return _HELD[graph.data[d].kind]
    if d in graph.ops[step.op].outputs:
        return Role.RESULT
    if d in graph.ops[step.op].inputs:
        return Role.READ
    from_forward = graph.ops[graph.data[d].producer].phase is Phase.FORWARD
    readers = (s.op for s in steps[at + 1 :] if isinstance(s, Compute) and d in graph.ops[s.op].inputs)
    return Role.BACKWARD if from_forward and graph.ops[next(readers, 0)].phase is Phase.BACKWARD else Role.LATER


def grouped(alive: Sequence[Alive]) -> list[Group]:
    """Put tensors of equal layers together; the largest group comes first."""
    groups: dict[tuple[str, ...], list[Alive]] = {}
    for item in alive:
        key = (item.label, item.target, re.sub(r"\d+", "*", item.module), item.role)
        groups.setdefault(key, []).append(item)
    found = [
        Group(
            count=len(items),
            bytes=sum(item.bytes for item in items),
            like=items[0] if len({item.module for item in items}) == 1 else _starred(items),
        )
        for items in groups.values()
    ]
    return sorted(found, key=lambda group: -group.bytes)


def _starred(items: Sequence[Alive]) -> Alive:
    """One of the tensors, with a star for each name of the module path in which they differ."""
    paths = [item.module.split(".") for item in items]
    parts = [names[0] if len(set(names)) == 1 else "*" for names in zip(*paths, strict=True)]
    return replace(items[0], module=".".join(parts))
