"""Holds what a graph alone teaches about rejections."""

from typing import Any

import pytest

from remand import analyze_rejection_patterns, log_rejection_to_got
from remand.domain.graph import NodeType, ThoughtGraph
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
