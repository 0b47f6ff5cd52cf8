"""Schedules kept on disk, so that a model is solved once for a limit."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rematopt.artefacts import load, make_folder, save
from rematopt.errors import ArtefactError
from rematopt.graph import Graph
from rematopt.schedule import Schedule


def default_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/rematopt``, or ``~/.cache/rematopt`` where that is not set."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rematopt"


def cache_key(graph: Graph, **options: Any) -> str:
    """Hash what a schedule depends on: structure and sizes, static bytes, and ``options``.

    Times are left out, since two profiles of one model never agree on them; device and versions stand
    for them and belong into the options.
    """
    static = [graph.static.parameters, graph.static.buffers, graph.static.gradients]
    static += [graph.static.optimizer, graph.static.inputs]
    described = json.dumps([graph.fingerprint, static, options], sort_keys=True, default=str)
    return hashlib.sha256(described.encode()).hexdigest()[:32]


def cached(folder: Path | None, key: str, make: Callable[[], Schedule], *, fingerprint: str) -> Schedule:
    """Return the schedule stored under ``key``, or make and store it.

    A file that is missing, damaged or made for another graph is made anew. A folder that cannot be
    written costs the caching, never the schedule.

    Parameters
    ----------
    folder : Path or None
        Where the schedules are; None to neither read nor write.
    key : str
        Result of :func:`cache_key`.
    make : callable
        Solves.
    fingerprint : str
        Fingerprint of the graph in hand.
    """
    if folder is None:
        return make()
    path = folder / f"{key}.json"
    with suppress(ArtefactError):
        stored = load(path, Schedule)
        if stored.fingerprint == fingerprint:
            return stored
    schedule = make()
    with suppress(ArtefactError):
        save(schedule, make_folder(folder) / path.name)
    return schedule
