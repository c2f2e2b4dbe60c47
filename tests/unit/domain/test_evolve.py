"""Holds what follows from events, in whatever order a merge brings them."""

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from msgspec.structs import replace

from remand.domain.events.catalogue import Unknown
from remand.domain.events.event import Event, Meta
from remand.domain.events.reviews import (
    EscalationOpened,
    Finding,
    LockoutCleared,
    LockoutSet,
    ReviewApproved,
    ReviewRejected,
)
from remand.domain.events.tasks import (
    EdgeCreated,
    EdgeDeleted,
    HandoffAccepted,
    HandoffCompleted,
    HandoffInitiated,
    HandoffLapsed,
    LeaseExpired,
    LeaseRenewed,
    TaskAdded,
    TaskCancelled,
    TaskChanges,
    TaskContinued,
    TaskDecomposed,
    TaskDeferred,
    TaskDeleted,
    TaskEdited,
    TaskFailed,
    TaskReleased,
    TaskReopened,
    TaskSettled,
    TaskWaiting,
    TaskWoken,
)
from remand.domain.evolve import evolve, replay
from remand.domain.folds.tasks import LEGACY_STATUS
from remand.domain.ids import task_node_id
from remand.domain.instant import add_seconds
from remand.domain.task import MAX_CONFLICTS, TERMINAL, Status, Task, update_task
from remand.testing.builders import (
    H1,
    H2,
    H3,
    LATER,
    MUCH_LATER,
    NOW,
    SHA,
    T1,
    T2,
    T3,
    TREE,
    task_added,
    task_claimed,
)
from tests.support.builders import (
    OTHER_SHA,
    dependency_created,
    gate_passed,
    gate_passed_and_submitted,
    stamp_events,
    task_after,
    task_submitted,
)
from tests.support.strategies import any_events, with_origin

FINDINGS = (Finding(text="It leaks"),)


def released(agent: str = "Alice", handoff_id: str = H1) -> TaskReleased:
    return TaskReleased(task_id=T1, handoff_id=handoff_id, agent=agent)


def approved(commit: str = SHA, tree: str = TREE) -> ReviewApproved:
    return ReviewApproved(task_id=T1, reviewer="Lead", commit=commit, tree=tree)


def rejected(commit: str = SHA, tree: str = TREE, reviewer: str = "Lead") -> ReviewRejected:
    return ReviewRejected(task_id=T1, reviewer=reviewer, commit=commit, tree=tree, findings=FINDINGS)


def locked(agent: str = "Alice") -> LockoutSet:
    return LockoutSet(task_id=T1, agent=agent, reason="It leaks")


def offered(target: str = "Alice", handoff_id: str = H1, until: str = LATER) -> HandoffInitiated:
    return HandoffInitiated(task_id=T1, handoff_id=handoff_id, target_agent=target, lapses_at=until)


def accepted(agent: str = "Alice", handoff_id: str = H1) -> HandoffAccepted:
    return HandoffAccepted(task_id=T1, handoff_id=handoff_id, agent=agent, lease_expires_at=LATER)


def conflicts(task: Task) -> list[str]:
    return [conflict.event for conflict in task.inbox.conflicts]


# One claim at a time.


def test_a_claim_gives_the_agent_the_task_and_counts_the_attempt() -> None:
    task = task_after(task_added(), task_claimed("Alice"), released(), task_claimed("Bob", H2))

    assert task.status == Status.CLAIMED
    assert task.claim is not None
    assert (task.claim.agent, task.claim.handoff_id, task.claim.epoch) == ("Bob", H2, 2)
    assert (task.claims.epoch, task.claims.attempt_count) == (2, 2)


def test_of_two_claims_the_first_in_order_wins_and_the_other_is_a_conflict() -> None:
    task = task_after(task_added(), task_claimed("Alice", H1), task_claimed("Bob", H2))

    assert task.claim is not None
    assert task.claim.agent == "Alice"
    assert conflicts(task) == ["task.claim"]
    assert (task.claims.epoch, task.claims.attempt_count) == (1, 1)


