"""``rematopt demo``: the whole flow on a six-layer GPT-2 and real text.

The model is profiled once, solved for its unplanned peak and for three limits down to the smallest, and
trained by each schedule beside the plain model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rematopt.artefacts import make_folder
from rematopt.comparison import Comparison
from rematopt.console import note
from rematopt.corpus import VOCABULARY, batches, standard_library_text
from rematopt.front import Front, pareto
from rematopt.plot_losses import plot_losses
from rematopt.plot_style import finish
from rematopt.plot_timeline import plot_timeline
from rematopt.records import comparison_record, solve_record
from rematopt.schedule import Schedule
from rematopt.training import Call, Run, make_optimizer, profile_run
from rematopt.turns import compare
from rematopt.units import format_bytes
from rematopt.zoo import gpt2

LIMITS = 4
"""Unplanned peak, smallest limit, and two between them."""


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What the demo found.

    Parameters
    ----------
    front : Front
        The schedules, by rising limit.
    plain : Comparison
        Training of the plain model, without rematopt.
    planned : tuple of Comparison
        Training by each schedule of the front, by falling limit; times refer to the first one, which is
        the unplanned step.
    folder : Path
        Where the files are.
    """

    front: Front
    plain: Comparison
    planned: tuple[Comparison, ...]
    folder: Path

    @property
    def identical(self) -> bool:
        """Whether every run had the losses of the plain one at every step."""
        return all(comparison.losses == self.plain.losses for comparison in self.planned)

    @property
    def within_limits(self) -> bool:
        """Whether every measured peak is at or under its limit."""
        return all(c.measured_peak_bytes <= (c.limit_bytes or c.measured_peak_bytes) for c in self.planned)

    @property
    def rows(self) -> list[tuple[Schedule, Comparison]]:
        """Schedules with their training, by falling limit."""
        return list(zip(reversed(self.front.schedules), self.planned, strict=True))

    def record(self) -> dict[str, Any]:
        """Return everything as one record."""
        return {
            "identical": self.identical,
            "within_limits": self.within_limits,
            "plain": comparison_record(self.plain),
            "planned": [solve_record(schedule) | comparison_record(run) for schedule, run in self.rows],
        }


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Size of the demo's model: small enough for a step in about a second on two cores."""

    layers: int = 6
    width: int = 256
    heads: int = 4
    batch: int = 4
    sequence: int = 192


SIZES = Sizes()


def run_demo(folder: Path, *, steps: int, sizes: Sizes = SIZES, time_limit: float = 15.0) -> DemoResult:
    """Profile, solve, train and draw; progress goes to stderr.

    Parameters
    ----------
    folder : Path
        Where profile, schedules, table and pictures are written; made if missing.
    steps : int
        Training steps of each run.
    sizes : Sizes
        Of the model.
    time_limit : float
        Seconds for each solve.

    Raises
    ------
    ArtefactError
        If a file cannot be written.
    """
    make_folder(folder)
    text = standard_library_text()

    def make() -> Run:
        return _run(text, sizes)

    note(f"1/4  profiling a GPT-2 with {sizes.layers} layers, batch {sizes.batch} x {sizes.sequence} bytes of text")
    profile = profile_run(make())
    profile.save(folder / "profile.json")
    note("2/4  solving for the smallest limit, the unplanned peak and two limits between")
    front = pareto(profile, limits=LIMITS, time_limit=time_limit)
    front.save(folder)
    note(f"3/4  training {steps} steps: {len(front.schedules)} schedules and the plain model, in turns")
    *planned, plain = compare(make, [*reversed(front.schedules), None], steps=steps)
    note(f"4/4  drawing into {folder}/")
    result = DemoResult(front=front, plain=plain, planned=tuple(planned), folder=folder)
    front.plot(folder / "pareto.png", measured=planned)
    finish(plot_timeline(profile.graph, front.schedules[0]), folder / "timeline.png")
    finish(plot_losses(_curves(result)), folder / "losses.png")
    return result


def _run(text: bytes, sizes: Sizes) -> Run:
    model, _, _ = gpt2(
        layers=sizes.layers,
        width=sizes.width,
        heads=sizes.heads,
        batch=sizes.batch,
        sequence=sizes.sequence,
        vocabulary=VOCABULARY,
    )

    def calls() -> Iterator[Call]:
        for tokens in batches(text, batch=sizes.batch, sequence=sizes.sequence):
            yield (), {"input_ids": tokens, "labels": tokens}

    optimizer = make_optimizer("adamw", model, learning_rate=1e-3)
    return Run(model=model, optimizer=optimizer, calls=calls(), example=next(calls()))


def _curves(result: DemoResult) -> dict[str, tuple[float, ...]]:
    curves = {"plain model": result.plain.losses}
    curves |= {f"limit {format_bytes(s.limit_bytes or 0)}": comparison.losses for s, comparison in result.rows}
    return curves
