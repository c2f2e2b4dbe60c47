"""Holds how events make the graph, and what becomes of those that cannot apply."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from remand.app.analysis.graph import GraphView, count_graph, fold_graph, graph_stats, read_graph
from remand.domain.events.catalogue import Unknown
from remand.domain.events.event import Event
from remand.domain.events.tasks import (
    EdgeCreated,
    EdgeDeleted,
    HandoffInitiated,
    TaskChanges,
    TaskDeleted,
    TaskEdited,
)
from remand.domain.graph import EdgeType, GraphNode, NodeType
from remand.domain.ids import task_node_id
from remand.testing.builders import T1, T2, T3, task_added, task_claimed
from tests.support.builders import FakeLedger, dependency_created, stamp_events

N1, N2, N3 = task_node_id(T1), task_node_id(T2), task_node_id(T3)


def unknown(kind: str, **fields: Any) -> Unknown:
    return Unknown(kind=kind, fields=fields)


def goal(**data: Any) -> Unknown:
    return unknown("node.create", id="sprint:S-1", type="GOAL", data=data or {"name": "Dry rooms"})


def linked(source: str = N1, target: str = N2, kind: str = "SIMILAR", weight: float = 1.0) -> EdgeCreated:
    return EdgeCreated(src=source, tgt=target, type=kind, weight=weight)


def unlinked(source: str = N1, target: str = N2, kind: str = "SIMILAR") -> EdgeDeleted:
    return EdgeDeleted(src=source, tgt=target, type=kind)


def folded(*events: Event) -> GraphView:
    return fold_graph(stamp_events(*events))


def node_of(view: GraphView, name: str) -> GraphNode:
    node = view.graph.get_node(name)
    assert node is not None, f"no node {name}"
    return node


def reasons(view: GraphView) -> list[tuple[str, str]]:
    return [(conflict.event, conflict.why) for conflict in view.conflicts]


# Nodes.


def test_a_task_is_a_node_with_its_title_as_content() -> None:
    node = node_of(folded(task_added(T1, "Mend the roof", priority="high", skills=("roofing",))), N1)

    assert (node.node_type, node.content) == (NodeType.TASK, "Mend the roof")
    assert node.properties == {"status": "pending", "priority": "high", "skills": ("roofing",)}


def test_a_bare_task_id_is_the_same_node() -> None:
    edit = TaskEdited(id=T1, changes=TaskChanges(title="Mend both roofs"))

    assert node_of(folded(task_added(T1), edit), N1).content == "Mend both roofs"


def test_an_edit_changes_what_it_names_and_nothing_else() -> None:
    edit = TaskEdited(id=N1, changes=TaskChanges(priority="critical", description="Before winter"))
    node = node_of(folded(task_added(T1, "Mend the roof", category="house"), edit), N1)

    assert node.content == "Mend the roof"
    assert node.properties == {
        "status": "pending",
        "priority": "critical",
        "category": "house",
        "description": "Before winter",
    }


def test_the_status_of_a_task_is_the_one_of_its_lifecycle() -> None:
    view = fold_graph(stamp_events(task_added(T1), task_added(T2)), {T1: "provisional", T3: "done"})

    assert node_of(view, N1).properties["status"] == "provisional"
    assert node_of(view, N2).properties["status"] == "pending"
    assert len(view.graph.nodes) == 2


def test_a_deleted_task_is_no_node() -> None:
    view = folded(task_added(T1), task_added(T2), TaskDeleted(id=N1))

    assert list(view.graph.nodes) == [N2]
    assert not view.conflicts


@pytest.mark.parametrize(
    ("kind", "data", "content", "properties"),
    [
        ("GOAL", {"name": "Dry rooms", "number": 16}, "Dry rooms", {"number": 16}),
        ("CONTEXT", {"type": "commit", "message": "Nails"}, "Nails", {"type": "commit"}),
        ("FACT", {"title": "It rains", "name": "rain"}, "It rains", {"name": "rain"}),
        ("DREAM", {}, "", {}),
    ],
    ids=["goal", "context", "title-first", "nothing"],
)
def test_another_node_is_read_by_what_its_data_holds(
    kind: str, data: dict[str, Any], content: str, properties: dict[str, Any]
) -> None:
    node = node_of(folded(unknown("node.create", id="x:1", type=kind, data=data)), "x:1")

    assert (node.node_type, node.content, node.properties) == (kind, content, properties)


def test_a_change_of_another_node_finds_its_content_where_it_was() -> None:
    changes = {"name": "Dry cellar", "message": "by Monday", "status": {"old": "open", "new": "closed"}}
    node = node_of(folded(goal(), unknown("node.update", id="sprint:S-1", changes=changes)), "sprint:S-1")

    assert node.content == "Dry cellar"
    assert node.properties == {"message": "by Monday", "status": "closed"}


def test_another_node_can_be_deleted() -> None:
    view = folded(goal(), unknown("node.delete", id="sprint:S-1"))

    assert not view.graph.nodes
    assert not view.conflicts


def test_a_decision_is_a_node_and_what_it_affects_makes_no_edge() -> None:
    fields = {
        "decision": "Use slate",
        "rationale": "It lasts",
        "affects": [N1],
        "alternatives": [],
        "context": {},
    }
    view = folded(task_added(T1), unknown("decision.create", id="decision:D-1", **fields))
    node = node_of(view, "decision:D-1")

    assert (node.node_type, node.content) == (NodeType.DECISION, "Use slate")
    assert node.properties == {"rationale": "It lasts", "affects": [N1]}
    assert not view.graph.edges


def test_handoffs_and_claims_are_no_nodes() -> None:
    view = folded(
        task_added(T1), HandoffInitiated(task_id=T1, handoff_id="H-1", target_agent="Alice"), task_claimed()
    )

    assert list(view.graph.nodes) == [N1]
    assert not view.conflicts


# Edges.


def test_edges_keep_their_type_and_weight_known_or_not() -> None:
    view = folded(task_added(T1), task_added(T2), linked(weight=0.8), linked(kind="WAITS_WITH"))

    assert [(edge.edge_type, edge.weight) for edge in view.graph.edges] == [
        (EdgeType.SIMILAR, 0.8),
        ("WAITS_WITH", 1.0),
    ]


def test_an_edge_made_twice_is_one_edge_and_no_conflict() -> None:
    view = folded(task_added(T1), task_added(T2), linked(), linked())

    assert len(view.graph.edges) == 1
    assert not view.conflicts


def test_an_edge_may_come_before_its_nodes() -> None:
    view = folded(dependency_created(T1, T2), task_added(T1), task_added(T2))

    assert len(view.graph.edges) == 1
    assert not view.conflicts


def test_a_deleted_edge_is_gone() -> None:
    view = folded(task_added(T1), task_added(T2), linked(), unlinked())

    assert not view.graph.edges
    assert not view.conflicts


def test_edges_of_a_deleted_node_go_silently_and_may_be_deleted_again() -> None:
    view = folded(task_added(T1), task_added(T2), linked(), TaskDeleted(id=N1), unlinked())

    assert not view.graph.edges
    assert not view.conflicts


def test_a_node_made_again_has_none_of_its_old_edges() -> None:
    view = folded(task_added(T1), task_added(T2), linked(), TaskDeleted(id=N1), task_added(T1))

    assert set(view.graph.nodes) == {N1, N2}
    assert not view.graph.edges


# What cannot apply.


def test_deleting_an_absent_edge_is_a_conflict() -> None:
    view = folded(task_added(T1), task_added(T2), linked(), unlinked(kind="BLOCKS"), unlinked(N2, N1))

    assert len(view.graph.edges) == 1
    assert reasons(view) == [
        ("edge.delete", f"there is no edge BLOCKS from {N1} to {N2}"),
        ("edge.delete", f"there is no edge SIMILAR from {N2} to {N1}"),
    ]


def test_an_edge_to_nothing_is_left_out_as_a_conflict() -> None:
    view = folded(task_added(T1), linked(N1, N3), linked(N2, N1))

    assert not view.graph.edges
    assert reasons(view) == [("edge.create", f"{N3} is not a node"), ("edge.create", f"{N2} is not a node")]


def test_an_edge_to_a_node_that_was_deleted_before_is_a_conflict() -> None:
    view = folded(task_added(T1), task_added(T2), TaskDeleted(id=N2), linked())

    assert reasons(view) == [("edge.create", f"{N2} is not a node")]


def test_a_node_made_twice_with_other_content_stays_as_it_was_first() -> None:
    view = folded(task_added(T1, "Mend the roof"), task_added(T1, "Burn the house"))

    assert node_of(view, N1).content == "Mend the roof"
    assert reasons(view) == [("node.create", f"{N1} already exists with other content")]


def test_a_node_made_twice_alike_is_no_conflict_even_after_an_edit() -> None:
    view = folded(task_added(T1), TaskEdited(id=N1, changes=TaskChanges(title="New")), task_added(T1))

    assert node_of(view, N1).content == "New"
    assert not view.conflicts


@pytest.mark.parametrize(
    "event",
    [
        TaskEdited(id=N1, changes=TaskChanges(title="x")),
        TaskDeleted(id=N1),
        unknown("node.update", id="sprint:S-1", changes={"name": "x"}),
        unknown("node.delete", id="sprint:S-1"),
    ],
    ids=["edit-task", "delete-task", "update-node", "delete-node"],
)
def test_changing_an_absent_node_is_a_conflict(event: Event) -> None:
    ((name, why),) = reasons(folded(event))

    assert name == event.name
    assert why.endswith("is not a node")


MALFORMED = {
    "node-without-id": unknown("node.create"),
    "id-that-is-a-number": unknown("node.create", id=7, type="GOAL", data={}),
    "id-of-two-lines": unknown("node.create", id="a\nb", type="GOAL", data={}),
    "node-without-type": unknown("node.create", id="x", type=None, data={}),
    "data-that-is-a-list": unknown("node.create", id="x", type="GOAL", data=[1]),
    "decision-without-id": unknown("decision.create", decision="Use slate"),
    "changes-that-are-a-text": unknown("node.update", id="x", changes="all"),
    "update-of-nothing": unknown("node.update"),
    "delete-of-nothing": unknown("node.delete", id=None),
    "edge-without-ends": unknown("edge.create", src=1),
    "delete-without-ends": unknown("edge.delete"),
}


@pytest.mark.parametrize("event", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_event_is_a_conflict_and_never_an_error(event: Unknown) -> None:
    view = folded(event)

    assert [conflict.event for conflict in view.conflicts] == [event.kind]
    assert not view.graph.nodes


def test_values_nested_too_deeply_to_compare_are_a_conflict() -> None:
    def nested() -> list[Any]:
        value: list[Any] = []
        for _ in range(100_000):
            value = [value]
        return value

    events = [replace(goal(deep=nested()), ts=f"2026-11-15T09:00:0{number}.000000Z") for number in range(2)]

    assert [conflict.event for conflict in fold_graph(events).conflicts] == ["node.create"]


def test_a_conflict_names_its_event_and_time() -> None:
    (event,) = stamp_events(unlinked())
    (conflict,) = fold_graph([event]).conflicts

    assert (conflict.event_id, conflict.at) == (event.meta.id, event.ts)


# Order.


def test_any_order_and_any_copies_give_the_same_graph() -> None:
    events = stamp_events(
        task_added(T1),
        task_added(T2),
        task_added(T3),
        goal(),
        linked(),
        linked(N2, N3),
        unlinked(N1, N2),
        unlinked(N1, N3),
        TaskEdited(id=N1, changes=TaskChanges(title="First")),
        TaskEdited(id=N1, changes=TaskChanges(title="Second")),
        task_added(T2, "Another"),
        TaskDeleted(id=N3),
        linked(N1, N3),
    )
    expected = fold_graph(events)
    random = Random(20261115)

    assert node_of(expected, N1).content == "Second"
    for _ in range(20):
        copies = random.choices(events, k=5)
        mixed = random.sample([*events, *copies], k=len(events) + 5)
        view = fold_graph(mixed)
        assert view.graph.nodes == expected.graph.nodes
        assert view.graph.edges == expected.graph.edges
        assert view.conflicts == expected.conflicts


def test_conflicts_stand_in_the_order_of_their_events() -> None:
    view = folded(unlinked(), linked(N1, N3), unlinked(N2, N1), task_added(T1))

    assert [conflict.event for conflict in view.conflicts] == ["edge.delete", "edge.create", "edge.delete"]


# Figures.


def test_figures_count_by_type_with_the_most_frequent_first() -> None:
    view = folded(
        goal(),
        task_added(T1),
        task_added(T2),
        linked(),
        linked(N1, N2, "BLOCKS"),
        linked(N2, N1, "BLOCKS"),
        unlinked(N2, N3),
    )

    figures = graph_stats(view)

    assert figures == {
        "nodes": 3,
        "edges": 3,
        "by_node_type": {"TASK": 2, "GOAL": 1},
        "by_edge_type": {"BLOCKS": 2, "SIMILAR": 1},
        "conflicts": 1,
    }
    assert list(figures["by_node_type"]) == ["TASK", "GOAL"]


def test_the_figures_of_a_ledger_are_those_of_its_graph() -> None:
    world = FakeLedger()
    one = world.add()
    world.add(depends_on=(one,))
    world.reject(world.add_and_claim()[1], {"reason_type": "BLOCKED"})
    with world.store.read() as view:
        figures, whole = count_graph(view), graph_stats(read_graph(view))

    assert figures == whole
    assert (figures["by_node_type"]["TASK"], figures["by_edge_type"]["DEPENDS_ON"]) == (3, 1)


def test_figures_of_nothing_are_zero() -> None:
    empty = {"nodes": 0, "edges": 0, "by_node_type": {}, "by_edge_type": {}, "conflicts": 0}

    assert graph_stats(fold_graph([])) == empty
