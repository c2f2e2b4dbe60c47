"""Holds how a rejection and its decision stand in the thought graph."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.graph import EdgeType, GraphNode, NodeType, ThoughtGraph, log_rejection_to_got
from remand.domain.reasons import DecisionType, RejectionReason
from remand.domain.rejection import RejectionDecision, TaskRejection

AT = datetime(2026, 11, 15, 9, 0, 0, 123456, tzinfo=UTC)
ACCEPTED = [one for one in DecisionType if one is not DecisionType.OVERRIDE]


def a_rejection(**fields: Any) -> TaskRejection:
    standard: dict[str, Any] = {
        "task_id": "task:T-123",
        "handoff_id": "handoff:H-456",
        "agent_id": "sub-agent-1",
        "reason_type": RejectionReason.BLOCKER,
        "reason_summary": "The ladder is gone",
        "what_attempted": ["Looked in the shed: 0 ladders", "Asked Bob: he has none"],
        "blocking_factor": "There is no ladder longer than 3 m",
        "evidence": [{"type": "status_check", "data": "0 of 2"}],
        "rejected_at": AT,
    }
    return TaskRejection(**{**standard, **fields})


def a_decision(
    rejection: TaskRejection, decision: DecisionType | str = DecisionType.ACCEPT_AND_DEFER, **fields: Any
) -> RejectionDecision:
    return RejectionDecision(decision_type=decision, rejection=rejection, rationale="So it is.", **fields)


def logged(
    graph: ThoughtGraph, rejection: TaskRejection, decision: RejectionDecision | None = None
) -> GraphNode:
    name = log_rejection_to_got(graph, rejection, decision or a_decision(rejection))
    node = graph.get_node(name)
    assert node is not None
    return node


def of_type(graph: ThoughtGraph, kind: NodeType) -> list[GraphNode]:
    return [node for node in graph.nodes.values() if node.node_type is kind]


def links(graph: ThoughtGraph, kind: EdgeType) -> list[tuple[str, str]]:
    return [(edge.source, edge.target) for edge in graph.edges if edge.edge_type is kind]


def test_a_rejection_observes_its_task() -> None:
    graph = ThoughtGraph()
    node = logged(graph, a_rejection())

    assert node.node_type is NodeType.OBSERVATION
    assert node.id.startswith("rejection:task:T-123:")
    assert node.content == "Task task:T-123 rejected: The ladder is gone"
    assert links(graph, EdgeType.OBSERVES) == [(node.id, "task:T-123")]
    told = node.properties
    assert (told["reason_type"], told["agent_id"], told["is_valid"]) == ("BLOCKER", "sub-agent-1", True)
    assert told["blocking_factor"] == "There is no ladder longer than 3 m"
    assert told["what_attempted"] == ["Looked in the shed: 0 ladders", "Asked Bob: he has none"]
    assert told["evidence"] == [{"type": "status_check", "data": "0 of 2"}]


@pytest.mark.parametrize("kind", DecisionType)
def test_the_type_of_a_decision_is_stored_whatever_its_rationale_says(kind: DecisionType) -> None:
    graph, rejection = ThoughtGraph(), a_rejection()
    decision = a_decision(rejection, kind, override_message="Go on.", deferred_task="T-123")
    decision.rationale = "We could override, decompose or defer this."
    node = logged(graph, rejection, decision)

    (answer,) = of_type(graph, NodeType.DECISION)
    assert answer.id.startswith("decision:rejection-response:")
    assert answer.properties["decision_type"] == kind.name
    assert answer.properties["rationale"] == decision.rationale
    assert answer.properties["override_message"] == "Go on."
    assert answer.properties["deferred_task"] == "task:T-123"
    assert links(graph, EdgeType.ANSWERS) == [(answer.id, node.id)]


@pytest.mark.parametrize("kind", ACCEPTED)
def test_an_accepted_blocker_blocks_the_task(kind: DecisionType) -> None:
    graph, rejection = ThoughtGraph(), a_rejection()
    logged(graph, rejection, a_decision(rejection, kind))

    (blocker,) = of_type(graph, NodeType.CONSTRAINT)
    assert blocker.id.startswith("blocker:")
    assert blocker.content == "There is no ladder longer than 3 m"
    assert links(graph, EdgeType.BLOCKS) == [(blocker.id, "task:T-123")]


def test_an_overridden_blocker_blocks_nothing() -> None:
    graph, rejection = ThoughtGraph(), a_rejection()
    node = logged(graph, rejection, a_decision(rejection, DecisionType.OVERRIDE))

    assert node.properties["is_valid"] is False
    assert of_type(graph, NodeType.CONSTRAINT) == []
    assert links(graph, EdgeType.BLOCKS) == []


@pytest.mark.parametrize("reason", [one for one in RejectionReason if one is not RejectionReason.BLOCKER])
def test_only_a_blocker_blocks(reason: RejectionReason) -> None:
    graph = ThoughtGraph()
    logged(graph, a_rejection(reason_type=reason))

    assert of_type(graph, NodeType.CONSTRAINT) == []


def test_created_tasks_implement_the_decision() -> None:
    graph, rejection = ThoughtGraph(), a_rejection()
    logged(graph, rejection, a_decision(rejection, created_tasks=["task:T-200", "T-201"]))

    (answer,) = of_type(graph, NodeType.DECISION)
    assert links(graph, EdgeType.IMPLEMENTS) == [("task:T-200", answer.id), ("task:T-201", answer.id)]
    assert answer.properties["created_tasks"] == ["task:T-200", "task:T-201"]


def test_the_example_of_the_requirements_leaves_no_edge_without_ends() -> None:
    graph = ThoughtGraph()
    rejection = a_rejection(reason_type=RejectionReason.SCOPE_CREEP)
    graph.add_node(rejection.task_id, NodeType.TASK, "Original task", {})
    decision = a_decision(
        rejection, DecisionType.ACCEPT_AND_DECOMPOSE, created_tasks=["task:T-200", "task:T-201"]
    )
    log_rejection_to_got(graph, rejection, decision)

    assert (len(graph.nodes), len(graph.edges)) == (5, 4)
    assert list(graph.dangling_edges()) == []
    assert graph.nodes["task:T-123"].content == "Original task"


def test_a_task_that_stands_in_the_graph_under_its_bare_id_is_that_task() -> None:
    graph = ThoughtGraph()
    graph.add_node("T-123", NodeType.TASK, "Original task")
    node = logged(graph, a_rejection(task_id="T-123"))

    assert links(graph, EdgeType.OBSERVES) == [(node.id, "T-123")]
    assert "task:T-123" not in graph.nodes


@pytest.mark.parametrize("tasks", [("T-1", "T-1", "T-1"), ("T-1", "T-2", "T-3")], ids=["one task", "others"])
def test_rejections_of_one_microsecond_do_not_collide(tasks: tuple[str, ...]) -> None:
    graph = ThoughtGraph()
    names = {logged(graph, a_rejection(task_id=task)).id for task in tasks}

    assert len(names) == len(of_type(graph, NodeType.OBSERVATION)) == 3
    assert len(of_type(graph, NodeType.DECISION)) == len(of_type(graph, NodeType.CONSTRAINT)) == 3
    assert len(links(graph, EdgeType.ANSWERS)) == 3


def test_a_thousand_rejections_of_one_moment_are_all_there() -> None:
    graph = ThoughtGraph()
    for _ in range(1000):
        logged(graph, a_rejection())

    assert len(of_type(graph, NodeType.OBSERVATION)) == len(of_type(graph, NodeType.DECISION)) == 1000


def test_the_graph_keeps_its_own_copy_of_the_record() -> None:
    graph, rejection = ThoughtGraph(), a_rejection()
    node = logged(graph, rejection)
    rejection.what_attempted.append("Changed later")
    rejection.evidence[0]["data"] = "changed"

    assert len(node.properties["what_attempted"]) == 2
    assert node.properties["evidence"] == [{"type": "status_check", "data": "0 of 2"}]


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=20),
    st.binary(max_size=5),
    st.lists(st.none() | st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    st.just(datetime.max.replace(tzinfo=UTC)),
    st.sampled_from([*RejectionReason, *DecisionType]),
)


@given(st.data())
def test_values_of_any_type_are_logged_without_an_error_and_without_loose_ends(data: st.DataObject) -> None:
    rejection = TaskRejection(**{name: data.draw(ANYTHING) for name in TaskRejection.__dataclass_fields__})
    decision = RejectionDecision(
        **{
            name: rejection if name == "rejection" else data.draw(ANYTHING)
            for name in RejectionDecision.__dataclass_fields__
        }
    )
    graph = ThoughtGraph()
    for _ in range(2):
        node = logged(graph, rejection, decision)
        assert node.node_type is NodeType.OBSERVATION

    assert list(graph.dangling_edges()) == []
    assert len(of_type(graph, NodeType.DECISION)) == 2
    assert all(isinstance(name, str) and name for name in graph.nodes)


@pytest.mark.parametrize(
    ("decision", "reason", "status"),
    [
        (DecisionType.ACCEPT_AND_DECOMPOSE, "SCOPE_CREEP", "decomposed"),
        (DecisionType.ACCEPT_AND_DEFER, "BLOCKER", "deferred"),
        (DecisionType.ACCEPT_AND_REFORMULATE, "INFEASIBLE", "infeasible"),
        (DecisionType.ACCEPT, "BLOCKER", "blocked"),
        (DecisionType.ACCEPT, "OBSOLETE", "cancelled"),
        (DecisionType.OVERRIDE, "BLOCKER", None),
        ("PERHAPS", "BLOCKER", None),
    ],
)
@pytest.mark.parametrize("is_node", [True, False])
def test_a_task_that_was_no_node_yet_is_logged_with_what_it_became(
    decision: object, reason: str, status: str | None, is_node: bool
) -> None:
    graph = ThoughtGraph()
    if is_node:
        graph.add_node("task:T-1", NodeType.TASK, "Mine", {"status": "mine"})
    rejection = TaskRejection(task_id="task:T-1", reason_type=reason)
    made = RejectionDecision(decision, rejection, created_tasks=["task:T-2", "task:T-3"])

    log_rejection_to_got(graph, rejection, made)

    assert graph.nodes["task:T-1"].properties.get("status") == ("mine" if is_node else status)
    assert list(graph.dangling_edges()) == []
