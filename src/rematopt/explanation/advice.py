"""What to do about a peak: each rule looks for one cause and names the way out.

A rule takes the facts and returns a sentence or two, or None where its cause is not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from rematopt.explanation.peak import Alive, Peak
from rematopt.graph import OPTIMIZER_STEP, Graph, Recompute
from rematopt.reserved import Reserved
from rematopt.solver.bounds import Floor
from rematopt.units import format_bytes

HAIR = 0.01
"""A smallest limit this close to the unplanned peak (as a share of it) is no gain."""

LARGE = 0.2
"""Share of what is alive at the peak from which on a cause is worth a remark."""

FRAGMENTED = 0.05
"""Share of the reserved bytes from which on what growing segments save is worth a remark."""

_LOSS = ("log_softmax", "nll_loss", "cross_entropy")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the rules know.

    Parameters
    ----------
    graph : Graph
        The graph.
    peak : Peak
        The peak of the schedule that is explained.
    floor : Floor
        The op that needs most by itself.
    unplanned_peak_bytes : int
        Peak without rematerialization.
    smallest_limit_bytes : int or None
        Smallest limit for which a schedule is known; None if nobody searched.
    reserved : Reserved or None
        What CUDA's caching allocator takes from the device; None on a CPU.
    """

    graph: Graph
    peak: Peak
    floor: Floor
    unplanned_peak_bytes: int
    smallest_limit_bytes: int | None
    reserved: Reserved | None = None

    def size(self, alive: Collection[Alive]) -> int:
        """Bytes of some of the tensors."""
        return sum(item.bytes for item in alive)

    def large(self, size: int) -> bool:
        """Whether so many bytes are a large part of what is not static at the peak."""
        return size > 0 and size >= LARGE * (self.peak.bytes - self.peak.static_bytes)


Rule = Callable[[Facts], str | None]


def no_gain(facts: Facts) -> str | None:
    """Nothing can be saved."""
    least = facts.floor.bytes if facts.smallest_limit_bytes is None else facts.smallest_limit_bytes
    if least < (1 - HAIR) * facts.unplanned_peak_bytes:
        return None
    return (
        f"No gain possible by recomputation: the smallest limit, {format_bytes(least)}, is the unplanned peak within "
        f"{HAIR:.0%}. {_sentence(facts.floor.explain(facts.graph))}"
    )


def static_memory(facts: Facts) -> str | None:
    """Most of the peak was there before the step."""
    static = facts.graph.static
    if 2 * static.total <= facts.peak.bytes:
        return None
    kinds = static.by_kind
    largest = max(kinds, key=lambda name: kinds[name])
    return (
        f"{static.total / facts.peak.bytes:.0%} of the peak is static memory ({largest} {format_bytes(kinds[largest])}"
        "), which recomputation leaves alone: an optimizer with less state, fewer trained parameters (adapters), "
        "parameters in a smaller dtype, or sharding reduce it."
    )


def loss_and_logits(facts: Facts) -> str | None:
    """Logits and what the loss makes of them are a large part of the peak, or of the floor."""
    data = _loss_data(facts.graph)
    alive = [item for item in facts.peak.alive if item.data in data]
    in_floor = sorted((d for d in facts.floor.data if d in data), key=lambda d: -facts.graph.data[d].bytes)
    way_out = (
        "Compute the loss in chunks of rows (each chunk's logits made, used and dropped in turn), leave rows out that "
        "the loss ignores, or take a smaller batch for them."
    )
    if facts.large(facts.size(alive)):
        return (
            f"The loss dominates: {_several(alive)} of logits and what the loss makes of them "
            f"({format_bytes(facts.size(alive))}) are alive at the peak. {way_out}"
        )
    size = sum(facts.graph.data[d].bytes for d in in_floor)
    if size and size >= LARGE * (facts.floor.bytes - facts.graph.static.total):
        return (
            f"The loss sets the smallest limit: {facts.graph.ops[facts.floor.op].name} needs "
            f"{format_bytes(size)} of logits and what the loss makes of them "
            f"({facts.graph.data[in_floor[0]].label}) at once. {way_out}"
        )
    return None


def _loss_data(graph: Graph) -> set[int]:
    """Data that a loss over classes reads or makes."""
    found: set[int] = set()
    for op in graph.ops:
        if any(name in op.target for name in _LOSS):
            found.update(op.inputs, op.outputs)
    return found


