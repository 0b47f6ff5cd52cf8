"""Output of the commands: a table for people on a terminal, aligned text in a pipe, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from rematopt.errors import InfeasibleLimitError, InvalidInputError, RematoptError

_NUMBERS = "0123456789+-"


def print_json(value: Any) -> None:
    """Print one JSON value on a line of its own."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def print_table(title: str, rows: Sequence[Mapping[str, str]]) -> None:
    """Print rows under their keys; columns of numbers are aligned to the right.

    Parameters
    ----------
    title : str
        Line above the table.
    rows : sequence of mapping
        All with the same keys; values as they are shown.
    """
    columns = list(rows[0]) if rows else []
    right = right_aligned(rows)
    if sys.stdout.isatty():
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for name in columns:
            table.add_column(name, justify="right" if name in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*row.values())
        Console().print(table)
        return
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    lines = [title, *(_line(row, widths, right) for row in [dict(zip(columns, columns, strict=True)), *rows])]
    sys.stdout.write("\n".join(lines) + "\n")


def right_aligned(rows: Sequence[Mapping[str, str]]) -> set[str]:
    """Return the columns that hold numbers only."""
    columns = rows[0] if rows else ()
    return {name for name in columns if all(row[name][:1] in _NUMBERS for row in rows)}


def _line(row: Mapping[str, str], widths: Mapping[str, int], right: set[str]) -> str:
    cells = [row[name].rjust(w) if name in right else row[name].ljust(w) for name, w in widths.items()]
    return "  ".join(cells).rstrip()


def print_facts(title: str, facts: Mapping[str, str]) -> None:
    """Print a line a fact, names to the left."""
    width = max(map(len, facts), default=0)
    lines = [title, *(f"  {name.ljust(width)}  {value}" for name, value in facts.items())]
    Console(highlight=False, soft_wrap=True).print("\n".join(lines), markup=False)


def note(message: str) -> None:
    """Print a line for people to stderr, so that it never mixes with results."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(message, markup=False)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn rematopt's errors into one line on stderr and an exit code.

    3 for an infeasible limit, 2 for an argument that cannot be used, 1 for any other error.
    """
    try:
        yield
    except RematoptError as error:
        note(f"error: {error}")
        sys.exit(3 if isinstance(error, InfeasibleLimitError) else 2 if isinstance(error, InvalidInputError) else 1)


def percent(share: float | None, *, digits: int = 1, sign: bool = False) -> str:
    """Write a share in percent: ``5.8 %``; a dash for None."""
    if share is None:
        return "-"
    return f"{100 * share:{'+' if sign else ''}.{digits}f} %"
