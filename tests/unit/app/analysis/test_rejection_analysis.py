"""Holds what the ledger teaches about rejections: how they were answered, and what came of them."""

from collections.abc import Sequence

import msgspec
import pytest

from remand.adapters.stores.sqlite import SqliteStore
from remand.app.analysis.rejection_analysis import Analysis, Breakdown, analyze, break_down, ledger_cases
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationOpened, LockoutSet
from remand.domain.events.tasks import HandoffRejected
from remand.domain.instant import Instant, add_seconds
from remand.domain.reasons import RejectionReason
from remand.domain.task import Status
from remand.ledger.event_tables import EventEntry
from remand.testing.builders import (
    H1,
    NOW,
    T1,
    T2,
    T3,
    Session,
    a_task,
    got_tool_entry,
    invalid_rejection_filed,
    rejection_answered,
    rejection_filed,
    task_claimed,
    task_woken,
)

Statuses = dict[str, Status]


def stored(*events: Event, statuses: Statuses | None = None, got: Sequence[EventEntry] = ()) -> SqliteStore:
    """A ledger with these events, a second apart, whose tasks are there now."""
    store, session = SqliteStore.in_memory("s"), Session()
    with store.write() as tx:
        tx.events.add(
            [session.entry(event, at=event.ts or add_seconds(NOW, n)) for n, event in enumerate(events)]
        )
        tx.events.add(got)
        for name, status in (statuses or {}).items():
            tx.tasks.put(a_task(name, status=status))
    return store


def learned(
    *events: Event, since: Instant = "", statuses: Statuses | None = None, got: Sequence[EventEntry] = ()
) -> Analysis:
    with stored(*events, statuses=statuses, got=got).read() as view:
        return analyze(ledger_cases(view, since), since)


def broken_down(by: str, *events: Event) -> Breakdown:
    with stored(*events).read() as view:
        return break_down(ledger_cases(view), by)


def of_reason(reason: object, number: int = 1, agent: str = "Alice") -> HandoffRejected:
    return rejection_filed(number=number, agent=agent, rejection={"reason_type": reason})


def lockout(agent: str = "Alice", task_id: str = T1) -> LockoutSet:
    return LockoutSet(task_id=task_id, agent=agent)


def outcome(found: Analysis, answer: str) -> dict[str, int]:
    return {name: one.count for name, one in found.outcomes[answer].by_outcome.items() if one.count}


# Counting.


def test_a_ledger_without_rejections_teaches_nothing() -> None:
    found = learned(task_claimed())

    assert (found.total_rejections, found.override_rate, found.override_share.rate) == (0, 0.0, None)
    assert found.by_reason == found.by_agent == found.by_task == found.decision_outcomes == {}
    assert found.common_blockers == found.by_day == []
    assert found.time_to_unblock.median_seconds.value is None


@pytest.mark.parametrize("reason", RejectionReason)
def test_every_reason_is_counted_by_its_name(reason: RejectionReason) -> None:
    assert learned(of_reason(reason.name)).by_reason == {reason.name: 1}


@pytest.mark.parametrize("reason", [None, "", "too hard", 5, ["BLOCKER"]], ids=repr)
def test_a_reason_that_is_none_is_unknown(reason: object) -> None:
    assert learned(of_reason(reason)).by_reason == {"UNKNOWN": 1}


def test_rejections_are_counted_by_agent_and_task_the_most_frequent_first() -> None:
    found = learned(
        rejection_filed(T1, 1, agent="Bob"),
        rejection_filed(T2, 2),
        rejection_filed(T2, 3),
        invalid_rejection_filed(T3, 4),
    )

    assert found.total_rejections == 4
    assert list(found.by_agent.items()) == [("Alice", 3), ("Bob", 1)]
    assert list(found.by_task.items()) == [(T2, 2), (T1, 1), (T3, 1)]