@pytest.mark.parametrize(
    "later",
    [
        LeaseRenewed(task_id=T1, handoff_id=H2, agent="Bob", lease_expires_at=MUCH_LATER),
        released("Bob", H2),
        TaskContinued(task_id=T1, handoff_id=H2, agent="Bob"),
        TaskWaiting(task_id=T1, handoff_id=H2, agent="Bob", waiting_for="rain"),
        TaskFailed(task_id=T1, handoff_id=H2, agent="Bob"),
        task_submitted("Bob", H2),
        HandoffCompleted(task_id=T1, handoff_id=H2, agent="Bob", commit=SHA),
    ],
    ids=lambda event: event.name,
)
def test_what_the_loser_of_a_claim_did_later_does_not_apply(later: Event) -> None:
    before = task_after(task_added(), task_claimed("Alice", H1), task_claimed("Bob", H2))

    task = task_after(task_added(), task_claimed("Alice", H1), task_claimed("Bob", H2), later)

    assert conflicts(task) == ["task.claim", later.name]
    assert update_task(task, conflicts=()) == update_task(before, conflicts=())


def test_a_conflict_says_what_could_not_apply_when_and_why() -> None:
    events = stamp_events(task_added(), task_claimed("Alice", H1), task_claimed("Bob", H2))

    (conflict,) = replay(events).inbox.conflicts

    assert (conflict.event_id, conflict.at) == (events[2].meta.id, events[2].ts)
    assert "Alice" in conflict.why


def test_only_the_latest_conflicts_are_kept() -> None:
    task = task_after(
        task_added(), task_claimed(), *(task_claimed("Bob", f"H-{n}") for n in range(MAX_CONFLICTS + 10))
    )

    assert len(task.inbox.conflicts) == MAX_CONFLICTS


def test_a_submission_of_an_earlier_claim_does_not_apply() -> None:
    claims = [task_claimed("Alice", H1), released(), task_claimed("Alice", H2), gate_passed("Alice", H2)]

    task = task_after(task_added(), *claims, task_submitted("Alice", H1))

    assert task.status == Status.CLAIMED
    assert task.submission is None
    assert conflicts(task) == ["task.submit"]


def test_an_event_under_anothers_claim_does_not_apply() -> None:
    task = task_after(
        task_added(), task_claimed("Alice", H1), gate_passed("Alice", H1), task_submitted("Bob", H1)
    )

    assert task.status == Status.CLAIMED
    assert conflicts(task) == ["task.submit"]


def test_a_heartbeat_moves_the_end_of_the_lease_and_nothing_else() -> None:
    renewal = LeaseRenewed(task_id=T1, handoff_id=H1, agent="Alice", lease_expires_at=MUCH_LATER)
    before, after = (
        task_after(task_added(), task_claimed()),
        task_after(task_added(), task_claimed(), renewal),
    )

    assert after.claim is not None
    assert after.claim.lease_expires_at == MUCH_LATER
    assert replace(after, claim=before.claim) == before


@pytest.mark.parametrize(
    "until", ["", "never", "2026-11-30T00:00:00.000000Z", "2026-11-zz", "9999-12-31T23:59:59.999999Z"]
)
def test_whatever_a_file_says_a_lease_and_an_offer_end_within_a_week(until: str) -> None:
    renewal = LeaseRenewed(task_id=T1, handoff_id=H1, agent="Alice", lease_expires_at=until)
    week = add_seconds(NOW, 7 * 86400 + 1)

    for task in (
        task_after(task_added(), task_claimed(until=until)),
        task_after(task_added(), task_claimed(), renewal),
    ):
        assert task.claim is not None
        assert task.claim.lease_expires_at < week
    (offer,) = task_after(task_added(), offered(until=until)).claims.offers
    assert offer.lapses_at < week


def test_a_task_handed_to_nobody_is_not_reserved() -> None:
    task = task_after(task_added(), offered(""))

    assert task.claims.offers == ()
    assert conflicts(task) == ["handoff.initiate"]


# Where a task goes back to.


