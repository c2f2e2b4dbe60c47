"""Holds that logs of GoT tools load as they are, anomalies included."""

import json
from typing import Any

import pytest

from remand.domain.events.catalogue import Unknown, event_task_id
from remand.domain.events.tasks import (
    EdgeCreated,
    EdgeDeleted,
    HandoffAccepted,
    HandoffCompleted,
    HandoffInitiated,
    HandoffRejected,
    RejectionAnswered,
    TaskAdded,
    TaskChanges,
    TaskData,
    TaskEdited,
)
from remand.ledger import codec
from remand.ledger.problems import BadLine

TS = "2025-12-20T23:26:28.099321Z"
META = {"branch": "claude/x", "session": "20251220-232628-56bf"}


def line(name: str, ts: str = TS, **fields: Any) -> bytes:
    return json.dumps({"ts": ts, "event": name, "meta": META, **fields}).encode()


def node(task: str = "task:T-20251220-232628-5fc8", **data: Any) -> bytes:
    return line("node.create", id=task, type="TASK", data={"title": "Stress test", **data})


def test_a_task_is_read() -> None:
    event = codec.decode_line(
        node(status="in_progress", priority="high", category="feature", description="All")
    )

    assert isinstance(event, TaskAdded)
    assert event_task_id(event) == "T-20251220-232628-5fc8"
    assert event.data == TaskData(
        title="Stress test", description="All", status="in_progress", priority="high", category="feature"
    )
    assert event.type == "TASK"
    assert (event.ts, event.meta.session, event.meta.branch) == (TS, META["session"], META["branch"])
    assert event.is_legacy


@pytest.mark.parametrize("task", ["T-20251220-232628-5fc8", "task:T-20251220-232628-5fc8"])
def test_bare_and_prefixed_ids_are_one_task(task: str) -> None:
    assert codec.decode_line(node(task)).id == "task:T-20251220-232628-5fc8"
    assert (
        event_task_id(codec.decode_line(line("node.update", id=task, changes={}))) == "T-20251220-232628-5fc8"
    )
    assert event_task_id(codec.decode_line(line("node.delete", id=task))) == "T-20251220-232628-5fc8"


def test_a_status_given_as_old_and_new_is_the_new_one() -> None:
    event = codec.decode_line(
        line("node.update", id="T-1", changes={"status": {"old": "in_progress", "new": "pending"}})
    )

    assert isinstance(event, TaskEdited)
    assert event.changes == TaskChanges(status="pending")


def test_an_edit_keeps_what_we_know_and_leaves_the_rest() -> None:
    changes = {"status": "completed", "title": 5, "updated_at": "x", "retrospective": "y"}
    more = {"category": "house", "priority": "low", "description": "All", "title": None}

    event, other = (
        codec.decode_line(line("node.update", id="T-1", changes=change)) for change in (changes, more)
    )

    assert isinstance(event, TaskEdited)
    assert isinstance(other, TaskEdited)
    assert event.changes == TaskChanges(status="completed", title="5")
    assert other.changes == TaskChanges(category="house", priority="low", description="All")


@pytest.mark.parametrize(
    ("src", "tgt", "kind", "waiting"),
    [
        ("T-1", "task:T-2", "DEPENDS_ON", "T-1"),
        ("task:T-1", "T-2", "BLOCKS", "T-2"),
        ("T-1", "T-2", "SIMILAR", ""),
        ("T-1", "decision:D-1", "DEPENDS_ON", ""),
        ("context:C-1", "T-2", "RELATES_TO", ""),
        ("T-1", "T-2", "ODD_TYPE", ""),
    ],
)
@pytest.mark.parametrize("name", ["edge.create", "edge.delete"])
def test_a_link_belongs_to_the_task_that_waits_by_it(
    name: str, src: str, tgt: str, kind: str, waiting: str
) -> None:
    event = codec.decode_line(line(name, src=src, tgt=tgt, type=kind))

    assert isinstance(event, EdgeCreated | EdgeDeleted)
    assert event.type == kind
    assert event_task_id(event) == waiting


@pytest.mark.parametrize(
    ("weight", "expected"), [(0.5, 0.5), (2, 2.0), ("heavy", 1.0), (None, 1.0), (10**400, 1.0), ([], 1.0)]
)
def test_a_weight_that_is_none_counts_as_one(weight: Any, expected: float) -> None:
    event = codec.decode_line(line("edge.create", src="T-1", tgt="T-2", type="SIMILAR", weight=weight))

    assert isinstance(event, EdgeCreated)
    assert event.weight == expected


@pytest.mark.parametrize("name", ["edge.create", "edge.delete"])
@pytest.mark.parametrize("src", ["", None, "a\nb", "x" * 300])
def test_a_link_of_nothing_is_a_bad_line(name: str, src: Any) -> None:
    with pytest.raises(BadLine, match="ids"):
        codec.decode_line(line(name, src=src, tgt="T-2", type="DEPENDS_ON"))


