"""Reading other tools' graphs, and what is known about the published ones."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from rematopt.errors import ArtefactError
from rematopt.graph import Graph
from rematopt.schedule import Status
from rematopt.solver import solve
from rematopt.solver.bounds import peak_floor
from rematopt.solver.checkmate import Checkmate
from rematopt.solver.cpsat import CpSat
from rematopt.solver.importing import import_graph
from rematopt.solver.milp import Milp
from rematopt.solver.problem import Problem
from rematopt.solver.result import unplanned


def write(folder: Path, document: object) -> Path:
    path = folder / "graph.json"
    path.write_text(json.dumps(document))
    return path


def check_diamond(graph: Graph) -> None:
    """a (2 s, 8 bytes) feeds b (3 s, 4 bytes); both feed c (5 s, 1 byte)."""
    assert [op.target for op in graph.ops] == ["a", "b", "c"]
    assert [op.inputs for op in graph.ops] == [(), (0,), (0, 1)]
    assert [op.seconds for op in graph.ops] == [2.0, 3.0, 5.0]
    assert [data.bytes for data in graph.data] == [8, 4, 1]
    assert unplanned(graph).peak_bytes == 13


def test_node_link_of_layers(tmp_path):
    nodes = [
        {"id": 9, "name": "c", "cost_cpu": 5, "cost_ram": 1, "backward": True},
        {"id": 2, "name": "b", "cost_cpu": 3, "cost_ram": 4, "backward": False},
        {"id": 1, "name": "a", "cost_cpu": 2, "cost_ram": 8, "backward": False},
    ]
    links = [{"source": u, "target": v} for u, v in ((1, 2), (1, 9), (2, 9))]
    check_diamond(import_graph(write(tmp_path, {"graph": {}, "nodes": nodes, "links": links})))


def test_node_link_with_an_order_of_its_own(tmp_path):
    nodes = [
        {"name": "b", "duration": 3, "out_cost": 4},
        {"name": "a", "duration": 2, "out_cost": 8},
        {"name": "c", "duration": 5, "out_cost": 1},
    ]
    links = [{"0": u, "1": v} for u, v in (("a", "b"), ("a", "c"), ("b", "c"))]
    document = {"graph": {"order": ["a", "b", "c"]}, "nodes": nodes, "links": links}
    check_diamond(import_graph(write(tmp_path, document)))


def test_lists(tmp_path):
    nodes = [{"name": n, "cost": c, "mem": m} for n, c, m in (("a", 2, 8), ("b", 3, 4), ("c", 5, 1))]
    check_diamond(import_graph(write(tmp_path, {"nodes": nodes, "edges": [[0, 1], [0, 2], [1, 2]]})))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "none of the known graph formats"),
        ({"nodes": []}, "none of the known graph formats"),
        ({"cost": [1, 2], "mem": [1, 2], "edges": [[1, 0]]}, "which no earlier op produces"),
        ({"cost": [-1], "mem": [1], "edges": []}, "negative time"),
    ],
)
def test_unusable_files_are_refused(tmp_path, document, message):
    with pytest.raises(ArtefactError, match=message):
        import_graph(write(tmp_path, document))


def test_missing_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(ArtefactError, match="cannot read"):
        import_graph(tmp_path / "none.json")
    (tmp_path / "graph.json").write_text("{")
    with pytest.raises(ArtefactError, match="not JSON"):
        import_graph(tmp_path / "graph.json")


@pytest.fixture(scope="module")
def published() -> Path:
    folder = os.environ.get("REMATOPT_GRAPHS")
    if not folder:
        pytest.skip("REMATOPT_GRAPHS does not name the folder with the published graphs")
    return Path(folder)


@pytest.mark.parametrize(
    ("name", "peak", "floor"),
    [
        ("vgg16", 15_825_108_992, 13_153_337_344),
        ("resnet50", 38_059_356_160, 3_699_376_128),
        ("rl4", 608_619, 48_950),
        ("dtr_transformer", 9_338_863_616, 671_088_640),
    ],
)
def test_published_peaks(published, name, peak, floor):
    graph = import_graph(published / f"{name}.json")
    assert unplanned(graph).peak_bytes == peak
    assert peak_floor(graph).bytes == floor


@pytest.mark.parametrize("exact", [Milp(), Checkmate(), CpSat(copies=3)], ids=lambda s: s.name)
def test_vgg19_published_optimum(published, exact):
    graph = import_graph(published / "vgg19_b1_macs_graph.json")
    result = exact.solve(Problem(graph=graph, limit_bytes=51_380_224), 60.0)
    assert result.objective == 58_982_891_520
    if not isinstance(exact, CpSat):
        assert result.status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("name", "share", "percent"),
    [("vgg16", 0.9, 1.968), ("vgg16", 0.85, 1.968), ("vgg19", 0.8, 2.756), ("fcn8", 0.8, 0.136)],
)
def test_published_optima(published, name, share, percent):
    graph = import_graph(published / f"{name}.json")
    limit = math.ceil(share * unplanned(graph).peak_bytes)
    schedule = solve(graph, limit, gap=0.0)
    assert schedule.status is Status.OPTIMAL
    assert 100 * schedule.overhead == pytest.approx(percent, abs=5e-4)
