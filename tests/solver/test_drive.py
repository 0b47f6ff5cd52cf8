"""Running the solver: clock, silence, interruption, and answers that are taken for what they are."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pulp
import pytest

from rematopt.errors import SolverUnavailableError
from rematopt.solver import drive
from rematopt.solver.arrays import INFINITY, Model, ModelBuilder
from rematopt.solver.bounds import peak_floor
from rematopt.solver.formulation import formulate
from rematopt.solver.milp import Milp
from rematopt.solver.problem import Problem
from rematopt.solver.stages import staged
from rematopt.solver.write_highs import to_highs
from rematopt.solver.write_pulp import solve_with_cbc, to_highs_through_pulp
from tests.solver.networks import transformer
from tests.solver.vgg import vgg16


def knapsack(least: float = 5.0) -> Model:
    """Cover ``least`` with pieces of 4, 3 and 2 at costs 7, 4 and 3."""
    builder = ModelBuilder()
    pieces = [builder.column(f"piece {size}", cost=cost, integer=True) for size, cost in ((4, 7), (3, 4), (2, 3))]
    builder.row(dict(zip(pieces, (4.0, 3.0, 2.0), strict=True)), lower=least)
    return builder.build()


@pytest.mark.parametrize("writer", [to_highs, to_highs_through_pulp])
def test_optimum_and_bound(writer):
    answer = drive.run(knapsack(), deadline=time.perf_counter() + 10, writer=writer)
    assert answer.proved
    assert answer.values is not None
    assert np.round(answer.values).tolist() == [0, 1, 1]
    assert answer.bound == pytest.approx(7)


def test_relaxation_is_lower():
    answer = drive.run(knapsack(7.0).relaxed(), deadline=time.perf_counter() + 10)
    assert answer.proved
    assert answer.bound < 11 - 1e-6


def test_infeasible_is_proved_and_has_no_values():
    answer = drive.run(knapsack(10.0), deadline=time.perf_counter() + 10)
    assert answer.values is None
    assert answer.proved


@pytest.mark.parametrize(("least", "proved_feasible"), [(0.0, True), (1.0, False)])
def test_a_model_without_columns(least, proved_feasible):
    builder = ModelBuilder()
    builder.row({}, lower=least, upper=INFINITY)
    answer = drive.run(builder.build(), deadline=time.perf_counter() + 10)
    assert answer.proved
    assert (answer.values is not None) == proved_feasible


def test_no_time_is_no_answer():
    answer = drive.run(knapsack(), deadline=time.perf_counter())
    assert answer.values is None
    assert not answer.proved


def test_cbc_stands_in_for_highs_without_proof(monkeypatch, tmp_path):
    monkeypatch.setattr(drive, "highs_available", lambda: False)
    spaced = tmp_path / "a folder with spaces"
    spaced.mkdir()
    monkeypatch.setenv("TMPDIR", str(spaced))
    monkeypatch.chdir(tmp_path)
    answer = drive.run(knapsack(), deadline=time.perf_counter() + 10)
    assert answer.values is not None
    assert np.round(answer.values).tolist() == [0, 1, 1]
    assert not answer.proved
    assert [path.name for path in tmp_path.iterdir()] == [spaced.name]
    assert list(spaced.iterdir()) == []


def test_a_missing_solver_is_named_with_its_pip_command(monkeypatch):
    monkeypatch.setattr(pulp, "listSolvers", lambda onlyAvailable: [])
    with pytest.raises(SolverUnavailableError, match="pip install highspy"):
        solve_with_cbc(knapsack(), seconds=5, absolute_gap=1e-6)


def test_cbc_finds_nothing_in_an_infeasible_model():
    assert solve_with_cbc(knapsack(10.0), seconds=5, absolute_gap=1e-6) is None


def test_nothing_is_printed(capfd):
    for writer in (to_highs, to_highs_through_pulp):
        drive.run(knapsack(), deadline=time.perf_counter() + 10, writer=writer)
    solve_with_cbc(knapsack(), seconds=5, absolute_gap=1e-6)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def hard_problem() -> Problem:
    graph = transformer(6)
    return Problem(graph=graph, limit_bytes=int(1.2 * peak_floor(graph).bytes))


def test_the_clock_is_kept():
    problem = hard_problem()
    model = formulate(staged(problem.graph), problem.limit_bytes).model
    began = time.perf_counter()
    answer = drive.run(model, deadline=began + 2)
    assert not answer.proved
    assert time.perf_counter() - began < 8


def test_ctrl_c_stops_the_solver():
    problem = hard_problem()
    timer = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        Milp().solve(problem, 60.0)
    assert time.perf_counter() - began < 20


@pytest.mark.parametrize("build", [vgg16])
def test_a_start_satisfies_the_model(build):
    graph = build(batch=4, image=64)
    limit = (peak_floor(graph).bytes * 3) // 2
    form = formulate(staged(graph), limit)
    answer = drive.run(form.model, deadline=time.perf_counter() + 20)
    assert answer.values is not None
    runs = form.sequence(answer.values)
    point = form.solution(runs)
    model = form.model
    rows = np.add.reduceat(np.append(model.entry_values * point[model.entry_columns], 0.0), model.row_starts[:-1])
    assert np.all(rows >= model.row_lower - 1e-6)
    assert np.all(rows <= model.row_upper + 1e-6)
    assert form.sequence(point) == runs