def test_handoffs_are_read_with_and_without_their_task() -> None:
    initiated = codec.decode_line(
        line(
            "handoff.initiate",
            handoff_id="handoff:H-1",
            source_agent="main",
            target_agent="sub",
            task_id="task:T-1",
            instructions="Go",
            context={"a": 1},
        )
    )
    accepted = codec.decode_line(line("handoff.accept", handoff_id="H-1", agent="sub", acknowledgment="Yes"))
    completed = codec.decode_line(
        line("handoff.complete", handoff_id="H-1", agent="sub", result={"b": 2}, artifacts=["x"])
    )

    assert isinstance(initiated, HandoffInitiated)
    assert (initiated.task_id, initiated.handoff_id, initiated.context) == ("T-1", "H-1", {"a": 1})
    assert (initiated.meta.actor, initiated.source_agent, initiated.target_agent) == ("main", "main", "sub")
    assert initiated.instructions == "Go"
    assert isinstance(accepted, HandoffAccepted)
    assert (accepted.task_id, accepted.handoff_id, accepted.meta.actor) == ("", "H-1", "sub")
    assert isinstance(completed, HandoffCompleted)
    assert (completed.result, completed.artifacts) == ({"b": 2}, ["x"])


@pytest.mark.parametrize(
    "fields",
    [
        {"agent": "sub", "reason": "Too big", "suggestion": "Cut it"},
        {"agent": "sub", "rejection": {"reason_type": "SCOPE_CREEP", "what_attempted": ["a", "b"]}},
    ],
    ids=["simple", "structured"],
)
def test_both_shapes_of_a_rejected_handoff_are_read(fields: dict[str, Any]) -> None:
    event = codec.decode_line(line("handoff.reject", handoff_id="handoff:H-1", **fields))

    assert isinstance(event, HandoffRejected)
    assert event.is_legacy
    assert (event.handoff_id, event.agent, event.task_id) == ("H-1", "sub", "")
    assert event.rejection == fields.get("rejection", {})
    assert (event.reason, event.suggestion) == (fields.get("reason", ""), fields.get("suggestion", ""))


def test_an_answer_is_read_with_the_tasks_it_created() -> None:
    decision = {
        "decision_type": "ACCEPT_AND_DEFER",
        "rejection": {"task_id": "task:T-1"},
        "rationale": "Valid.",
        "created_tasks": ["task:T-2", 7, "", "T-3", "no id"],
        "deferred_task": "task:T-1",
    }
    event = codec.decode_line(line("handoff.reject.response", handoff_id="H-1", decision=decision))

    assert isinstance(event, RejectionAnswered)
    assert (event_task_id(event), event.decision.created_tasks, event.decision.deferred_task) == (
        "T-1",
        ("T-2", "T-3"),
        "T-1",
    )


@pytest.mark.parametrize(
    "raw",
    [
        line("node.create", id="context:C-1", type="CONTEXT", data={"title": "x"}),
        line("node.create", id="T-1", type="GOAL", data={"title": "x"}),
        line("node.create", id="T-1", type="TASK", data="x"),
        line("node.create", id="decision:D-1", type="TASK", data={}),
        line("node.update", id="context:C-1", changes={"status": "completed"}),
        line("node.update", id="T-1", changes=None),
        line("node.delete", id="context:C-1"),
        line("decision.create", id="decision:D-1", decision="Paint it"),
        line("something.else"),
    ],
)
def test_what_is_about_no_task_is_kept_without_effect(raw: bytes) -> None:
    event = codec.decode_line(raw)

    assert isinstance(event, Unknown)
    assert event_task_id(event) == ""
    assert codec.decode_stored_line(raw) == event


@pytest.mark.parametrize("data", [{}, {"title": None}, {"title": 7, "status": None, "priority": None}])
def test_a_task_is_read_whatever_its_fields_hold(data: dict[str, Any]) -> None:
    event = codec.decode_line(line("node.create", id="T-1", type="TASK", data=data))

    assert isinstance(event, TaskAdded)
    assert (event.data.status, event.data.priority) == ("pending", "medium")


def test_copies_of_a_line_have_one_id_however_they_are_written() -> None:
    fields = {"ts": TS, "event": "node.delete", "meta": META, "id": "T-1"}
    one = json.dumps(fields).encode()
    other = json.dumps(dict(reversed(fields.items())), indent=1).replace("\n", " ").encode()

    assert codec.decode_line(one).meta.id == codec.decode_line(other).meta.id


def test_lines_that_differ_have_ids_that_differ() -> None:
    ids = {codec.decode_line(raw).meta.id for raw in (node(), node("T-2"), node(status="done"), node(ts="x"))}

    assert len(ids) == 4


@pytest.mark.parametrize(
    ("ts", "expected"),
    [
        ("2025-12-20T23:26:28Z", "2025-12-20T23:26:28.000000Z"),
        ("2025-12-20T23:26:28.099321", "2025-12-20T23:26:28.099321Z"),
        ("2025-12-21T00:26:28+01:00", "2025-12-20T23:26:28.000000Z"),
    ],
)
def test_times_are_read_in_any_form_and_kept_in_one(ts: str, expected: str) -> None:
    assert codec.decode_line(line("node.delete", ts=ts, id="T-1")).ts == expected


def test_without_meta_a_line_is_none_of_a_got_tool() -> None:
    with pytest.raises(BadLine, match="meta"):
        codec.decode_line(json.dumps({"ts": TS, "event": "node.delete", "id": "T-1"}).encode())


def test_of_one_time_what_creates_comes_first() -> None:
    names = {
        "node.create": node(),
        "edge.create": line("edge.create", src="T-1", tgt="T-2", type="DEPENDS_ON"),
        "node.update": line("node.update", id="T-1", changes={}),
    }

    ranks = [codec.decode_line(raw).meta.seq for raw in names.values()]

    assert ranks == sorted(ranks)
    assert ranks[0] < ranks[1] < ranks[2] <= 0
