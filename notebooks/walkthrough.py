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
# # Training a U-Net inside a memory limit
#
# The backward pass of a network needs the activations of the forward pass, so training keeps most of them. rematopt
# decides which ones to drop and compute again, such that the peak memory of the whole step stays under a limit and the
# extra time is as small as possible. This notebook follows one model from its profile to the Pareto curve.
#
# Open it with `jupytext --to ipynb notebooks/walkthrough.py` or directly in an editor that knows the percent format.

# %%
# %matplotlib inline
import pandas as pd
import torch

import rematopt
import rematopt.zoo
from rematopt.plot_timeline import plot_timeline
from rematopt.units import format_bytes

torch.manual_seed(0)
sizes = {"batch": 2, "resolution": 64, "width": 8, "depth": 3}
model, args, kwargs = rematopt.zoo.unet(**sizes)

# %% [markdown]
# ## Profile
#
# Every op of the forward and backward graph is run once by itself and measured. The step as a whole is not run, so this
# also works for a model whose step does not fit into memory.

# %%
profile = rematopt.profile(model, args, kwargs)
profile

# %% [markdown]
# What the step keeps for backward, by module. The encoders at full resolution hold most of it, and the skip connections
# need theirs until late.

# %%
modules = profile.to_dataframe("module")
modules.loc[modules["depth"] <= 1, ["module", "seconds", "retained_bytes", "workspace_bytes"]]

# %% [markdown]
# ## Solve
#
# A limit can be bytes, a size such as `"8GiB"`, a share of the unplanned peak, or `"min"`. The result says what it
# costs and how far it is, at most, from the cheapest schedule there is.

# %%
schedule = rematopt.solve(profile, "70%", time_limit=10)
schedule

# %% [markdown]
# The timeline shows what is resident while the step runs. The strip at the bottom marks where ops run again.

# %%
plot_timeline(profile.graph, schedule).get_figure()

# %% [markdown]
# ## Train
#
# `apply` changes the model in place. Its class, parameters and state_dict keys stay as they were, and so do the
# numbers: the losses below are compared bit by bit with those of a plain copy.


# %%
def train(model: torch.nn.Module, steps: int = 3) -> list[float]:
    """Train with plain PyTorch; nothing in here knows of rematopt."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        loss = model(*args, **kwargs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


plain, _, _ = rematopt.zoo.unet(**sizes)
handle = rematopt.apply(model, schedule)
planned_losses, plain_losses = train(model), train(plain)
assert planned_losses == plain_losses
planned_losses

# %% [markdown]
# What the schedule promised, and what the allocator saw:

# %%
peaks = {
    "plain model": rematopt.measure(plain, args, kwargs).peak_bytes,
    "limit": schedule.limit_bytes,
    "predicted": schedule.peak_bytes,
    "measured": rematopt.measure(model, args, kwargs).peak_bytes,
}
assert peaks["measured"] <= peaks["limit"]
pd.Series({name: format_bytes(size) for name, size in peaks.items()})

# %%
handle.remove()  # the plain model again

# %% [markdown]
# ## The whole curve
#
# One solve for each limit from the smallest feasible one to the unplanned peak. In the shaded region there is no
# schedule, whatever the method.

# %%
front = rematopt.pareto(profile, limits=5, time_limit=5, progress=False)
front.plot(title="U-Net: memory against time")

# %%
front.to_frame()[["limit_bytes", "peak_bytes", "overhead", "gap", "strategy"]]
