"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from rematopt.errors import InvalidInputError
from rematopt.solver.problem import Strategy
from rematopt.solver.progress import Report


@dataclass(frozen=True)
class Options:
    """What a caller may ask of any strategy; each takes what it knows.

    Parameters
    ----------
    gap : float
        Distance to the bound, as a share of the step's time, that is good enough.
    progress : callable, optional
        Is called with a :class:`rematopt.solver.progress.Progress` now and then.
    """

    gap: float = 0.0
    progress: Report | None = None


_Make = Callable[[type, Options], Strategy]


def _plain(cls: type, options: Options) -> Strategy:
    strategy: Strategy = cls()
    return strategy


def _with_gap(cls: type, options: Options) -> Strategy:
    strategy: Strategy = cls(gap=options.gap)
    return strategy


def _with_all(cls: type, options: Options) -> Strategy:
    strategy: Strategy = cls(gap=options.gap, progress=options.progress)
    return strategy


# Modules are imported when a strategy is made, so that one solver's library is no price for another.
STRATEGIES: dict[str, tuple[str, str, _Make]] = {
    "auto": ("auto", "Auto", _with_all),
    "milp": ("milp", "Milp", _with_gap),
    "checkmate": ("checkmate", "Checkmate", _plain),
    "cpsat": ("cpsat", "CpSat", _plain),
    "lp-rounding": ("rounding", "LpRounding", _plain),
    "chain": ("chain", "Chain", _plain),
    "chen-sqrt": ("chen", "ChenSqrt", _plain),
    "chen-greedy": ("chen", "ChenGreedy", _plain),
    "revolve": ("revolve", "Revolve", _plain),
    "greedy": ("greedy", "Greedy", _plain),
    "reorder": ("reorder", "Reorder", _plain),
    "local-search": ("neighbourhood", "LocalSearch", _plain),
    "store-all": ("baselines", "StoreAll", _plain),
    "recompute-all": ("baselines", "RecomputeAll", _plain),
}


def create(name: str, options: Options | None = None) -> Strategy:
    """Make the strategy called ``name``.

    Raises
    ------
    InvalidInputError
        If there is none of that name; the message lists the names.
    """
    if name not in STRATEGIES:
        raise InvalidInputError(f"there is no strategy {name!r}; choose one of {', '.join(STRATEGIES)}")
    module, cls, make = STRATEGIES[name]
    return make(getattr(import_module(f"rematopt.solver.{module}"), cls), options or Options())
