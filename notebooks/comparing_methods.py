# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Comparing ways to save memory on your model
#
# Checkpointing is one line of PyTorch; is a plan worth more than that line? This notebook measures both on one model,
# the way `python -m experiments.pareto` does for many: same weights, same batch, same random numbers, real peaks.

# %%
# %matplotlib inline
from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
import torch
from torch.utils.checkpoint import checkpoint

import rematopt
import rematopt.zoo

sizes = {"batch": 512, "width": 64, "depth": 4}


def make():
    """Build the model anew; the same seed gives the same weights and batch."""
    return rematopt.zoo.mlp(**sizes)


model, args, kwargs = make()
profile = rematopt.profile(model, args, kwargs)

# %% [markdown]
# ## The methods
#
# Each is a function that prepares a fresh model. Checkpointing wraps the blocks; a plan is solved for the peak that
# checkpointing reaches, so that both can be compared at equal memory.


# %%
def checkpointed(model, every=1):
    """Checkpoint each `every`-th block of the model."""
    for block in model.blocks[::every]:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def planned(model, schedule):
    """Train by a schedule."""
    rematopt.apply(model, schedule, on_mismatch="error")


# %% [markdown]
# ## Measuring
#
# `measure` gives the real peak and the median time of a step; gradients are compared with the plain model's, and so are
# the running statistics of the batch normalization.


# %%
def measured(name, prepare):
    """Run a fresh model that `prepare` has changed."""
    model, args, kwargs = make()
    prepare(model)
    found = rematopt.measure(model, args, kwargs, repeats=3)
    torch.manual_seed(0)
    model(*args, **kwargs).backward()
    gradients = [p.grad for p in model.parameters()]
    return {
        "method": name,
        "peak_bytes": found.peak_bytes,
        "seconds": found.seconds,
        "gradients": gradients,
        "state": list(model.buffers()),
    }


results = [
    measured("plain", lambda model: None),
    measured("checkpoint blocks", checkpointed),
    measured("checkpoint 1 block in 2", partial(checkpointed, every=2)),
]
for peak in [result["peak_bytes"] for result in results[1:]]:
    schedule = rematopt.solve(profile, peak, time_limit=2)
    results.append(measured("rematopt", partial(planned, schedule=schedule)))

# %%
plain = results[0]
table = pd.DataFrame(
    {
        "method": result["method"],
        "peak_bytes": result["peak_bytes"],
        "time": result["seconds"] / plain["seconds"],
        "gradients": all(map(torch.equal, result["gradients"], plain["gradients"])),
        "state": all(map(torch.equal, result["state"], plain["state"])),
    }
    for result in results
)
ours = table[table["method"] == "rematopt"]
assert ours["gradients"].all()
assert ours["state"].all()
assert (ours["peak_bytes"].to_numpy() <= table["peak_bytes"][1:3].to_numpy()).all()
table

# %% [markdown]
# `state` shows a difference that is easy to miss: a checkpointed block runs its forward pass twice, and its batch
# normalization moves the running statistics twice. A plan recomputes what backward needs, and nothing else.

# %%
figure, axes = plt.subplots()
for method, group in table.groupby("method", sort=False):
    axes.plot(group["peak_bytes"] / 2**20, group["time"], "o", label=method)
axes.set_xlabel("measured peak [MiB]")
axes.set_ylabel("time of a step, plain = 1")
axes.legend()
plt.show()

# %% [markdown]
# Times of single steps are noisy. What a plan costs more exactly, and how far it is from the best there is, says the
# curve of predictions with its bound.

# %%
rematopt.pareto(profile, limits=3, time_limit=2, progress=False).plot(title="Predicted")
