"""Computation graphs from other tools' JSON files, so that the solver can be used without torch.

Such a graph has no forward/backward split that binds: all ops are forward ops and may run again, and
what nobody reads is freed behind its op. Understood are

- networkx node-link files of CNN training graphs as Checkmate extracts them (nodes with ``id``,
  ``cost_cpu``, ``cost_ram``; the ids give the order);
- node-link files of random layered graphs (nodes with ``name``, ``duration``, ``out_cost``; links
  between ``"0"`` and ``"1"``; the order is ``graph.order``);
- plain lists: ``edges`` with ``cost`` and ``mem``, or with ``nodes`` that have ``cost`` and ``mem``.

Costs become seconds as they are, in whatever unit the file has.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rematopt.errors import ArtefactError
from rematopt.graph import Data, Graph, Op, Phase, Signature

_Parts = tuple[list[str], list[float], list[int], list[tuple[int, int]]]
"""Names, costs, sizes and edges, nodes numbered in the order in which they run."""


def import_graph(path: str | os.PathLike[str]) -> Graph:
    """Read a graph from a JSON file of one of the formats above.

    Raises
    ------
    ArtefactError
        If the file cannot be read, has none of the formats, or its edges do not follow its order.
    """
    try:
        document = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise ArtefactError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ArtefactError(f"{path} is not JSON: {error}") from error
    try:
        names, costs, sizes, edges = _parts(document)
        return _graph(str(Path(path).stem), names, costs, sizes, edges)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ArtefactError(
            f"{path} has none of the known graph formats ({type(error).__name__}: {error}); expected node-link JSON "
            "with costs and sizes, or lists of cost, mem and edges"
        ) from error
    except ValueError as error:
        raise ArtefactError(f"{path} is no usable graph: {error}") from error


def _parts(document: dict[str, Any]) -> _Parts:
    if "links" not in document:
        return _from_lists(document)
    if "order" in document["graph"]:
        order = document["graph"]["order"]
        return _from_node_link(document, order, ("name", "duration", "out_cost", "0", "1"))
    order = sorted(node["id"] for node in document["nodes"])
    return _from_node_link(document, order, ("id", "cost_cpu", "cost_ram", "source", "target"))


def _from_lists(document: dict[str, Any]) -> _Parts:
    nodes = document.get("nodes", [])
    costs = document["cost"] if "cost" in document else [node["cost"] for node in nodes]
    sizes = document["mem"] if "mem" in document else [node["mem"] for node in nodes]
    names = [str(node["name"]) for node in nodes] or [f"node{i}" for i in range(len(costs))]
    return names, costs, sizes, [(u, v) for u, v in document["edges"]]


def _from_node_link(document: dict[str, Any], order: list[Any], keys: tuple[str, str, str, str, str]) -> _Parts:
    key, cost, size, source, target = keys
    nodes = {node[key]: node for node in document["nodes"]}
    place = {name: at for at, name in enumerate(order)}
    names = [str(nodes[name]["name"]) for name in order]
    edges = [(place[link[source]], place[link[target]]) for link in document["links"]]
    return names, [nodes[name][cost] for name in order], [nodes[name][size] for name in order], edges


def _graph(model: str, names: list[str], costs: list[float], sizes: list[int], edges: list[tuple[int, int]]) -> Graph:
    inputs: list[set[int]] = [set() for _ in names]
    for u, v in edges:
        inputs[v].add(u)
    ops = tuple(
        Op(
            name=f"n{i}_{name}",
            target=name,
            phase=Phase.FORWARD,
            inputs=tuple(sorted(inputs[i])),
            outputs=(i,),
            seconds=float(costs[i]),
        )
        for i, name in enumerate(names)
    )
    data = tuple(Data(bytes=int(size), producer=i) for i, size in enumerate(sizes))
    return Graph(ops=ops, data=data, signature=Signature(model=model))
