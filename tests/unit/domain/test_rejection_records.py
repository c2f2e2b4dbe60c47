"""Holds that the records of the protocol take any value, keep it, and are nobody's but their holder's."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given

from remand.domain.reasons import DecisionType, RejectionReason, parse_decision_type, parse_reason
from remand.domain.rejection import FIELDS, RejectionDecision, TaskRejection
from tests.support.rejection_records import a_rejection
from tests.support.strategies import rejection_records

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def test_a_rejection_names_its_fields() -> None:
    with pytest.raises(TypeError):
        TaskRejection("T-1", "H-1", "Alice", RejectionReason.BLOCKER)  # type: ignore[misc]


def test_a_rejection_must_give_its_reason() -> None:
    with pytest.raises(TypeError):
        TaskRejection(task_id="T-1", handoff_id="H-1", agent_id="Alice")  # type: ignore[call-arg]


def test_the_fields_of_a_decision_stand_in_the_documented_order() -> None:
    rejection = TaskRejection(reason_type=RejectionReason.BLOCKER)

    made = RejectionDecision(DecisionType.OVERRIDE, rejection, "Why", "Go on", "Bob", ["T-2"], "T-1")

    assert (made.decision_type, made.rejection, made.rationale) == (DecisionType.OVERRIDE, rejection, "Why")
    assert (made.override_message, made.reassign_to) == ("Go on", "Bob")
    assert (made.created_tasks, made.deferred_task) == (["T-2"], "T-1")
    assert RejectionDecision("accept", rejection).decision_type is DecisionType.ACCEPT


def test_a_decision_must_give_its_type() -> None:
    with pytest.raises(TypeError):
        RejectionDecision(rejection=TaskRejection(reason_type=""))  # type: ignore[call-arg]


def test_a_rejection_that_gives_no_time_is_of_now_in_utc() -> None:
    made = TaskRejection(reason_type=RejectionReason.BLOCKER)

    assert made.rejected_at.tzinfo is UTC


@pytest.mark.parametrize(
    "given_time",
    [
        datetime(2026, 11, 15, 13, 0, tzinfo=timezone(timedelta(hours=1))),
        "2026-11-15T12:00:00Z",
        "2026-11-15T17:30:00+05:30",
    ],
    ids=["aware", "text in UTC", "text in another zone"],
)
def test_every_time_becomes_utc(given_time: object) -> None:
    made = TaskRejection(reason_type=RejectionReason.BLOCKER, rejected_at=given_time)

    assert made.rejected_at == NOON
    assert made.rejected_at.tzinfo is UTC
    assert made.to_dict()["rejected_at"] == "2026-11-15T12:00:00+00:00"


@pytest.mark.parametrize("naive", [datetime(2026, 7, 15, 12, 0), "2026-07-15T12:00:00"])  # noqa: DTZ001 - naive on purpose
@pytest.mark.parametrize(
    ("zone", "hour"), [("UTC0", 12), ("JST-9", 3), ("EST5EDT,M3.2.0,M11.1.0", 16), ("IST-5:30", 6)]
)
def test_a_time_without_a_zone_is_the_machines_own(
    local_zone: Callable[[str], None], naive: object, zone: str, hour: int
) -> None:
    local_zone(zone)

    made = TaskRejection(reason_type=RejectionReason.BLOCKER, rejected_at=naive)

    assert made.rejected_at == datetime(2026, 7, 15, hour, 30 if zone == "IST-5:30" else 0, tzinfo=UTC)
    assert made.rejected_at.tzinfo is UTC
    assert TaskRejection.from_dict(made.to_dict()) == made


@pytest.mark.parametrize("odd_time", [datetime.min, datetime.max])  # noqa: DTZ901 - naive on purpose
@pytest.mark.parametrize("zone", ["JST-9", "EST5"])
def test_a_time_at_the_end_of_the_calendar_is_kept(
    local_zone: Callable[[str], None], odd_time: datetime, zone: str
) -> None:
    local_zone(zone)

    assert TaskRejection(reason_type="", rejected_at=odd_time).rejected_at.tzinfo is UTC


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(None, id="nothing"),
        pytest.param("", id="empty"),
        pytest.param("yesterday", id="text"),
        pytest.param(0, id="number"),
        pytest.param(float("nan"), id="NaN"),
        pytest.param([[]], id="list"),
        pytest.param({"a": {}}, id="dict"),
        pytest.param(object(), id="object"),
        pytest.param(b"x", id="bytes"),
        pytest.param(datetime.min.replace(tzinfo=timezone(timedelta(hours=5))), id="before all time"),
    ],
)
def test_no_value_keeps_a_rejection_from_being_made(odd: object) -> None:
    made = TaskRejection(**dict.fromkeys(FIELDS, odd))

    assert made.to_dict().keys() == set(FIELDS)
    assert made.reason is None


@pytest.mark.parametrize("name", ["BLOCKER", "blocker", " Scope-Creep ", "missing dependency"])
def test_a_reason_is_read_from_its_name_however_it_is_written(name: str) -> None:
    assert isinstance(TaskRejection(reason_type=name).reason_type, RejectionReason)


@pytest.mark.parametrize("odd", ["TOO_HARD", "", 3, None])
def test_an_unknown_reason_is_kept_as_it_is(odd: object) -> None:
    made = TaskRejection(reason_type=odd)

    assert made.reason_type == odd
    assert made.reason is None
    assert made.to_dict()["reason_type"] == odd
    assert TaskRejection.from_dict(made.to_dict()).reason_type == odd


def test_the_sixth_reason_is_that_the_task_is_obsolete() -> None:
    assert [reason.name for reason in RejectionReason] == [
        "BLOCKER",
        "SCOPE_CREEP",
        "MISSING_DEPENDENCY",
        "INFEASIBLE",
        "UNCLEAR_REQUIREMENTS",
        "OBSOLETE",
    ]


@pytest.mark.parametrize("decision", DecisionType)
def test_a_decision_is_read_from_its_name(decision: DecisionType) -> None:
    assert parse_decision_type(decision.name.lower()) is decision
    assert parse_decision_type(decision) is decision
    assert parse_decision_type("perhaps") is None
    assert parse_decision_type(7) is None
    assert parse_reason(7) is None


# There and back again.


@given(rejection_records())
def test_a_rejection_comes_back_from_its_dict_as_it_was(record: dict[str, Any]) -> None:
    made = TaskRejection.from_dict(record)

    assert TaskRejection.from_dict(made.to_dict()) == made
    assert TaskRejection.from_dict(made.to_dict()).to_dict() == made.to_dict()


@given(rejection_records())
def test_from_dict_leaves_its_argument_alone(record: dict[str, Any]) -> None:
    before = copy.deepcopy(record)

    first, second = TaskRejection.from_dict(record), TaskRejection.from_dict(record)

    assert record == before
    assert first.what_attempted == second.what_attempted


@pytest.mark.parametrize("reason", RejectionReason)
def test_the_reason_survives_the_way_through_a_dict(reason: RejectionReason) -> None:
    made = TaskRejection.from_dict(a_rejection(reason))

    assert made.to_dict()["reason_type"] == reason.name
    assert TaskRejection.from_dict(made.to_dict()).reason is reason


def test_what_is_missing_in_a_dict_stays_empty() -> None:
    made = TaskRejection.from_dict({})

    assert (made.task_id, made.what_attempted, made.scope_growth_factor) == ("", [], None)
    assert made.reason is None


def test_fields_nobody_knows_are_no_hindrance() -> None:
    assert TaskRejection.from_dict({**a_rejection(), "mood": "bad"}).reason is RejectionReason.BLOCKER


def test_the_lists_of_a_copy_are_its_own() -> None:
    record = a_rejection("SCOPE_CREEP")
    made = TaskRejection.from_dict(record)

    told = made.to_dict()
    told["what_attempted"].clear()
    told["evidence"][0]["data"]["pages"] = -1
    told["alternative_tasks"][0]["title"] = "changed"

    assert made.to_dict()["what_attempted"] == record["what_attempted"]
    assert made.evidence[0]["data"]["pages"] == record["evidence"][0]["data"]["pages"] == 31
    assert record["alternative_tasks"][0]["title"] != "changed"


def test_what_is_done_to_a_record_does_not_reach_the_dict_it_came_from() -> None:
    record = a_rejection("SCOPE_CREEP")
    before = copy.deepcopy(record)
    made = TaskRejection.from_dict(record)

    made.what_attempted.append("one more")
    made.evidence[0]["data"]["pages"] = -1

    assert record == before


def test_a_record_shares_no_list_with_another() -> None:
    one, other = TaskRejection(reason_type="BLOCKER"), TaskRejection(reason_type="BLOCKER")

    one.what_attempted.append("something")

    assert other.what_attempted == []


@pytest.mark.parametrize("decision", DecisionType)
def test_a_decision_comes_back_from_its_dict_with_its_type(decision: DecisionType) -> None:
    made = RejectionDecision(
        decision_type=decision,
        rejection=TaskRejection.from_dict(a_rejection()),
        rationale="Because",
        created_tasks=["task:T-1"],
        deferred_task="task:T-2",
        override_message="Go on",
        reassign_to="Bob",
    )
    told = made.to_dict()
    before = copy.deepcopy(told)

    again = RejectionDecision.from_dict(told)

    assert again == made
    assert again.decision_type is decision
    assert told == before
    told["created_tasks"].append("task:T-3")
    assert made.created_tasks == again.created_tasks == ["task:T-1"]


@pytest.mark.parametrize("rejection", [None, [], "text", {}])
def test_a_decision_on_nothing_that_is_a_rejection_is_read_all_the_same(rejection: object) -> None:
    assert (
        RejectionDecision.from_dict({"decision_type": "ACCEPT", "rejection": rejection}).rejection.reason
        is None
    )
    assert RejectionDecision.from_dict({}).decision_type == ""
