"""What is installed, and what importing it costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import rematopt

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rematopt"


def configuration() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_listed() -> None:
    """The list in pyproject.toml is explicit; a folder that it lacks would be missing from the wheel."""
    found = {
        ".".join(Path(folder).relative_to(SOURCE.parent).parts)
        for folder, _, files in os.walk(SOURCE, followlinks=True)
        if "__init__.py" in files
    }
    listed = configuration()["tool"]["setuptools"]["packages"]  # type: ignore[index]
    assert set(listed) == found


def test_every_direct_dependency_is_pinned() -> None:
    project = configuration()["project"]
    extras = project["optional-dependencies"].values()  # type: ignore[index]
    direct = [line for lines in (project["dependencies"], *extras) for line in lines]  # type: ignore[index]
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {re.split(r"[\[>]", line)[0].lower() for line in direct} - {"rematopt"} <= pinned


@pytest.mark.parametrize("name", ["solver", "profiler", "executor"])
def test_folders_of_the_root_are_linked(name: str) -> None:
    link = SOURCE / name
    assert link.is_symlink()
    assert link.resolve() == ROOT / name


def test_version_is_the_distributions() -> None:
    assert rematopt.__version__ == metadata.version("rematopt")
    assert rematopt.__version__ == configuration()["project"]["version"]  # type: ignore[index]


@pytest.mark.parametrize("statement", ["import rematopt", "import rematopt.cli", "import rematopt.front"])
def test_importing_needs_no_torch(statement: str) -> None:
    """`rematopt --help` and solving a stored profile must start quickly."""
    heavy = "{'torch', 'transformers', 'matplotlib', 'pandas'}"
    code = f"{statement}; import sys; print(sorted({heavy} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_public_names_exist() -> None:
    for name in rematopt.__all__:
        assert getattr(rematopt, name).__doc__ or name == "__version__"