def attention_scores(facts: Facts) -> str | None:
    """Attention probabilities are stored as a whole."""
    data: set[int] = set()
    for op in facts.graph.ops:
        if "_softmax" in op.target and "log_softmax" not in op.target:
            data.update(d for d in (*op.inputs, *op.outputs) if _square(facts.graph.data[d].label))
    shapes = {facts.graph.data[d].label.partition("[")[2] for d in data}
    alike = [item for item in facts.peak.alive if item.label.partition("[")[2] in shapes]
    if not facts.large(facts.size(alike)):
        return None
    split_up = any("_safe_softmax" in op.target for op in facts.graph.ops)
    way_out = (
        "scaled_dot_product_attention ran as separate ops here; its fused kernel, which stores none of them, takes no "
        "attention dropout on CPU and only some masks and dtypes on GPUs."
        if split_up
        else "scaled_dot_product_attention (attn_implementation='sdpa' in transformers) does not store them."
    )
    return f"Attention scores: {_several(alike)} ({format_bytes(facts.size(alike))}) are alive at the peak. {way_out}"


def _square(label: str) -> bool:
    """Whether the last two sizes in a label are equal, as those of scores of all tokens for all tokens are."""
    sizes = re.findall(r"\d+", label.partition("[")[2])
    return len(sizes) >= 3 and sizes[-1] == sizes[-2] != "1"


def optimizer_step(facts: Facts) -> str | None:
    """The peak is not in the passes but in the optimizer's step; where nothing can be saved, `no_gain` says so."""
    if facts.peak.target != OPTIMIZER_STEP or no_gain(facts) is not None:
        return None
    return (
        f"The optimizer's step sets the peak: it allocates {format_bytes(facts.peak.transient_bytes)} for a moment, "
        "while parameters, gradients and state are there. foreach=False or fused=True needs less; recomputation does "
        "not change it."
    )


def workspace(facts: Facts) -> str | None:
    """The running op's workspace is a large part of the peak."""
    if facts.peak.target == OPTIMIZER_STEP or not facts.large(facts.peak.transient_bytes):
        return None
    return (
        f"{facts.peak.name} ({facts.peak.target}) allocates {format_bytes(facts.peak.transient_bytes)} besides its "
        "results while it runs; a smaller batch or another algorithm for this op lowers the peak."
    )


def kept_for_good(facts: Facts) -> str | None:
    """Large tensors that no schedule may drop and make again."""
    ops = facts.graph.ops
    never = [
        item
        for item in facts.peak.alive
        if "kept" in item.role and ops[facts.graph.data[item.data].producer].recompute is Recompute.NEVER
    ]
    if not facts.large(facts.size(never)):
        return None
    return (
        f"{_several(never)} ({format_bytes(facts.size(never))}) come from ops that may run only once "
        f"({', '.join(sorted({item.target for item in never})[:3])}), so they are kept."
    )


def fragmentation(facts: Facts) -> str | None:
    """The allocator reserves much more than it hands out, and growing segments would not."""
    found = facts.reserved
    if found is None or found.reserved_bytes - found.expandable_bytes < FRAGMENTED * found.reserved_bytes:
        return None
    return (
        f"The allocator reserves {format_bytes(found.reserved_bytes)} for a peak of "
        f"{format_bytes(found.allocated_bytes)} ({found.fragmentation:.0%} fragmentation); with "
        f"PYTORCH_ALLOC_CONF=expandable_segments:True (before torch 2.9 PYTORCH_CUDA_ALLOC_CONF) it takes "
        f"{format_bytes(found.expandable_bytes)}."
    )


RULES: Sequence[Rule] = (
    no_gain,
    optimizer_step,
    loss_and_logits,
    attention_scores,
    workspace,
    kept_for_good,
    fragmentation,
    static_memory,
)
"""In the order in which they are shown."""


def advice(facts: Facts) -> tuple[str, ...]:
    """Return what the rules have to say."""
    return tuple(text for rule in RULES if (text := rule(facts)) is not None)


def _several(items: Sequence[Alive]) -> str:
    """``3 tensors like f32[2, 512]``."""
    return f"{len(items)} tensor{'s' if len(items) > 1 else ''}" + (f" like {items[0].label}" if items else "")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
