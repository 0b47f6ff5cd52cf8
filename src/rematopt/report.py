"""A folder of profiles, schedules, measured rows and pictures as one page that needs nothing else."""

from __future__ import annotations

import base64
import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment
from matplotlib.axes import Axes

from rematopt import views
from rematopt.artefacts import load_any, write_atomically
from rematopt.console import note, right_aligned
from rematopt.errors import ArtefactError
from rematopt.front import BASELINES, Front, Point, consistent, without_limit
from rematopt.plot_front import plot_front
from rematopt.plot_schedule import plot_kept, plot_runs
from rematopt.plot_style import finish
from rematopt.plot_timeline import plot_timeline
from rematopt.profile import Profile
from rematopt.progress import counted
from rematopt.schedule import Schedule
from rematopt.units import format_bytes

MOST_PICTURES = 3
"""Schedules of a model that are drawn: those with the smallest limits."""

MODULE_DEPTH = 2
"""Modules down to this depth are listed."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A table or a picture under a heading.

    Parameters
    ----------
    heading : str
        Above it.
    rows : sequence of mapping
        Of the table, all with the same keys.
    picture : str
        A PNG in base64; empty for a table.
    """

    heading: str
    rows: Sequence[Mapping[str, str]] = ()
    picture: str = ""

    @property
    def numbers(self) -> set[str]:
        """Columns that are aligned to the right."""
        return right_aligned(self.rows)


@dataclass(frozen=True, kw_only=True)
class Section:
    """What the page says of one model, or of one file.

    Parameters
    ----------
    name : str
        Heading.
    facts : mapping
        In a list below it.
    parts : list of Part
        Tables and pictures.
    """

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    parts: Sequence[Part] = ()


def write_report(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write a page about what lies in a folder.

    Profiles with the schedules made for them (``*.json``), tables (``*.csv``) and pictures (``*.png``). Other files
    are left out; so are schedules without their profile, with a remark.

    Parameters
    ----------
    folder : path
        Where the files are; its own folders are not searched.
    path : path
        The page, which holds its pictures itself.

    Raises
    ------
    ArtefactError
        If the folder does not exist or holds nothing of this, a table cannot be read, or the page cannot be written.
    """
    source = Path(folder)
    if not source.is_dir():
        raise ArtefactError(f"there is no folder {source}; give one with profiles, schedules, tables or pictures")
    sections = [*_models(source), *_tables(source), *_pictures(source)]
    if not sections:
        raise ArtefactError(
            f"{source} holds no profile, table or picture; `rematopt pareto ... -o {source}` makes some"
        )
    from rematopt import __version__

    template = Environment(autoescape=True).from_string(
        files("rematopt").joinpath("report.html.jinja").read_text(encoding="utf-8")
    )
    page = template.render(title=f"rematopt: {source.resolve().name}", sections=sections, version=__version__)
    write_atomically(path, page.encode())


def _models(folder: Path) -> Iterable[Section]:
    profiles: dict[str, Profile] = {}
    schedules: dict[str, list[Schedule]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found = load_any(path)
        except ArtefactError:
            continue  # rows of an experiment lie beside their table, which is shown
        if isinstance(found, Profile):
            profiles[found.graph.fingerprint] = found
        elif isinstance(found, Schedule):
            schedules.setdefault(found.fingerprint, []).append(found)
    if lonely := schedules.keys() - profiles.keys():
        count = sum(len(schedules[fingerprint]) for fingerprint in lonely)
        note(f"left out: {count} schedules whose profile is not in {folder}")
    for fingerprint, profile in counted(profiles.items(), total=len(profiles), label="drawing"):
        yield _model(profile, schedules.get(fingerprint, []))


def _model(profile: Profile, schedules: Iterable[Schedule]) -> Section:
    graph = profile.graph
    parts = [Part(heading="Where time and memory go, by module", rows=views.module_rows(profile, MODULE_DEPTH))]
    points = consistent(Point(limit_bytes=limit, schedule=s) for limit, s in _cheapest(schedules).items())
    if points:
        front = Front(points=points, baselines=tuple(without_limit(graph, name) for name in BASELINES))
        parts.append(_picture("Memory against time", plot_front(front)))
        parts.append(Part(heading="Schedules", rows=views.front_rows(front)))
        for schedule in front.schedules[:MOST_PICTURES]:
            limit = format_bytes(schedule.limit_bytes or schedule.peak_bytes)
            parts.append(_picture(f"Limit {limit}: resident memory", plot_timeline(graph, schedule)))
            parts.append(_picture(f"Limit {limit}: what is kept", plot_kept(graph, schedule)))
            parts.append(_picture(f"Limit {limit}: what runs", plot_runs(graph, schedule)))
    facts = {"model": graph.signature.model, "device": profile.device, **views.graph_facts(graph)}
    return Section(name=graph.signature.model.rpartition(".")[2] or "A graph", facts=facts, parts=parts)


def _cheapest(schedules: Iterable[Schedule]) -> dict[int, Schedule]:
    """For each limit in bytes the schedule that takes least time, whatever its file is called."""
    found: dict[int, Schedule] = {}
    for schedule in schedules:
        limit = schedule.limit_bytes or schedule.peak_bytes
        if limit not in found or schedule.seconds < found[limit].seconds:
            found[limit] = schedule
    return found


def _picture(heading: str, ax: Axes) -> Part:
    buffer = io.BytesIO()
    finish(ax, None).savefig(buffer, format="png", dpi=110)
    return Part(heading=heading, picture=base64.b64encode(buffer.getvalue()).decode())


def _tables(folder: Path) -> Iterable[Section]:
    for path in sorted(folder.glob("*.csv")):
        if rows := _rows(path):
            yield Section(name=path.name, parts=[Part(heading="", rows=rows)])


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            names, *lines = [*csv.reader(file, strict=True)] or [[]]
            return [{name: _short(cell) for name, cell in zip(names, line, strict=True)} for line in lines if line]
    except (OSError, csv.Error, ValueError) as error:
        raise ArtefactError(f"{path} cannot be read as a table with a line of names: {error}") from error


def _short(value: str) -> str:
    """Write a fraction with four digits; anything else as it is."""
    try:
        return f"{float(value):.4g}" if "." in value else value
    except ValueError:
        return value


def _pictures(folder: Path) -> Iterable[Section]:
    parts = [
        Part(heading=path.stem, picture=base64.b64encode(path.read_bytes()).decode())
        for path in sorted(folder.glob("*.png"))
    ]
    if parts:
        yield Section(name="Pictures", parts=parts)
