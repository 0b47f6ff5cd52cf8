"""The computation graph of one training step: what the profiler writes and the solver reads.

Plain frozen dataclasses without torch. An :class:`Op` is something that takes time, a :class:`Data`
is one *storage* that takes memory. Views do not appear: they belong to the storage they look into.
Parameters, buffers, inputs and other memory that exists before the step are no data either but the
constant :class:`StaticBytes`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Phase(StrEnum):
    """The half of the training step in which an op runs for the first time."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Recompute(StrEnum):
    """Whether an op may run again.

    ``RANDOM`` ops may run again, too: they draw their numbers from a saved random state, which is
    one of their inputs (a data of kind ``RANDOM_STATE``), so that every run gives the same result.
    """

    FREE = "free"
    RANDOM = "random"
    NEVER = "never"


class Kind(StrEnum):
    """What a data is; ``OUTPUT``, ``TANGENT`` and ``GRADIENT`` stay alive until the step ends.

    ``TANGENT`` is the gradient of the loss with respect to itself, which whoever called the backward
    pass holds. Gradients of other outputs are ``TEMPORARY``: autograd hands them over.
    """

    ACTIVATION = "activation"
    OUTPUT = "output"
    RANDOM_STATE = "random_state"
    TANGENT = "tangent"
    TEMPORARY = "temporary"
    GRADIENT = "gradient"


ACCUMULATE = "autograd.accumulate"
"""Target of the op in which autograd stores gradients whose layout is not their parameter's."""

OPTIMIZER_STEP = "optimizer.step"
"""Target of the last op of a training step: the optimizer's own step, whose workspace are its temporaries."""

KEPT_KINDS = frozenset({Kind.OUTPUT, Kind.TANGENT, Kind.GRADIENT})


@dataclass(frozen=True, kw_only=True)
class Op:
    """One operation of the training step.

    Parameters
    ----------
    name : str
        Name of the node in the captured graph, unique within the graph.
    target : str
        What is called, e.g. ``aten.mm.default``.
    phase : Phase
        Where the op runs for the first time.
    inputs : tuple of int
        Indices of the data it reads; all must be alive while it runs. Sorted, without repeats.
    outputs : tuple of int
        Indices of the data it produces, in the order of its results.
    seconds : float
        Time of one run.
    workspace_bytes : int
        Bytes allocated beyond the outputs while it runs, and returned when it ends.
    recompute : Recompute
        Whether it may run again.
    after : tuple of int
        Ops whose first run must come earlier although no data says so (random ops keep their order,
        a mutation waits for the readers of what it overwrites).
    module : str
        Path of the module that called it, e.g. ``transformer.h.0.mlp``; empty for the model itself.
    flops : int
        Floating point operations of one run, where the target has a known count, else 0.
    """

    name: str
    target: str
    phase: Phase
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    seconds: float = 0.0
    workspace_bytes: int = 0
    recompute: Recompute = Recompute.FREE
    after: tuple[int, ...] = ()
    module: str = ""
    flops: int = 0


@dataclass(frozen=True, kw_only=True)
class Data:
    """One storage that an op of the step allocates.

    Parameters
    ----------
    bytes : int
        Size as the device's allocator hands it out.
    producer : int
        Index of the op that allocates it.
    kind : Kind
        What it is; decides whether it may be freed before the step ends.
    label : str
        Shape and dtype for people, e.g. ``f32[2, 512, 768]``.
    """

    bytes: int
    producer: int
    kind: Kind = Kind.ACTIVATION
    label: str = ""

    @property
    def kept(self) -> bool:
        """Whether it stays alive until the step ends."""
        return self.kind in KEPT_KINDS