@pytest.mark.parametrize("end", [released("A", H3), LeaseExpired(task_id=T1, handoff_id=H3, agent="A")])
@pytest.mark.parametrize(
    ("past", "queue"),
    [
        ([], Status.INCOMING),
        (
            [task_claimed(), TaskContinued(task_id=T1, handoff_id=H1, agent="Alice")],
            Status.NEEDS_CONTINUATION,
        ),
        ([task_claimed(), *gate_passed_and_submitted(), rejected()], Status.REJECTED),
    ],
    ids=["new", "continued", "rejected"],
)
def test_a_claim_that_ends_returns_the_task_to_the_queue_it_came_from(
    past: list[Event], queue: Status, end: Event
) -> None:
    task = task_after(task_added(), *past, task_claimed("A", H3), end)

    assert (task.status, task.claim) == (queue, None)


@pytest.mark.parametrize(
    "way",
    [
        [TaskDeferred(task_id=T1, waits_for=(T2,)), TaskWoken(task_id=T1)],
        [TaskDeferred(task_id=T1, waits_for=(T2,)), TaskReopened(task_id=T1)],
        [
            task_claimed("Bob", H2),
            TaskFailed(task_id=T1, handoff_id=H2, agent="Bob"),
            TaskReopened(task_id=T1),
        ],
        [EscalationOpened(task_id=T1), TaskReopened(task_id=T1)],
    ],
    ids=["woken", "reopened from sleep", "reopened after failure", "reopened after escalation"],
)
def test_a_task_that_comes_back_waits_for_nothing_in_the_queue_it_came_from(way: list[Event]) -> None:
    task = task_after(task_added(), task_claimed(), *gate_passed_and_submitted(), rejected(), *way)

    assert task.status == Status.REJECTED
    assert task.blockers == ()


def test_a_second_wake_is_no_conflict() -> None:
    asleep = TaskDeferred(task_id=T1, waits_for=(T2,))
    wake = TaskWoken(task_id=T1, because=(T2,))

    task = task_after(task_added(), asleep, wake, wake)

    assert task.status == Status.INCOMING
    assert task.inbox.conflicts == ()


def test_a_second_settlement_is_no_conflict() -> None:
    cut = TaskDecomposed(task_id=T1, children=(T2, T3))
    settled = TaskSettled(task_id=T1, status="done")

    assert task_after(task_added(), cut, settled, settled).inbox.conflicts == ()


@pytest.mark.parametrize(("said", "status"), [("done", Status.DONE), ("cancelled", Status.CANCELLED)])
def test_a_decomposed_task_ends_as_it_was_settled(said: str, status: Status) -> None:
    task = task_after(
        task_added(), TaskDecomposed(task_id=T1, children=(T2,)), TaskSettled(task_id=T1, status=said)
    )

    assert task.status == status


def test_the_same_lease_ended_by_two_ledgers_is_no_conflict() -> None:
    end = LeaseExpired(task_id=T1, handoff_id=H1, agent="Alice")

    task = task_after(task_added(), task_claimed(), end, end)

    assert task.status == Status.INCOMING
    assert task.inbox.conflicts == ()


# Handoffs.


def test_an_offer_reserves_the_task_and_a_claim_takes_it_up() -> None:
    before, after = (
        task_after(task_added(), offered("Alice", H1)),
        task_after(task_added(), offered("Alice", H1), accepted()),
    )

    assert [offer.target for offer in before.claims.offers] == ["Alice"]
    assert after.claims.offers == ()
    assert after.claim is not None
    assert after.claim.handoff_id == H1


def test_a_claim_against_a_reservation_is_a_conflict() -> None:
    task = task_after(task_added(), offered("Alice"), task_claimed("Bob", H2))

    assert task.claim is None
    assert conflicts(task) == ["task.claim"]


def test_a_lapsed_reservation_binds_nobody() -> None:
    by_event = task_after(
        task_added(), offered("Alice"), HandoffLapsed(task_id=T1, handoff_id=H1), task_claimed("Bob", H2)
    )
    by_time = task_after(task_added(), offered("Alice", until=NOW), task_claimed("Bob", H2))

    for task in (by_event, by_time):
        assert task.claim is not None
        assert task.claim.agent == "Bob"