def test_an_invalid_rejection_counts_in_the_total_and_in_the_override_rate() -> None:
    found = learned(
        rejection_filed(number=1),
        rejection_answered("ACCEPT"),
        invalid_rejection_filed(number=2),
        rejection_answered("OVERRIDE", number=2),
    )

    assert (found.total_rejections, found.invalid_rejections, found.override_rate) == (2, 1, 0.5)
    assert found.decision_outcomes == {"ACCEPT": 1, "OVERRIDE": 1}


def test_an_invalid_rejection_whose_answer_is_missing_was_overridden_all_the_same() -> None:
    assert learned(invalid_rejection_filed()).override_rate == 1.0


def test_what_nobody_answered_yet_is_in_no_rate() -> None:
    found = learned(
        rejection_filed(number=1), rejection_filed(number=2), rejection_answered("OVERRIDE", number=2)
    )

    assert (found.answered, found.unanswered, found.override_rate) == (1, 1, 1.0)


def test_an_override_that_is_taken_back_is_none() -> None:
    found = learned(
        invalid_rejection_filed(),
        rejection_answered("OVERRIDE"),
        rejection_answered("ACCEPT"),
        rejection_answered("OVERRIDE"),
    )

    assert found.decision_outcomes == {"ACCEPT": 1}
    assert found.override_rate == 0.0


def test_the_rejections_of_got_tools_count_with_an_unknown_reason() -> None:
    got = [
        got_tool_entry(
            "handoff.reject", handoff_id=H1, agent="Bob", reason="I would rather not", suggestion="x"
        ),
        got_tool_entry(
            "handoff.reject", handoff_id="H-2", agent="Bob", rejection={"task_id": T2, "blocking_factor": 7}
        ),
    ]
    found = learned(task_claimed(handoff_id=H1), got=got)

    assert found.by_reason == {"UNKNOWN": 2}
    assert found.by_agent == {"Bob": 2}
    assert found.by_task == {T1: 1, T2: 1}


def test_only_what_was_filed_since_then_counts() -> None:
    events = [rejection_filed(number=n) for n in range(5)]

    assert learned(*events, since=add_seconds(NOW, 3)).total_rejections == 2
    assert learned(*events, since=add_seconds(NOW, 3)).since == add_seconds(NOW, 3)
    assert learned(*events, since=add_seconds(NOW, 9)).total_rejections == 0


def test_days_are_counted_with_what_was_overridden() -> None:
    one, other = rejection_filed(number=1), invalid_rejection_filed(number=2)
    events = [msgspec.structs.replace(one, ts="2026-11-14T23:59:59.000000Z"), other]
    found = learned(*events)

    assert [(day.day, day.rejections, day.overridden) for day in found.by_day] == [
        ("2026-11-14", 1, 0),
        ("2026-11-15", 1, 1),
    ]


# Blockers.


def test_near_duplicates_of_accepted_blockers_are_merged() -> None:
    texts = ("Registry answers 403 for foo", "Registry answers 502 for foo.", "The ladder was stolen")
    record = [{"reason_type": "BLOCKER", "blocking_factor": text} for text in texts]
    events = [
        event
        for n, one in enumerate(record)
        for event in (
            rejection_filed(f"T-{n}", n, rejection=one),
            rejection_answered("ACCEPT_AND_DEFER", f"T-{n}", n),
        )
    ]
    found = learned(*events)

    assert [(one.count, one.tasks) for one in found.blocker_clusters] == [(2, ("T-0", "T-1")), (1, ("T-2",))]
    assert found.common_blockers == ["Registry answers 403 for foo", "The ladder was stolen"]


@pytest.mark.parametrize(
    "events",
    [
        (rejection_filed(),),
        (rejection_filed(), rejection_answered("OVERRIDE")),
        (invalid_rejection_filed(), rejection_answered("OVERRIDE")),
        (
            rejection_filed(rejection={"reason_type": "INFEASIBLE", "blocking_factor": "x"}),
            rejection_answered("ACCEPT"),
        ),
    ],
    ids=["not answered", "overridden", "invalid", "another reason"],
)
def test_what_was_not_accepted_as_a_blocker_is_none(events: tuple[Event, ...]) -> None:
    assert learned(*events).common_blockers == []


