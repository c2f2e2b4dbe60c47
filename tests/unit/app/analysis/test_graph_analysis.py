"""Holds what a graph alone teaches about rejections."""

from typing import Any

import pytest

from remand import analyze_rejection_patterns, log_rejection_to_got
from remand.domain.graph import EdgeType, NodeType, ThoughtGraph
from remand.domain.reasons import DecisionType, RejectionReason
from remand.domain.rejection import RejectionDecision, TaskRejection


def log(
    graph: ThoughtGraph,
    decision: DecisionType,
    *,
    task: str = "task:T-1",
    agent: str = "Alice",
    reason: RejectionReason = RejectionReason.BLOCKER,
    blocker: str = "The ladder is gone",
    rationale: str = "Rejection validation failed",
) -> None:
    rejection = TaskRejection(task_id=task, agent_id=agent, reason_type=reason, blocking_factor=blocker)
    log_rejection_to_got(
        graph, rejection, RejectionDecision(decision_type=decision, rejection=rejection, rationale=rationale)
    )


def patterns(*decisions: DecisionType, **fields: Any) -> dict[str, Any]:
    graph = ThoughtGraph()
    for decision in decisions:
        log(graph, decision, **fields)
    return analyze_rejection_patterns(graph)


def test_rejections_are_counted_by_reason_agent_and_task() -> None:
    graph = ThoughtGraph()
    log(graph, DecisionType.ACCEPT, task="T-1", agent="Alice")
    log(graph, DecisionType.ACCEPT, task="T-2", agent="Bob", reason=RejectionReason.INFEASIBLE)
    log(graph, DecisionType.OVERRIDE, task="T-2", agent="Bob")
    found = analyze_rejection_patterns(graph)

    assert found["total_rejections"] == 3
    assert found["by_reason"] == {"BLOCKER": 2, "INFEASIBLE": 1}
    assert found["by_agent"] == {"Bob": 2, "Alice": 1}
    assert found["by_task"] == {"task:T-2": 2, "task:T-1": 1}


@pytest.mark.parametrize("decision", DecisionType)
def test_a_decision_counts_as_what_it_is_and_not_as_what_its_rationale_says(decision: DecisionType) -> None:
    found = patterns(decision, rationale="override decompose defer")

    assert found["decision_outcomes"] == {decision.name: 1}
    assert found["override_rate"] == (1.0 if decision is DecisionType.OVERRIDE else 0.0)


def test_the_override_rate_is_the_share_of_overrides() -> None:
    found = patterns(DecisionType.OVERRIDE, DecisionType.ACCEPT, DecisionType.ACCEPT_AND_DEFER)

    assert found["override_rate"] == pytest.approx(1 / 3)
    assert found["invalid_rejections"] == 1


def test_only_what_was_accepted_is_a_common_blocker() -> None:
    graph = ThoughtGraph()
    log(graph, DecisionType.OVERRIDE, blocker="I do not like ladders")
    log(graph, DecisionType.ACCEPT, blocker="Too many roofs", reason=RejectionReason.SCOPE_CREEP)
    log(graph, DecisionType.ACCEPT_AND_DEFER, blocker="The ladder is gone")

    assert analyze_rejection_patterns(graph)["common_blockers"] == ["The ladder is gone"]


def test_the_most_common_blocker_comes_first_with_near_duplicates_merged() -> None:
    graph = ThoughtGraph()
    log(graph, DecisionType.ACCEPT, blocker="Nobody has the key of the shed")
    for number in range(3):
        log(
            graph,
            DecisionType.ACCEPT,
            task=f"T-{number}",
            blocker=f"The ladder no. {number} was stolen in Basel",
        )
    found = analyze_rejection_patterns(graph)

    assert [one["count"] for one in found["blocker_clusters"]] == [3, 1]
    assert found["common_blockers"][1] == "Nobody has the key of the shed"
    assert found["blocker_clusters"][0]["tasks"] == ("task:T-0", "task:T-1", "task:T-2")


def test_an_empty_graph_has_no_rejections() -> None:
    found = analyze_rejection_patterns(ThoughtGraph())

    assert found["total_rejections"] == 0
    assert found["override_rate"] == 0.0
    assert found["by_reason"] == found["decision_outcomes"] == {}


def test_a_rejection_that_nobody_answered_is_no_override() -> None:
    graph = ThoughtGraph()
    graph.add_node("rejection:task:T-1:1", NodeType.OBSERVATION, "", {"reason_type": 7, "agent_id": None})
    found = analyze_rejection_patterns(graph)

    assert (found["total_rejections"], found["unanswered"], found["override_rate"]) == (1, 1, 0.0)
    assert found["by_reason"] == {"UNKNOWN": 1}
    assert found["by_agent"] == {"unknown": 1}


def test_an_invalid_rejection_without_an_answer_counts_as_overridden() -> None:
    graph = ThoughtGraph()
    graph.add_node("rejection:task:T-1:1", NodeType.OBSERVATION, "", {"is_valid": False})

    assert analyze_rejection_patterns(graph)["override_rate"] == 1.0


# Graphs that the requirements' own logger made.