@pytest.mark.parametrize(
    "end",
    [
        TaskCancelled(task_id=T1),
        TaskDecomposed(task_id=T1, children=(T2,)),
        EscalationOpened(task_id=T1),
        TaskDeferred(task_id=T1, waits_for=(T2,)),
    ],
    ids=lambda event: event.name,
)
@pytest.mark.parametrize("start", [offered(), task_claimed()], ids=["offered", "claimed"])
def test_open_handoffs_close_with_their_task(start: Event, end: Event) -> None:
    task = task_after(task_added(), start, end)

    assert (task.claim, task.claims.offers) == (None, ())


# Submissions and reviews.


def test_a_submission_awaits_review_and_names_its_author() -> None:
    task = task_after(task_added(), task_claimed(), *gate_passed_and_submitted())

    assert task.status == Status.PROVISIONAL
    assert task.submission is not None
    assert (task.submission.commit, task.submission.tree, task.submission.agent) == (SHA, TREE, "Alice")
    assert task.people.authors == ("Alice",)
    assert task.claim is None


@pytest.mark.parametrize(("own", "given_branch", "expected"), [("", "roof", "roof"), ("old", "roof", "old")])
def test_a_task_without_a_branch_takes_that_of_its_first_submission(
    own: str, given_branch: str, expected: str
) -> None:
    work = replace(task_submitted(), branch=given_branch, pr=7)

    task = task_after(task_added(branch=own), task_claimed(), gate_passed(), work)

    assert (task.branch, task.pr) == (expected, 7)


def test_an_approval_makes_the_task_done() -> None:
    task = task_after(task_added(), task_claimed(), *gate_passed_and_submitted(), approved())

    assert task.status == Status.DONE
    assert task.inbox.conflicts == ()


def test_a_rejection_returns_the_task_and_is_counted_apart_from_attempts() -> None:
    task = task_after(task_added(), task_claimed(), *gate_passed_and_submitted(), rejected(), locked())

    assert task.status == Status.REJECTED
    assert (task.reviews.rejection_count, task.claims.attempt_count, task.gates.rejection_count) == (1, 1, 0)
    assert task.is_locked_out("Alice")
    assert task.people.reviewers == ("Lead",)


@pytest.mark.parametrize("review", [approved(OTHER_SHA, "x"), rejected(OTHER_SHA, "x")], ids=["ok", "no"])
def test_a_review_of_another_commit_is_a_conflict(review: Event) -> None:
    task = task_after(task_added(), task_claimed(), *gate_passed_and_submitted(), review)

    assert task.status == Status.PROVISIONAL
    assert conflicts(task) == [review.name]


@pytest.mark.parametrize(
    "reviews", [[approved(), rejected()], [rejected(), approved()]], ids=["yes no", "no yes"]
)
def test_a_rejection_of_a_tree_beats_its_approval_whatever_their_order(reviews: list[Event]) -> None:
    task = task_after(task_added(), task_claimed(), *gate_passed_and_submitted(), *reviews)

    assert (task.status, task.queue, task.reviews.rejection_count) == (Status.REJECTED, Status.REJECTED, 1)
    assert len(task.inbox.conflicts) == 1


def test_an_approval_that_was_beaten_lifts_no_lockout() -> None:
    first_round = [
        task_claimed("Alice", H1),
        *gate_passed_and_submitted("Alice", H1),
        rejected(),
        locked("Alice"),
    ]
    second_round = [
        task_claimed("Bob", H2),
        *gate_passed_and_submitted("Bob", H2, commit=OTHER_SHA, tree="other"),
    ]
    reviews = [approved(OTHER_SHA, "other"), rejected(OTHER_SHA, "other"), locked("Bob")]

    task = task_after(task_added(), *first_round, *second_round, *reviews)

    assert task.status == Status.REJECTED
    assert task.is_locked_out("Alice")
    assert task.is_locked_out("Bob")


def test_a_rejection_of_earlier_work_does_not_undo_an_approval() -> None:
    first_round = [task_claimed("Alice", H1), *gate_passed_and_submitted("Alice", H1), rejected()]
    second_round = [
        task_claimed("Bob", H2),
        *gate_passed_and_submitted("Bob", H2, commit=OTHER_SHA, tree="other"),
    ]

    task = task_after(
        task_added(), *first_round, *second_round, approved(OTHER_SHA, "other"), rejected(SHA, TREE)
    )

    assert task.status == Status.DONE
    assert conflicts(task) == ["review.reject"]


