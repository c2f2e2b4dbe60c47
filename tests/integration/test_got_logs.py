"""Holds what becomes of logs of GoT tools: our own with every anomaly, and a recorded one."""

import shutil
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from remand.app.analysis.graph import GraphView, fold_graph, graph_stats
from remand.app.analysis.graph_export import FORMATS, render_graphml
from remand.domain.events.event import Event
from remand.ledger import codec
from tests.data_sets import OWN, data_sets
from tests.integration.machine import Machine


class Expected(NamedTuple):
    """What a log tells."""

    events: int
    stats: dict[str, Any]
    decision: str


IN_OWN = Expected(
    events=27,
    stats={
        "nodes": 7,
        "edges": 4,
        "by_node_type": {"TASK": 4, "CONTEXT": 1, "DECISION": 1, "GOAL": 1},
        "by_edge_type": {"DEPENDS_ON": 2, "MENTIONS": 1, "RELATES_TO": 1},
        "conflicts": 3,
    },
    decision="Granite rather than concrete",
)
IN_RECORDED = Expected(
    events=920,
    stats={
        "nodes": 401,
        "edges": 298,
        "by_node_type": {"TASK": 265, "CONTEXT": 115, "DECISION": 19, "GOAL": 2},
        "by_edge_type": {"SIMILAR": 211, "DEPENDS_ON": 83, "BLOCKS": 2, "RELATES_TO": 2},
        "conflicts": 22,
    },
    decision="Use event sourcing for GoT persistence",
)


@pytest.fixture(scope="module", params=data_sets("got-events"))
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def events(folder: Path) -> list[Event]:
    lines = (line for file in sorted(folder.glob("*.jsonl")) for line in file.read_bytes().splitlines())
    return [codec.decode_line(line) for line in lines if line.strip()]


@pytest.fixture(scope="module")
def view(events: list[Event]) -> GraphView:
    return fold_graph(events)


@pytest.fixture(scope="module")
def expected(folder: Path) -> Expected:
    return IN_OWN if folder.is_relative_to(OWN) else IN_RECORDED


def test_every_line_is_an_event_of_its_own(events: list[Event], expected: Expected) -> None:
    assert len(events) == expected.events
    assert len({event.meta.id for event in events}) == expected.events


def test_the_graph_is_the_one_its_authors_had(view: GraphView, expected: Expected) -> None:
    assert graph_stats(view) == expected.stats


def test_a_ledger_that_imports_it_has_the_same_graph(
    near_machine: Machine, folder: Path, expected: Expected
) -> None:
    repository = near_machine.repository()
    shutil.copytree(folder, repository.events)
    assert repository.ok("graph", "stats")["nodes"] == 0, "nobody has imported it"
    assert {row["why"] for row in repository.ok("keys")["unconfirmed"]} == {"not_imported"}

    said = repository.ok("log", "import", str(repository.path))

    assert (said["imported"], said["unconfirmed"], said["problems"]) == (expected.events, 0, [])
    assert {name: repository.ok("graph", "stats")[name] for name in expected.stats} == expected.stats
    assert repository.ok("log", "import", str(repository.path))["imported"] == 0
    before = repository.digest()
    assert before[1] == expected.events + len(list(folder.glob("*.jsonl")))
    assert repository.verify() == []
    repository.forget_ledger()
    assert repository.digest() == before


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


def test_read_twice_and_backwards_it_is_the_same(events: list[Event], view: GraphView) -> None:
    again = fold_graph([*reversed(events), *events])

    assert again.graph.nodes == view.graph.nodes
    assert again.graph.edges == view.graph.edges
    assert again.conflicts == view.conflicts


def test_every_format_can_hold_it(view: GraphView, expected: Expected) -> None:
    for name, export in FORMATS.items():
        assert expected.decision in export(view.graph), name


def test_graphml_holds_every_node_and_edge(view: GraphView, expected: Expected) -> None:
    root = ET.fromstring(render_graphml(view.graph))

    assert len(root.findall(".//{*}node")) == expected.stats["nodes"]
    assert len(root.findall(".//{*}edge")) == expected.stats["edges"]


def test_before_it_is_imported_it_has_no_effect_and_the_doctor_names_the_command(
    near_machine: Machine, folder: Path
) -> None:
    repository = near_machine.repository()
    shutil.copytree(folder, repository.events, dirs_exist_ok=True)

    assert repository.ok("task", "list") == []
    (check,) = (one for one in repository.call("doctor").data["checks"] if one["name"] == "keys")
    assert "remand log import .got" in check["fix"]
