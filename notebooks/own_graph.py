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
# # Bring your own graph
#
# The solver knows no PyTorch. Whatever can be written down as ops with a cost and results with a size can be scheduled
# under a memory limit: graphs of another framework, published instances, thought experiments.

# %%
# %matplotlib inline
import json
from pathlib import Path

import pandas as pd

import rematopt
from rematopt.plot_schedule import plot_runs
from rematopt.plot_timeline import plot_timeline
from rematopt.simulator import simulate
from rematopt.solver.importing import import_graph
from rematopt.solver.registry import STRATEGIES

# %% [markdown]
# ## Write it down
#
# The simplest form: a cost and a size for each node, and edges from producers to readers, nodes in an order in which
# they can run. Here a chain of eight layers whose backward nodes read the result of their layer and of the one below.

# %%
layers = 8
forward = list(range(layers))
backward = [layers + i for i in range(layers)]
edges = [(i, i + 1) for i in range(2 * layers - 1)]
for step, node in enumerate(backward[1:], start=1):
    layer = layers - 1 - step
    edges += [(layer, node)]
document = {
    "cost": [1.0] * layers + [2.0] * layers,
    "mem": [100] * layers + [60] * layers,
    "edges": edges,
}
Path("chain.json").write_text(json.dumps(document))
graph = import_graph("chain.json")
len(graph.ops), graph.seconds

# %% [markdown]
# Costs keep their unit; sizes are bytes. On the command line, `rematopt import-graph chain.json -o graph.json` makes a
# file that `rematopt solve` and `rematopt pareto` take. The loader also reads two published node-link formats.
#
# ## Solve and look
#
# Every schedule is a list of steps, and the simulator is the one judge of whether it is valid and what it takes.

# %%
schedule = rematopt.solve(graph, "60%", time_limit=5, gap=0)
found = simulate(graph, schedule.steps)
assert found.peak_bytes == schedule.peak_bytes <= schedule.limit_bytes
schedule

# %%
plot_timeline(graph, schedule).get_figure()

# %%
plot_runs(graph, schedule).get_figure()

# %% [markdown]
# ## The strategies beside each other
#
# A proof that no schedule is cheaper, heuristics from the literature, and all that lies in between.

# %%
rows = []
for strategy in ("milp", "checkmate", "chen-sqrt", "revolve", "recompute-all"):
    assert strategy in STRATEGIES
    try:
        result = rematopt.solve(graph, schedule.limit_bytes, strategy=strategy, time_limit=5, gap=0)
        rows.append({"strategy": strategy, "cost": result.seconds, "peak": result.peak_bytes, "status": result.status})
    except rematopt.errors.InfeasibleLimitError:
        rows.append({"strategy": strategy, "status": "finds none"})
table = pd.DataFrame(rows).set_index("strategy")
assert table["cost"].min() >= schedule.bound_seconds - 1e-9
table