@dataclass(frozen=True, kw_only=True)
class StaticBytes:
    """Bytes that are resident during the whole step, by kind."""

    parameters: int = 0
    buffers: int = 0
    gradients: int = 0
    optimizer: int = 0
    inputs: int = 0

    @property
    def total(self) -> int:
        """Sum over the kinds."""
        return self.parameters + self.buffers + self.gradients + self.optimizer + self.inputs

    @property
    def by_kind(self) -> dict[str, int]:
        """Bytes under the names that people read."""
        return {
            "parameters": self.parameters,
            "buffers": self.buffers,
            "gradients": self.gradients,
            "optimizer state": self.optimizer,
            "inputs": self.inputs,
        }


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What a graph was captured from, in words that can be compared and shown.

    Parameters
    ----------
    model : str
        Class of the model.
    parameters : tuple of str
        One entry a parameter or buffer: name, dtype, shape, and whether it is trained.
    arguments : tuple of str
        One entry a tensor argument: its path in the call, dtype and shape.
    """

    model: str = ""
    parameters: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Ops in topological order, forward before backward, and the data between them.

    Parameters
    ----------
    ops, data : tuple
        Ops name data by index and data name their producer by index.
    static : StaticBytes
        Memory that is there before the step begins.
    signature : Signature
        What the graph was captured from.
    timing : str
        How the times were obtained: ``measured``, ``roofline: DEVICE`` for an estimate, empty if unknown.

    Raises
    ------
    ValueError
        If an index is out of range, an op reads what no earlier op produced, producer and outputs
        disagree, a size or time is negative, or a forward op follows a backward op.
    """

    ops: tuple[Op, ...]
    data: tuple[Data, ...]
    static: StaticBytes = StaticBytes()
    signature: Signature = Signature()
    timing: str = ""

    @property
    def estimated(self) -> bool:
        """Whether its times were not measured but estimated."""
        return is_estimate(self.timing)

    def __post_init__(self) -> None:
        for i, op in enumerate(self.ops):
            self._check_op(i, op)
        for d, item in enumerate(self.data):
            if not 0 <= item.producer < len(self.ops) or d not in self.ops[item.producer].outputs:
                raise ValueError(f"data {d} names op {item.producer} as its producer, which does not list it")
            if item.bytes < 0:
                raise ValueError(f"data {d} has {item.bytes} bytes; a size cannot be negative")

    def _check_op(self, i: int, op: Op) -> None:
        if i and op.phase is Phase.FORWARD and self.ops[i - 1].phase is Phase.BACKWARD:
            raise ValueError(f"op {i} ({op.name}) is a forward op behind a backward op")
        for d in (*op.inputs, *op.outputs):
            if not 0 <= d < len(self.data):
                raise ValueError(f"op {i} ({op.name}) names data {d}; there are {len(self.data)}")
        for d in op.inputs:
            if self.data[d].producer >= i:
                raise ValueError(f"op {i} ({op.name}) reads data {d}, which no earlier op produces")
        for d in op.outputs:
            if self.data[d].producer != i:
                raise ValueError(f"op {i} ({op.name}) lists data {d}, whose producer is {self.data[d].producer}")
        if any(not 0 <= j < i for j in op.after):
            raise ValueError(f"op {i} ({op.name}) must come after {op.after}, which are not all earlier ops")
        if op.seconds < 0 or op.workspace_bytes < 0:
            raise ValueError(f"op {i} ({op.name}) has a negative time or workspace")

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each data the ops that read it, in order."""
        found: list[list[int]] = [[] for _ in self.data]
        for i, op in enumerate(self.ops):
            for d in op.inputs:
                found[d].append(i)
        return tuple(tuple(c) for c in found)

    @cached_property
    def forward_count(self) -> int:
        """Number of forward ops, which is the index of the first backward op."""
        return sum(op.phase is Phase.FORWARD for op in self.ops)

    @cached_property
    def seconds(self) -> float:
        """Time of the step in which every op runs once."""
        return sum(op.seconds for op in self.ops)

    @property
    def optimizer_step_bytes(self) -> int:
        """Bytes that the optimizer's step allocates for a moment; 0 where it is not part of the graph."""
        return sum(op.workspace_bytes for op in self.ops if op.target == OPTIMIZER_STEP)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the structure: ops, data and sizes, but neither times nor static bytes."""
        structure = [
            [[o.name, o.target, o.phase, o.inputs, o.outputs, o.recompute, o.after] for o in self.ops],
            [[d.bytes, d.kind] for d in self.data],
        ]
        return hashlib.sha256(json.dumps(structure).encode()).hexdigest()[:16]

    @cached_property
    def structure(self) -> str:
        """Hash of what depends on what, without sizes: equal for calls that differ in their shapes only."""
        ops = [[o.target, o.phase, o.inputs, o.outputs, o.recompute, o.after] for o in self.ops]
        return hashlib.sha256(json.dumps([ops, [d.kind for d in self.data]]).encode()).hexdigest()[:16]

    def describe(self, i: int) -> str:
        """One line that identifies op ``i``, with all that its fingerprint holds but sizes; for comparing graphs."""
        op = self.ops[i]
        reads = ", ".join(f"d{d}" for d in op.inputs)
        rules = [str(op.phase)] if op.recompute is Recompute.FREE else [str(op.phase), f"recompute {op.recompute}"]
        rules += [f"after op {j}" for j in op.after]
        results = ", ".join(self.describe_data(d) for d in op.outputs)
        return f"{op.name} = {op.target}({reads}) -> ({results}) [{', '.join(rules)}]"

    def describe_data(self, d: int) -> str:
        """Number, form and kind of data ``d``, e.g. ``d3 f32[2, 4] gradient``."""
        item = self.data[d]
        return f"d{d} {item.label or f'{item.bytes} B'} {item.kind}"


def module_prefixes(module: str) -> list[str]:
    """Return the paths of a module and of all it lies in: ``a.b`` gives ``["", "a", "a.b"]``."""
    names = module.split(".") if module else []
    return [".".join(names[:count]) for count in range(len(names) + 1)]


def is_estimate(timing: str) -> bool:
    """Whether times that were obtained so (see :class:`Graph`) were not measured but estimated."""
    return timing.startswith("roofline")
