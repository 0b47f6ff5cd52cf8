"""Progress on stderr, shown only where somebody watches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rematopt.console import percent

if TYPE_CHECKING:
    from rematopt.solver import Progress as SolverProgress

T = TypeVar("T")


def _bar(show: bool | None) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = console.is_terminal if show is None else show
    return Progress(*columns, console=console, transient=True, disable=not shown)


def counted(items: Iterable[T], *, total: int, label: str, show: bool | None = None) -> Iterator[T]:
    """Pass items on while a bar counts them.

    Parameters
    ----------
    items : iterable
        What to pass on.
    total : int
        Their number.
    label : str
        Text in front of the bar.
    show : bool, optional
        Whether to draw the bar; by default if stderr is a terminal.
    """
    with _bar(show) as progress:
        yield from progress.track(items, total=total, description=label)


@contextmanager
def ops_progress() -> Iterator[Callable[[int, int, str], None]]:
    """Draw a bar for the profiler: the callback takes ops done, their total and the next one's name."""
    with _bar(None) as progress:
        task = progress.add_task("profiling", total=None)

        def report(done: int, total: int, name: str) -> None:
            progress.update(task, completed=done, total=total, description=f"profiling {name[:32]:32}")

        yield report


@contextmanager
def solver_progress(unplanned_seconds: float) -> Iterator[Callable[[SolverProgress], None]]:
    """Keep one line up to date while a solver runs.

    Parameters
    ----------
    unplanned_seconds : float
        Time of the step without recomputation, to which extra times refer.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("solving") as status:
        yield lambda event: status.update(solver_line(event, unplanned_seconds))


def solver_line(event: SolverProgress, unplanned_seconds: float) -> str:
    """Say in one line what is known of a search: best schedule and who found it, bound, gap."""
    bound = percent(event.bound / unplanned_seconds - 1, digits=2, sign=True)
    if math.isinf(event.seconds):
        return f"{event.elapsed:5.1f} s  no schedule yet ({event.strategy})  bound {bound}"
    best = percent(event.seconds / unplanned_seconds - 1, digits=2, sign=True)
    return f"{event.elapsed:5.1f} s  best {best} ({event.strategy})  bound {bound}  gap {percent(event.gap, digits=2)}"
