"""Put the comparison of methods into the README: the figure of one model, the table over all.

Reads what ``python -m experiments.pareto -o FOLDER`` wrote. Run as ``python -m experiments.publish FOLDER``; ``make
experiments`` does both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from experiments.pareto import conclusion, summary_rows
from experiments.plot_methods import plot_methods
from rematopt.artefacts import write_atomically
from rematopt.console import exit_codes, note, right_aligned
from rematopt.errors import ArtefactError
from rematopt.plot_style import finish
from rematopt.records import Record

BEGIN, END = "<!-- experiments: begin -->", "<!-- experiments: end -->"
FIGURE_MODEL = "gpt2"


def publish(records: Sequence[Record], readme: Path, docs: Path, *, model: str = FIGURE_MODEL) -> None:
    """Draw the figure of ``model`` into ``docs`` and replace what stands between the marks of a README.

    Parameters
    ----------
    records : sequence of dict
        Rows of :mod:`experiments.pareto`.
    readme : Path
        Holds :data:`BEGIN` and :data:`END`, each on a line of its own.
    docs : Path
        Folder of the figure, beside the README.
    model : str
        Whose figure.

    Raises
    ------
    ArtefactError
        If the README cannot be read or lacks the marks, or there are no rows of the model.
    """
    try:
        text = readme.read_text(encoding="utf-8")
    except OSError as error:
        raise ArtefactError(f"cannot read {readme}: {error.strerror or error}") from error
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ArtefactError(f"{readme} lacks the lines {BEGIN} and {END}, between which the table goes")
    own = [record for record in records if record["model"] == model]
    if not own:
        raise ArtefactError(
            f"there are no rows of {model}; run `python -m experiments.pareto {model}` into this folder"
        )
    figure = docs / f"pareto-{model}.png"
    finish(plot_methods(own, title=f"{model}: memory against time"), figure)
    block = "\n\n".join((f"![Methods side by side]({docs.name}/{figure.name})", *_text(records)))
    write_atomically(readme, f"{before}{BEGIN}\n{block}\n{END}{after}".encode())


def _text(records: Sequence[Record]) -> list[str]:
    first = records[0]
    models = list(dict.fromkeys(record["model"] for record in records))
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    return [
        markdown(summary_rows(records)),
        f"In short: {conclusion(records)}. Times and peaks are rematopt's as shares of the method's, "
        "medians over its settings; operations run again are shares of the step's, rematopt's at no more memory.",
        f"Models: {', '.join(models)}. Device: {first['device']}; {versions}.",
    ]


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """Return rows as a table in Markdown; columns of numbers are aligned to the right."""
    right = right_aligned(rows)
    names = list(rows[0])
    lines = [names, ["---:" if name in right else "---" for name in names], *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main(
    folder: Annotated[Path, typer.Argument(help="What `python -m experiments.pareto -o` wrote.")],
    readme: Annotated[Path, typer.Option(help="The README to change.")] = Path("README.md"),
    docs: Annotated[Path, typer.Option(help="Folder of the figure.")] = Path("docs"),
) -> None:
    """Put the comparison of methods into the README."""
    try:
        records = msgspec.json.decode((folder / "rows.json").read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise ArtefactError(f"cannot read {folder / 'rows.json'}: {error}") from error
    publish(records, readme, docs)
    note(f"wrote {readme} and {docs / f'pareto-{FIGURE_MODEL}.png'}")


if __name__ == "__main__":
    with exit_codes():
        typer.run(main)