# What came of it.


@pytest.mark.parametrize(
    ("status", "came"),
    [
        (Status.DONE, "done"),
        (Status.CANCELLED, "cancelled"),
        (Status.INFEASIBLE, "cancelled"),
        (Status.CLAIMED, "open"),
        (Status.BLOCKED, "open"),
    ],
)
def test_a_rejection_ends_as_its_task_does(status: Status, came: str) -> None:
    found = learned(rejection_filed(), rejection_answered("ACCEPT"), statuses={T1: status})

    assert outcome(found, "accepted") == {came: 1}
    assert found.outcomes["overridden"].rejections == 0


def test_an_overridden_task_that_is_rejected_again_was_not_done_by_the_override() -> None:
    events = (
        invalid_rejection_filed(),
        rejection_answered("OVERRIDE"),
        rejection_filed(number=2),
        rejection_answered("ACCEPT", number=2),
    )
    found = learned(*events, statuses={T1: Status.DONE})

    assert outcome(found, "overridden") == {"rejected_again": 1}
    assert outcome(found, "accepted") == {"done": 1}


def test_the_second_invalid_rejection_ends_in_a_lockout() -> None:
    events = (
        invalid_rejection_filed(),
        rejection_answered("OVERRIDE"),
        invalid_rejection_filed(number=2),
        rejection_answered("OVERRIDE", number=2),
    )
    found = learned(*events, lockout(), statuses={T1: Status.DONE})

    assert outcome(found, "overridden") == {"rejected_again": 1, "lockout": 1}


def test_a_lockout_of_another_agent_or_from_before_does_not_count() -> None:
    events = (
        lockout(),
        rejection_filed(),
        rejection_answered("OVERRIDE"),
        lockout("Bob"),
        lockout(task_id=T2),
    )

    assert outcome(learned(*events, statuses={T1: Status.DONE}), "overridden") == {"done": 1}


def test_what_comes_first_counts() -> None:
    escalated = EscalationOpened(task_id=T1)
    events = (
        rejection_filed(),
        rejection_answered("OVERRIDE"),
        escalated,
        lockout(),
        rejection_filed(number=2),
        rejection_answered("ACCEPT", number=2),
    )

    assert outcome(learned(*events), "overridden") == {"escalated": 1}


def test_a_reformulated_task_ends_as_the_last_one_in_its_place_does() -> None:
    events = (
        rejection_filed(T1, 1),
        rejection_answered("ACCEPT_AND_REFORMULATE", T1, 1, (T2,)),
        rejection_filed(T2, 2),
        rejection_answered("ACCEPT_AND_REFORMULATE", T2, 2, (T3,)),
    )
    statuses = {T1: Status.INFEASIBLE, T2: Status.INFEASIBLE, T3: Status.DONE}

    assert outcome(learned(*events, statuses=statuses), "accepted") == {"done": 2}


def test_tasks_that_take_each_others_place_in_a_circle_come_to_nothing() -> None:
    events = (
        rejection_filed(T1, 1),
        rejection_answered("ACCEPT_AND_REFORMULATE", T1, 1, (T2,)),
        rejection_filed(T2, 2),
        rejection_answered("ACCEPT_AND_REFORMULATE", T2, 2, (T1,)),
    )
    statuses = {T1: Status.INFEASIBLE, T2: Status.INFEASIBLE}

    assert outcome(learned(*events, statuses=statuses), "accepted") == {"cancelled": 2}


def test_shares_of_outcomes_have_their_intervals() -> None:
    events = [
        event
        for n in range(10)
        for event in (rejection_filed(f"T-{n}", n), rejection_answered("ACCEPT", f"T-{n}", n))
    ]
    statuses = {f"T-{n}": Status.DONE if n < 7 else Status.CLAIMED for n in range(10)}
    done = learned(*events, statuses=statuses).outcomes["accepted"].by_outcome["done"]

    assert (done.count, done.of, done.rate) == (7, 10, 0.7)
    assert done.interval == (pytest.approx(0.3968, abs=1e-4), pytest.approx(0.8922, abs=1e-4))