def log_as_documented(
    graph: ThoughtGraph, at: int, decision: DecisionType, *, content: str | None = None, **fields: Any
) -> None:
    """The requirements' `log_rejection_to_got`, as it stands there; its nodes name no type of decision."""
    told = {
        "task": "task:T-1",
        "reason": "BLOCKER",
        "agent": "Alice",
        "blocker": "The ladder is gone",
    } | fields
    rejection, answer = f"rejection:{told['task']}:{at}", f"decision:rejection-response:{at}"
    properties = {
        "reason_type": told["reason"],
        "agent_id": told["agent"],
        "blocking_factor": told["blocker"],
        "what_attempted": ["a", "b"],
        "evidence": [],
    }
    graph.add_node(rejection, NodeType.OBSERVATION, "Task rejected", properties)
    if told.get("is_observed", True):
        graph.add_edge(rejection, told["task"], EdgeType.OBSERVES)
    if told["reason"] == "BLOCKER":
        graph.add_node(f"blocker:{at}.5", NodeType.CONSTRAINT, told["blocker"], {"evidence": []})
        graph.add_edge(f"blocker:{at}.5", told["task"], EdgeType.BLOCKS)
    created = told.get("created", [])
    said = f"Rejection decision: {decision.name}" if content is None else content
    graph.add_node(
        answer,
        NodeType.DECISION,
        said,
        {
            "rationale": told.get("rationale", "So it is."),
            "created_tasks": created,
            "deferred_task": told.get("deferred", ""),
        },
    )
    graph.add_edge(answer, rejection, EdgeType.ANSWERS)
    for name in created:
        graph.add_edge(name, answer, EdgeType.IMPLEMENTS)


@pytest.mark.parametrize("decision", DecisionType)
def test_the_documented_logger_names_the_type_in_its_content(decision: DecisionType) -> None:
    graph = ThoughtGraph()
    log_as_documented(graph, 1, decision, rationale="override decompose defer")

    found = analyze_rejection_patterns(graph)

    assert found["decision_outcomes"] == {decision.name: 1}
    assert found["override_rate"] == (1.0 if decision is DecisionType.OVERRIDE else 0.0)


@pytest.mark.parametrize(
    ("fields", "refines", "expected"),
    [
        ({"deferred": "task:T-1"}, [], "ACCEPT_AND_DEFER"),
        ({"deferred": "task:T-1", "created": ["task:T-2"]}, [], "ACCEPT_AND_DEFER"),
        ({"created": ["task:T-2", "task:T-3"]}, ["task:T-2", "task:T-3"], "ACCEPT_AND_DECOMPOSE"),
        ({"created": ["task:T-2"]}, ["task:T-2"], "ACCEPT_AND_REFORMULATE"),
        ({"created": ["task:T-2"]}, [], "UNKNOWN"),
        ({"created": ["task:T-2", "task:T-3"]}, ["task:T-2"], "UNKNOWN"),
        ({}, [], "UNKNOWN"),
        ({"rationale": "I override this"}, [], "UNKNOWN"),
        ({"deferred": 7, "created": "task:T-2"}, [], "UNKNOWN"),
        ({"deferred": ["x"], "created": [{}, None]}, [], "UNKNOWN"),
    ],
)
@pytest.mark.parametrize("content", ["", "Rejection decision: PERHAPS", "Decided: OVERRIDE"])
def test_what_content_does_not_tell_links_may_and_rationales_never(
    fields: dict[str, Any], refines: list[str], expected: str, content: str
) -> None:
    graph = ThoughtGraph()
    safe = {**fields, "created": [name for name in fields.get("created", []) if isinstance(name, str)]}
    log_as_documented(
        graph, 1, DecisionType.ACCEPT, content=content, **(safe if "created" in fields else fields)
    )
    graph.nodes["decision:rejection-response:1"].properties["created_tasks"] = fields.get("created", [])
    for name in refines:
        graph.add_edge(name, "task:T-1", EdgeType.REFINES)

    assert analyze_rejection_patterns(graph)["decision_outcomes"] == {expected: 1}


def test_what_is_unknown_is_in_no_rate() -> None:
    graph = ThoughtGraph()
    log_as_documented(graph, 1, DecisionType.OVERRIDE)
    log_as_documented(graph, 2, DecisionType.ACCEPT)
    for at in range(3, 10):
        log_as_documented(graph, at, DecisionType.ACCEPT, content="")

    found = analyze_rejection_patterns(graph)

    assert found["decision_outcomes"] == {"UNKNOWN": 7, "ACCEPT": 1, "OVERRIDE": 1}
    assert found["override_rate"] == 0.5
    assert found["override_share"]["of"] == 2
    assert found["unanswered"] == 0


def test_the_documented_id_tells_the_task_where_no_link_does() -> None:
    graph = ThoughtGraph()
    log_as_documented(graph, 1734710000, DecisionType.ACCEPT, is_observed=False)

    assert analyze_rejection_patterns(graph)["by_task"] == {"task:T-1": 1}


@pytest.mark.parametrize("order", [("", "ACCEPT"), ("ACCEPT", ""), ("OVERRIDE", ""), ("", "OVERRIDE")])
def test_of_several_answers_the_one_that_is_known_counts(order: tuple[str, str]) -> None:
    graph = ThoughtGraph()
    graph.add_node("rejection:task:T-1:1", NodeType.OBSERVATION, "", {"reason_type": "BLOCKER"})
    for number, name in enumerate(order):
        content = f"Rejection decision: {name}" if name else ""
        graph.add_node(f"decision:rejection-response:{number}", NodeType.DECISION, content, {})
        graph.add_edge(f"decision:rejection-response:{number}", "rejection:task:T-1:1", EdgeType.ANSWERS)

    assert analyze_rejection_patterns(graph)["decision_outcomes"] == {"".join(order): 1}
