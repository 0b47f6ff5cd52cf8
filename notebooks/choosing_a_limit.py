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
# # Choosing a memory limit for your GPU
#
# Three questions come before training: does the step fit, what does a smaller limit cost, would a larger batch pay?
# All can be answered without the GPU, since the sizes of a step follow from its shapes. This notebook runs
# nothing on a GPU and takes its times from a data sheet; on the machine itself leave `timing` out to measure.

# %%
# %matplotlib inline
import pandas as pd

import rematopt
import rematopt.zoo
from rematopt.max_batch import Question, Search
from rematopt.plot_schedule import plot_kept
from rematopt.units import format_bytes

sizes = {"resolution": 32, "width": 8, "depth": 2}

# %% [markdown]
# ## Does it fit?
#
# Inside `sizes_only` tensors have no memory, so a model of any size can be profiled on a laptop.

# %%
with rematopt.sizes_only():
    model, args, kwargs = rematopt.zoo.unet(batch=8, **sizes)
    profile = rematopt.profile(model, args, kwargs, timing="roofline:a100")
profile

# %% [markdown]
# `"min"` asks for the smallest limit for which a schedule is found. Between it and the unplanned peak lie the limits
# worth thinking about; leave a margin below the memory of the device for the context, libraries and fragmentation.

# %%
smallest = rematopt.solve(profile, "min", time_limit=3)
pd.Series(
    {
        "parameters, inputs and other static memory": format_bytes(profile.graph.static.total),
        "smallest limit": format_bytes(smallest.peak_bytes),
        "without a plan": format_bytes(smallest.unplanned_peak_bytes),
    }
)

# %% [markdown]
# ## What does a smaller limit cost?
#
# The curve is flat at first: the cheapest tensors to compute again go first. Its knee is where to stop, unless the
# device forces you further. `"min+50%"` is half of the way between both ends.

# %%
front = rematopt.pareto(profile, ["min", "min+50%", "100%"], time_limit=2, progress=False)
front.plot(title="A small U-Net: what a limit costs")

# %%
front.to_frame()[["limit_bytes", "overhead", "gap"]]

# %% [markdown]
# What the schedule in the middle keeps, and until when. Rows are modules, the line is the end of the forward pass.

# %%
plot_kept(profile.graph, front.schedules[1]).get_figure()

# %% [markdown]
# ## A larger batch instead?
#
# The other way to use a plan: keep the memory, and fill it with a larger batch. `rematopt max-batch` does this on the
# command line; here with the memory that a batch of 8 takes without a plan, for at most 15 % more time.

# %%
limit = smallest.unplanned_peak_bytes
question = Question(
    factory="zoo:unet", sizes=sizes, limit_bytes=limit, max_overhead=0.15, optimizer="none", time_limit=1
)
search = Search(question)
largest = {name: search.largest(name, verify=False).batch for name in ("store-all", "auto")}
assert largest["auto"] > largest["store-all"] >= 8
pd.Series(largest, name="largest batch")
