"""Random valid schedules of a training graph, and the state that training leaves."""

from __future__ import annotations

import copy
import random
import time
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from rematopt.graph import Graph, Recompute
from rematopt.model import run_backward
from rematopt.schedule import Schedule
from rematopt.solver.problem import Problem
from rematopt.solver.result import result_from_runs


def random_runs(graph: Graph, choose: random.Random, dropped: float) -> list[int]:
    """Forward once; then before each backward op whatever it needs of a random set of dropped data.

    What was recomputed is forgotten at once with probability one half, so that ops run many times.
    """
    drop = {
        d
        for d, item in enumerate(graph.data)
        if graph.ops[item.producer].recompute is not Recompute.NEVER
        and item.producer < graph.forward_count
        and choose.random() < dropped
    }
    runs = list(range(graph.forward_count))
    recomputed: set[int] = set()
    for i in range(graph.forward_count, len(graph.ops)):
        needed: set[int] = set()
        pending = [d for d in graph.ops[i].inputs if d in drop and d not in recomputed]
        while pending:
            op = graph.data[pending.pop()].producer
            if op not in needed:
                needed.add(op)
                pending += [d for d in graph.ops[op].inputs if d in drop and d not in recomputed]
        runs += [*sorted(needed), i]
        recomputed |= {d for op in needed for d in graph.ops[op].outputs}
        recomputed = {d for d in recomputed if choose.random() < 0.5}
    return runs


def schedule_of(graph: Graph, runs: list[int]) -> Schedule:
    """The schedule of a sequence of runs, whatever its peak."""
    problem = Problem(graph=graph, limit_bytes=2**62)
    schedule = result_from_runs(problem, runs, strategy="test", started=time.perf_counter()).schedule
    assert schedule is not None
    return schedule


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def train(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, steps: int = 1, seed: int = 5
) -> list[torch.Tensor]:
    """Train with AdamW and return everything that could differ: outputs, gradients, weights, buffers, random state."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    seed_all(seed)
    found: list[torch.Tensor] = []
    for _ in range(steps):
        optimizer.zero_grad()
        output = model(*args, **kwargs)
        found += [t.detach().clone() for t in tree_leaves(output) if isinstance(t, torch.Tensor)]
        run_backward(output)
        found += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
    found += [p.detach().clone() for p in model.parameters()]
    found += [b.detach().clone() for b in model.buffers()]
    return [*found, torch.get_rng_state()]


def assert_identical(mine: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    """Equal in number, form and every bit (not-a-number equals itself)."""
    assert len(mine) == len(theirs)
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride()), f"item {i} has another form"
        assert torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)), f"item {i} differs"


def plain_copy(model: torch.nn.Module) -> torch.nn.Module:
    """An independent copy of the model that no schedule is on."""
    return copy.deepcopy(model)