# Lockouts.


def test_a_lockout_that_comes_during_the_agents_claim_ends_it() -> None:
    task = task_after(task_added(), task_claimed("Alice"), locked("Alice"))

    assert (task.status, task.claim) == (Status.INCOMING, None)


def test_a_claim_of_a_locked_out_agent_is_a_conflict() -> None:
    task = task_after(task_added(), locked("Alice"), task_claimed("Alice"))

    assert task.claim is None
    assert conflicts(task) == ["task.claim"]


def test_a_lockout_is_set_once_and_cleared_whole() -> None:
    unlocked = LockoutCleared(task_id=T1, agent="Alice")

    assert len(task_after(task_added(), locked("Alice"), locked("Alice")).people.lockouts) == 1
    assert task_after(task_added(), locked("Alice"), locked("Alice"), unlocked).people.lockouts == ()
    assert task_after(task_added(), locked("Bob"), locked("Alice"), unlocked).is_locked_out("Bob")


# What a task says and waits for.


def test_an_edit_changes_what_it_names() -> None:
    changes = TaskChanges(title="New", priority="high", aliases=("#1",), skills=("paint",), pr=4)

    task = task_after(
        task_added(title="Old", description="Kept"), TaskEdited(id=task_node_id(T1), changes=changes)
    )

    assert (task.title, task.details.scope, task.details.priority) == ("New", "Kept", "high")
    assert (task.details.aliases, task.details.skills, task.pr) == (("#1",), ("paint",), 4)


def test_a_task_is_what_was_written_down() -> None:
    data = {"description": "All", "category": "house", "skills": ("paint",), "branch": "roof"}

    task = task_after(task_added(T1, "Mend", **data, aliases=("#1",), parent=T2, priority="low"))

    assert (task.title, task.details.scope, task.details.category, task.details.skills) == (
        "Mend",
        "All",
        "house",
        ("paint",),
    )
    assert (task.branch, task.details.aliases, task.links.parent, task.details.priority) == (
        "roof",
        ("#1",),
        T2,
        "low",
    )
    assert (task.status, task.queue, task.details.created_by) == (
        Status.INCOMING,
        Status.INCOMING,
        "somebody",
    )


def test_an_unknown_priority_is_read_as_medium() -> None:
    assert task_after(task_added(priority="urgent")).details.priority == "medium"


def test_a_task_written_down_twice_alike_is_one_task() -> None:
    assert task_after(task_added(), task_added()).inbox.conflicts == ()
    assert conflicts(task_after(task_added(title="One"), task_added(title="Other"))) == ["node.create"]


def test_dependencies_come_and_go() -> None:
    blocks = EdgeCreated(src=task_node_id(T3), tgt=task_node_id(T1), type="BLOCKS")
    gone = EdgeDeleted(src=task_node_id(T1), tgt=task_node_id(T2), type="DEPENDS_ON")

    task = task_after(task_added(), dependency_created(T1, T2), dependency_created(T1, T2), blocks)

    assert task.links.depends_on == (T2, T3)
    assert task_after(task_added(), dependency_created(T1, T2), blocks, gone).links.depends_on == (T3,)
    assert conflicts(task_after(task_added(), gone)) == ["edge.delete"]


def test_a_task_does_not_wait_for_itself() -> None:
    task = task_after(task_added(), dependency_created(T1, T1))

    assert task.links.depends_on == ()
    assert conflicts(task) == ["edge.create"]


# Tasks of GoT tools.


def legacy(event: Event) -> Event:
    return replace(event, ts=NOW, meta=Meta(id="old", seq=-1))


def old_status(status: str) -> Event:
    return legacy(TaskEdited(id=task_node_id(T1), changes=TaskChanges(status=status)))


@pytest.mark.parametrize(("status", "expected"), LEGACY_STATUS.items())
def test_an_old_task_has_the_status_that_fits_best(status: str, expected: Status) -> None:
    created = replay([legacy(task_added(status=status))])
    changed = replay([legacy(task_added()), old_status(status)])

    assert created is not None
    assert changed is not None
    assert created.status == changed.status == expected
    assert created.is_legacy