# Time to unblock.


def test_the_time_to_unblock_runs_from_the_answer_to_the_waking() -> None:
    events: list[Event] = []
    for n, seconds in enumerate((10, 20, 90)):
        times = {
            "filed": add_seconds(NOW, 0),
            "answered": add_seconds(NOW, 5),
            "woken": add_seconds(NOW, 5 + seconds),
        }
        made = (
            rejection_filed(f"T-{n}", n),
            rejection_answered("ACCEPT_AND_DEFER", f"T-{n}", n),
            task_woken(f"T-{n}"),
        )
        events += [
            msgspec.structs.replace(event, ts=at) for event, at in zip(made, times.values(), strict=True)
        ]
    found = learned(*events).time_to_unblock

    assert (found.woken, found.still_waiting) == (3, 0)
    assert found.median_seconds.value == 20
    assert found.p90_seconds.value == pytest.approx(76)


def test_a_task_that_is_still_deferred_is_counted_as_waiting_once() -> None:
    events = (
        rejection_filed(),
        rejection_answered("ACCEPT_AND_DEFER"),
        rejection_filed(T2, 2),
        rejection_answered("ACCEPT_AND_DEFER", T2, 2),
    )
    found = learned(*events, statuses={T1: Status.DEFERRED, T2: Status.CLAIMED}).time_to_unblock

    assert (found.woken, found.still_waiting) == (0, 1)


def test_a_task_that_woke_and_sleeps_for_another_reason_does_not_wait_for_its_rejection() -> None:
    events = (rejection_filed(), rejection_answered("ACCEPT_AND_DEFER"), task_woken())
    found = learned(*events, statuses={T1: Status.DEFERRED}).time_to_unblock

    assert (found.woken, found.still_waiting) == (1, 0)


# One thing at a time.


def test_an_agents_row_tells_how_much_of_it_was_invalid_and_overridden() -> None:
    events = (
        rejection_filed(T1, 1),
        rejection_answered("ACCEPT", T1, 1),
        invalid_rejection_filed(T2, 2),
        rejection_answered("OVERRIDE", T2, 2),
        rejection_filed(T3, 3, agent="Bob"),
    )
    alice, bob = learned(*events).agents

    assert (alice.key, alice.rejections, alice.invalid.rate, alice.overridden.rate) == ("Alice", 2, 0.5, 0.5)
    assert alice.invalid.interval is not None
    assert (bob.key, bob.overridden.rate, bob.decisions) == ("Bob", None, {"UNANSWERED": 1})


@pytest.mark.parametrize(
    ("by", "keys"),
    [("agent", ["Alice", "Bob"]), ("reason", ["BLOCKER", "UNKNOWN"]), ("task", [T2, T1])],
)
def test_rows_come_by_what_was_asked_for_the_most_frequent_first(by: str, keys: list[str]) -> None:
    events = (
        rejection_filed(T1, 1),
        rejection_filed(T2, 2),
        rejection_filed(T2, 3, agent="Bob", rejection={}),
    )
    found = broken_down(by, *events)

    assert (found.by, found.rows_in_all) == (by, 2)
    assert [row.key for row in found.rows] == keys


def test_rows_by_blocker_are_the_merged_blockers() -> None:
    found = broken_down("blocker", rejection_filed(), rejection_answered("ACCEPT"))

    assert [(row.count, row.example) for row in found.rows] == [(1, "The ladder is gone")]


# Size.


def test_a_task_with_thousands_of_rejections_is_no_trouble() -> None:
    many = 3000
    events: list[Event] = []
    for n in range(many):
        events += [
            invalid_rejection_filed(number=n),
            rejection_answered("OVERRIDE", number=n),
            lockout("Bob"),
        ]
    found = learned(*events, statuses={T1: Status.DONE})

    assert outcome(found, "overridden") == {"rejected_again": many - 1, "done": 1}
