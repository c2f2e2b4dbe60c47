"""Holds what becomes of a real GoT log, which lies beside the repository."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from remand.app.graph import GraphView, fold_graph, stats
from remand.app.graph_export import FORMATS, graphml
from remand.domain import events as e
from remand.ledger import codec

LOGS = Path(__file__).parents[3] / "shared" / "data" / "got-events"

pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason=f"the real GoT log is not at {LOGS}")


@pytest.fixture(scope="module")
def events() -> list[e.Event]:
    lines = (line for file in sorted(LOGS.glob("*.jsonl")) for line in file.read_bytes().splitlines())
    return [codec.read(line) for line in lines if line.strip()]


@pytest.fixture(scope="module")
def view(events: list[e.Event]) -> GraphView:
    return fold_graph(events)


def test_every_line_is_an_event_of_its_own(events: list[e.Event]) -> None:
    assert len(events) == 920
    assert len({event.meta.id for event in events}) == 920


def test_the_graph_is_the_one_its_authors_had(view: GraphView) -> None:
    assert stats(view) == {
        "nodes": 401,
        "edges": 298,
        "by_node_type": {"TASK": 265, "CONTEXT": 115, "DECISION": 19, "GOAL": 2},
        "by_edge_type": {"SIMILAR": 211, "DEPENDS_ON": 83, "BLOCKS": 2, "RELATES_TO": 2},
        "conflicts": 22,
    }


def test_only_deletes_of_absent_edges_could_not_apply(view: GraphView) -> None:
    assert {conflict.event for conflict in view.conflicts} == {"edge.delete"}
    assert all(conflict.why.startswith("there is no edge ") for conflict in view.conflicts)


def test_every_task_has_its_prefix_and_a_status_of_plain_text(view: GraphView) -> None:
    tasks = [node for node in view.graph.nodes.values() if node.node_type == "TASK"]

    assert all(node.id.startswith("task:T-") for node in tasks)
    assert {node.properties["status"] for node in tasks} <= {
        "pending",
        "in_progress",
        "completed",
        "blocked",
        "deferred",
    }


def test_read_twice_and_backwards_it_is_the_same(events: list[e.Event], view: GraphView) -> None:
    again = fold_graph([*reversed(events), *events])

    assert again.graph.nodes == view.graph.nodes
    assert again.graph.edges == view.graph.edges
    assert again.conflicts == view.conflicts


def test_every_format_can_hold_it(view: GraphView) -> None:
    for name, export in FORMATS.items():
        assert "Use event sourcing for GoT persistence" in export(view.graph), name


def test_graphml_holds_every_node_and_edge(view: GraphView) -> None:
    root = ET.fromstring(graphml(view.graph))

    assert len(root.findall(".//{*}node")) == 401
    assert len(root.findall(".//{*}edge")) == 298
