"""Profiles, schedules and graphs as JSON files: versioned, written atomically, checked when read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rematopt.errors import ArtefactError
from rematopt.graph import Graph
from rematopt.profile import Profile
from rematopt.schedule import Schedule

SCHEMA_VERSION = 2
_TYPES: dict[str, type[Any]] = {"profile": Profile, "schedule": Schedule, "graph": Graph}

T = TypeVar("T", Profile, Schedule, Graph)
Artefact = Profile | Schedule | Graph


class _Header(msgspec.Struct):
    """The part of a file that is read before its content."""

    kind: str
    schema_version: int
    content: msgspec.Raw


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of one.

    Raises
    ------
    ArtefactError
        If the folder does not exist or cannot be written.
    """
    target = Path(path)
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.chmod(file.name, 0o666 & ~_umask())
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise ArtefactError(f"cannot write {target}: {error.strerror or error}") from error


def check_target(path: str | os.PathLike[str] | None) -> None:
    """Make sure that a file can be written later, before the work is done that it is for.

    Raises
    ------
    ArtefactError
        If the folder does not exist, or the path is a folder itself.
    """
    if path is None:
        return
    if not Path(path).parent.is_dir():
        raise ArtefactError(f"cannot write {path}: there is no folder {Path(path).parent}")
    if Path(path).is_dir():
        raise ArtefactError(f"cannot write {path}: it is a folder")


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder and those it lies in, unless they exist.

    Raises
    ------
    ArtefactError
        If that is not possible.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtefactError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    return folder


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def save(artefact: Artefact, path: str | os.PathLike[str]) -> None:
    """Write a profile, schedule or graph to ``path`` as JSON.

    Raises
    ------
    ArtefactError
        If the file cannot be written.
    """
    kind = next(name for name, cls in _TYPES.items() if isinstance(artefact, cls))
    document = {"kind": kind, "schema_version": SCHEMA_VERSION, "content": artefact}
    write_atomically(path, msgspec.json.encode(document) + b"\n")


def load_any(path: str | os.PathLike[str]) -> Artefact:
    """Read any artefact.

    Raises
    ------
    ArtefactError
        If the file is missing, damaged, not rematopt's, or of another schema version.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise ArtefactError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        header = msgspec.json.decode(raw, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArtefactError(f"{path} is not a rematopt file: {error}") from error
    if header.kind not in _TYPES:
        raise ArtefactError(f"{path} holds {header.kind!r}; expected one of {', '.join(_TYPES)}")
    if header.schema_version != SCHEMA_VERSION:
        raise ArtefactError(
            f"{path} has schema version {header.schema_version}, this rematopt reads {SCHEMA_VERSION}; make it again"
        )
    try:
        artefact: Artefact = msgspec.json.decode(header.content, type=_TYPES[header.kind])
    except (msgspec.DecodeError, ValueError) as error:
        raise ArtefactError(f"{path} is damaged: {error}") from error
    return artefact


def load(path: str | os.PathLike[str], cls: type[T]) -> T:
    """Read an artefact of type ``cls`` (:class:`Profile`, :class:`Schedule` or :class:`Graph`).

    Raises
    ------
    ArtefactError
        As :func:`load_any`, or if the file holds another kind of artefact.
    """
    artefact = load_any(path)
    if not isinstance(artefact, cls):
        found = type(artefact).__name__.lower()
        raise ArtefactError(f"{path} is a rematopt {found}, expected a {cls.__name__.lower()}")
    return artefact
