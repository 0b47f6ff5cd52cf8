"""Train a PyTorch model inside a memory limit at the least extra time.

Profile the training step once, solve for the cheapest recompute schedule under the limit, and train by
it::

    import rematopt

    profile = rematopt.profile(model, args, kwargs, optimizer=optimizer)
    schedule = rematopt.solve(profile, "8GiB")
    handle = rematopt.apply(model, schedule)

or all three at once with :func:`rematopt.optimize`. Importing rematopt does not import torch.
"""

from __future__ import annotations

from importlib import metadata

from rematopt.api import apply, measure, optimize, profile, sizes_only
from rematopt.errors import (
    ArtefactError,
    InfeasibleLimitError,
    InvalidInputError,
    InvalidScheduleError,
    RematoptError,
    ScheduleMismatchError,
    SolverUnavailableError,
    UnsupportedModelError,
)
from rematopt.explanation import Explanation, explain
from rematopt.front import Front, pareto
from rematopt.graph import Graph
from rematopt.profile import Profile
from rematopt.schedule import Schedule, Status
from rematopt.solver import solve

__version__ = metadata.version("rematopt")

__all__ = [
    "ArtefactError",
    "Explanation",
    "Front",
    "Graph",
    "InfeasibleLimitError",
    "InvalidInputError",
    "InvalidScheduleError",
    "Profile",
    "RematoptError",
    "Schedule",
    "ScheduleMismatchError",
    "SolverUnavailableError",
    "Status",
    "UnsupportedModelError",
    "__version__",
    "apply",
    "explain",
    "measure",
    "optimize",
    "pareto",
    "profile",
    "sizes_only",
    "solve",
]
