"""The notebooks run from top to bottom, and their checks hold."""

from __future__ import annotations

from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_runs_and_draws(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests' own choice of a backend would keep the kernel from showing pictures.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = jupytext.read(path)
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert not [output["text"] for output in outputs if output.get("name") == "stderr"]
