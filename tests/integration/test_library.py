"""Holds the protocol for Python programs: over the ledger of a folder, and over a log of the program's own."""

import json
from pathlib import Path
from typing import Any

import pytest

from remand import (
    DecisionType,
    DirectorRejectionHandler,
    HandoffManager,
    Refused,
    RejectionDecision,
    TaskRejection,
    ThoughtGraph,
    analyze_rejection_patterns,
    log_rejection_to_got,
)
from tests.integration.machine import Machine, Repository
from tests.support.rejection_records import LAZY, OAUTH, OAUTH_TASK, SCOPE, TITLE, a_rejection

HUMAN = '[gates]\n[policy]\ndirector = "human"\n'


@pytest.fixture
def place(near_machine: Machine) -> Repository:
    """A repository whose rejections the ledger's own director answers."""
    return near_machine.repository()


@pytest.fixture
def human(near_machine: Machine) -> Repository:
    """A repository whose rejections a human answers."""
    return near_machine.repository("human", config=HUMAN)


def held(repository: Repository, title: str = TITLE, scope: str = SCOPE) -> tuple[str, str]:
    task = repository.add(title, "--scope", scope)
    return task, repository.ok("task", "claim", task, "--agent", "Alice")["handoff_id"]


def a_record(record: dict[str, Any], **fields: Any) -> TaskRejection:
    return TaskRejection.from_dict({**record, **fields})


# Over a folder.


def test_a_valid_rejection_is_filed_and_answered_by_the_ledgers_director(place: Repository) -> None:
    task, handoff = held(place, OAUTH_TASK["title"], OAUTH_TASK["scope"])
    manager = HandoffManager(place.path)

    assert manager.reject_handoff(handoff, "Alice", a_record(OAUTH, task_id=task, agent_id="Alice")) is True

    told = manager.status(f"handoff:{handoff}")
    decided = RejectionDecision.from_dict(told["decision"])
    assert decided.decision_type is DecisionType.ACCEPT_AND_DECOMPOSE
    assert len(decided.created_tasks) == 3
    assert all(name.startswith("task:T-") for name in decided.created_tasks)
    assert told["status"] == "rejection_accepted"
    assert told["rejection"]["reason_summary"] == OAUTH["reason_summary"]
    assert place.ok("task", "show", task)["status"] == "decomposed"
    assert manager.handle_rejection_response(handoff, decided) is True, "that answer is recorded"


def test_an_invalid_rejection_is_false_and_overridden(place: Repository) -> None:
    task, handoff = held(place)
    manager = HandoffManager(str(place.path))

    assert manager.reject_handoff(handoff, "Alice", a_record(LAZY)) is False

    told = manager.status(handoff)
    assert len(told["issues"]) >= 4
    assert told["decision"]["decision_type"] == "OVERRIDE"
    assert told["status"] == "overridden"
    assert place.ok("task", "show", task)["status"] == "claimed"


def test_what_the_ledger_does_not_allow_is_raised(place: Repository) -> None:
    _, handoff = held(place)
    manager = HandoffManager(place.path)
    for name, agent, record, code in (
        ("H-20260101-000000-0badbad0", "Alice", a_record(LAZY), "unknown_handoff"),
        (handoff, "mallory", a_record(LAZY), "not_yours"),
        (handoff, "Alice", a_record(LAZY, task_id="T-other"), "bad_value"),
        (handoff, "Alice", a_record(LAZY, reason_detail="\ud800"), "bad_value"),
    ):
        with pytest.raises(Refused) as refusal:
            manager.reject_handoff(name, agent, record)
        assert refusal.value.code == code
    assert manager.status(handoff)["rejection"] is None


def test_a_program_answers_as_the_director_where_a_human_directs(human: Repository) -> None:
    task, handoff = held(human)
    manager = HandoffManager(human.path)
    rejection = a_record(a_rejection("INFEASIBLE"), task_id=task, agent_id="Alice")
    assert manager.reject_handoff(handoff, "Alice", rejection)
    assert manager.status(handoff)["decision"] is None

    decision = RejectionDecision(
        decision_type=DecisionType.OVERRIDE, rejection=rejection, override_message="The limit was raised"
    )
    assert manager.handle_rejection_response(handoff, decision) is True

    assert human.ok("task", "show", task)["status"] == "claimed"
    assert manager.status(handoff)["decision"]["override_message"] == "The limit was raised"
    with pytest.raises(Refused):
        manager.handle_rejection_response(
            handoff, RejectionDecision(decision_type="ACCEPT", rejection=rejection), director="Alice"
        )


def test_a_folder_without_a_repository_is_said(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="git"):
        HandoffManager(tmp_path)


# Over a log of the program's own.


class EventLog:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def log(self, event: str, /, **fields: Any) -> None:
        self.events.append(json.loads(json.dumps({"event": event, **fields})))


def test_the_example_of_the_requirements_runs_from_end_to_end() -> None:
    log = EventLog()
    manager = HandoffManager(log, task_context=lambda _: OAUTH_TASK)
    rejection = a_record(
        OAUTH,
        task_id="task:T-20251220-153045-a1b2",
        handoff_id="handoff:H-20251220-153100-c3d4",
        agent_id="sub-agent-1",
    )

    assert manager.reject_handoff(handoff_id=rejection.handoff_id, agent="sub-agent-1", rejection=rejection)
    handler = DirectorRejectionHandler()
    decision = handler.handle_rejection(rejection=rejection, task_context=OAUTH_TASK)
    assert manager.handle_rejection_response(rejection.handoff_id, decision)
    node = log_rejection_to_got(handler.manager.graph, rejection, decision)

    assert decision.decision_type.name == "ACCEPT_AND_DECOMPOSE"
    assert decision.rationale == "Valid scope creep. Decomposed into 3 sub-tasks."
    assert node.startswith("rejection:task:T-20251220-153045-a1b2:")
    assert [event["event"] for event in log.events] == ["handoff.reject", "handoff.reject.response"]
    assert log.events[1]["decision"]["decision_type"] == "ACCEPT_AND_DECOMPOSE"
    assert manager.status(rejection.handoff_id)["status"] == "rejection_accepted"
    assert isinstance(handler.manager.graph, ThoughtGraph)
    assert analyze_rejection_patterns(handler.manager.graph)["total_rejections"] == 1


def test_a_lazy_rejection_is_logged_as_invalid_with_its_issues() -> None:
    log = EventLog()
    manager = HandoffManager(log)

    assert manager.reject_handoff("H-1", "Alice", a_record(LAZY)) is False

    (event,) = log.events
    assert event["event"] == "handoff.reject.invalid"
    assert len(event["validation_issues"]) >= 4
    assert manager.status("H-1")["status"] == "initiated"


def test_an_override_is_told_by_its_status() -> None:
    log = EventLog()
    manager = HandoffManager(log)
    rejection = a_record(a_rejection())
    manager.reject_handoff("H-1", "Alice", rejection)
    assert manager.status("H-1")["status"] == "rejected"

    manager.handle_rejection_response(
        "H-1", RejectionDecision(decision_type="OVERRIDE", rejection=rejection, override_message="Go on")
    )

    assert manager.status("H-1")["status"] == "overridden"
    assert manager.status("H-1")["override_message"] == "Go on"