def test_an_old_status_nobody_knows_changes_nothing() -> None:
    task = replay([legacy(task_added(status="completed")), old_status("odd")])

    assert task is not None
    assert task.status == Status.DONE


def test_old_events_do_not_change_the_status_once_ours_have() -> None:
    native = stamp_events(task_claimed())

    task = replay(
        [legacy(task_added()), *native, old_status("completed"), legacy(TaskDeleted(id=task_node_id(T1)))]
    )

    assert task is not None
    assert task.status == Status.CLAIMED
    assert conflicts(task) == ["node.update", "node.delete"]


def test_a_deleted_old_task_is_cancelled() -> None:
    task = replay([legacy(task_added()), legacy(TaskDeleted(id=task_node_id(T1)))])

    assert task is not None
    assert task.status == Status.CANCELLED


def test_a_status_in_an_edit_of_ours_is_a_conflict() -> None:
    edited = TaskEdited(id=task_node_id(T1), changes=TaskChanges(status="completed", title="New"))

    task = task_after(task_added(), edited)

    assert (task.status, task.title) == (Status.INCOMING, "Mend the roof")
    assert conflicts(task) == ["node.update"]


@pytest.mark.parametrize(
    "event",
    [
        offered(),
        accepted(),
        HandoffCompleted(task_id=T1, handoff_id=H1, agent="Alice"),
        task_claimed(),
        task_submitted(),
    ],
    ids=lambda event: event.name,
)
def test_handoffs_of_old_tools_are_history_and_no_claims(event: Event) -> None:
    assert replay([legacy(task_added()), legacy(event)]) == replay([legacy(task_added())])


# Whatever comes.


def test_events_before_a_task_is_written_down_have_nothing_to_apply_to() -> None:
    assert replay(stamp_events(task_claimed(), task_submitted())) is None
    assert replay(stamp_events(task_claimed(), task_added())) == replay(
        stamp_events(task_added(), task_added())[1:]
    )


def test_an_event_of_a_newer_version_changes_nothing() -> None:
    task = task_after(task_added())

    assert evolve(task, Unknown(kind="task.sing")) == task


OURS = with_origin(task_added(), 1)
OLD = with_origin(task_added(), -3)


@for_all(st.sampled_from([[OURS], [OLD], []]), st.lists(any_events(), max_size=25))
def test_whatever_events_come_the_task_stays_sound(start: list[Event], events: list[Event]) -> None:
    task: Task | None = None
    for event in [*start, *events]:
        before, task = task, evolve(task, event)
        if task is None:
            assert before is None
            continue
        assert (task.claim is not None) == (task.status == Status.CLAIMED)
        assert task.claim is None or not task.is_locked_out(task.claim.agent)
        assert not any(task.is_locked_out(offer.target) for offer in task.claims.offers)
        assert task.reviews.rejection_count == len(task.standing_rounds)
        assert (task.open_escalation is not None) == (task.status == Status.ESCALATED)
        assert len({lockout.agent for lockout in task.people.lockouts}) == len(task.people.lockouts)
        assert task.status not in TERMINAL or not task.claims.offers
        assert task.queue in (Status.INCOMING, Status.NEEDS_CONTINUATION, Status.REJECTED)
        assert before is None or (
            task.claims.epoch >= before.claims.epoch
            and task.claims.attempt_count >= before.claims.attempt_count
        )
        assert msgspec.json.decode(msgspec.json.encode(task), type=Task) == task


@for_all(any_events())
def test_only_the_writing_down_of_a_task_begins_it(event: Event) -> None:
    assert (evolve(None, event) is not None) == isinstance(event, TaskAdded)


def test_no_task_was_written_down_before_the_time_that_its_id_tells() -> None:
    """Else whoever has a trusted key could redefine a task by an event that is dated before it."""
    early = replace(task_added(title="Theirs"), ts="2026-11-15T07:59:59.999999Z")
    own = replace(task_added(title="Ours"), ts="2026-11-15T08:00:00.000000Z")

    assert evolve(None, stamp_events(early)[0]) is None
    task = replay(stamp_events(early, own))
    assert task is not None
    assert (task.title, task.inbox.conflicts) == ("Ours", ())
