"""Schedules of rematopt's strategies, replayed by its executor."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

import rematopt
from experiments.methods.method import Restore
from rematopt.errors import InfeasibleLimitError
from rematopt.front import pareto, without_limit
from rematopt.profile import Profile
from rematopt.schedule import Schedule

WITHOUT_LIMIT = ("chen-sqrt", "recompute-all", "store-all")
"""Strategies that give the same schedule at every limit."""


class Planned:
    """Schedules of one strategy; a setting is a memory limit in bytes.

    Parameters
    ----------
    name : str
        Of the strategy.
    schedules : iterable of Schedule
        One a limit.
    """

    def __init__(self, name: str, schedules: Iterable[Schedule]) -> None:
        self.name = name
        self.schedules = {_setting(schedule): schedule for schedule in schedules}

    def settings(self, _model: nn.Module) -> tuple[str, ...]:
        """The limits."""
        return tuple(self.schedules)

    def prepare(self, model: nn.Module, setting: str) -> Restore:
        """Apply the schedule."""
        return rematopt.apply(model, self.schedules[setting], on_mismatch="error").remove


def _setting(schedule: Schedule) -> str:
    return "" if schedule.limit_bytes is None else str(schedule.limit_bytes)


def planned(strategy: str, profile: Profile, limits: Iterable[int], *, time_limit: float) -> Planned:
    """Solve for limits in bytes; those for which the strategy finds nothing are left out.

    Parameters
    ----------
    strategy : str
        ``auto``'s schedules come as a front, each at least as good as those for lower limits.
    profile : Profile
        Of the model.
    limits : iterable of int
        Bytes.
    time_limit : float
        Seconds for each solve.
    """
    if strategy in WITHOUT_LIMIT:
        return Planned(strategy, [without_limit(profile.graph, strategy)])
    if strategy == "auto":
        return Planned(strategy, pareto(profile, limits, time_limit=time_limit, progress=False).schedules)
    found = []
    for limit in limits:
        try:
            found.append(rematopt.solve(profile, limit, strategy=strategy, time_limit=time_limit))
        except InfeasibleLimitError:
            continue
    return Planned(strategy, found)
