"""Holds what follows from the events of reviews, lockouts and escalations, also when ledgers are merged."""

import pytest
from msgspec.structs import replace

from remand.domain.events.event import Event
from remand.domain.events.reviews import (
    EscalationAcknowledged,
    EscalationAnswered,
    EscalationNotified,
    EscalationOpened,
    EscalationRepeated,
    FeedbackFetched,
    LockoutCleared,
    ReviewApproved,
    ReviewBypassed,
    ReviewNoted,
    ReviewRejected,
    ReviewRequested,
    TaskReassigned,
)
from remand.domain.events.tasks import HandoffInitiated, TaskReleased
from remand.domain.evolve import evolve
from remand.domain.folds.reviews import MAX_SOURCES
from remand.domain.instant import add_seconds
from remand.domain.task import Status, Task, update_task
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
    TREE,
    a_claim,
    a_lockout,
    a_submission,
    a_task,
    an_offer,
    task_added,
    task_claimed,
)
from tests.support.builders import (
    E1,
    OTHER_SHA,
    V1,
    V2,
    V3,
    a_round,
    an_escalation,
    gate_passed_and_submitted,
    lockout_set,
    review_rejected,
    review_retracted,
    stamp_events,
    task_after,
    task_after_review,
)

APPROVED = ReviewApproved(task_id=T1, reviewer="Lead", commit=SHA, tree=TREE)
BOB_WORKS = (task_claimed("Bob", H2), *gate_passed_and_submitted("Bob", H2, commit=OTHER_SHA, tree="other"))
CAROL_WORKS = (
    task_claimed("Carol", H3),
    *gate_passed_and_submitted("Carol", H3, commit="a" * 40, tree="third"),
)
ASKED = EscalationOpened(task_id=T1, reason="What now?", kind="asked", deadline=LATER)


def of_bob(review_id: str = V2, **fields: str) -> ReviewRejected:
    return review_rejected(review_id, commit=OTHER_SHA, tree="other", **fields)


def handoff(agent: str, handoff_id: str = H2) -> HandoffInitiated:
    return HandoffInitiated(
        task_id=T1, handoff_id=handoff_id, source_agent="Lead", target_agent=agent, lapses_at=LATER
    )


def conflicts(task: Task) -> list[str]:
    return [conflict.event for conflict in task.inbox.conflicts]


def then(task: Task, *events: Event) -> Task:
    for event in stamp_events(*events):
        task = evolve(task, event) or task
    return task


# A rejection.


def test_a_rejection_sends_the_work_back_and_is_a_round() -> None:
    task = task_after_review(review_rejected(patch="p1", source="forge:1"))

    assert (task.status, task.queue, task.reviews.rejection_count) == (Status.REJECTED, Status.REJECTED, 1)
    assert task.reviews.rounds == (a_round(V1, patch="p1"),)
    assert (task.reviews.feedback, task.people.reviewers, task.reviews.sources) == (
        1,
        ("Lead",),
        ("forge:1",),
    )


def test_a_rejection_without_an_id_is_known_by_its_event() -> None:
    review = task_after_review(review_rejected("")).reviews.rounds[0].reviews[0]

    assert review.id


def test_a_further_review_of_the_same_work_adds_to_the_rejection() -> None:
    task = task_after_review(review_rejected(V1), review_rejected(V2, "Tess"))

    assert (task.reviews.rejection_count, task.reviews.feedback) == (1, 2)
    assert [(review.id, review.reviewer) for review in task.reviews.rounds[0].reviews] == [
        (V1, "Lead"),
        (V2, "Tess"),
    ]
    assert task.people.reviewers == ("Lead", "Tess")
    assert task.inbox.conflicts == ()


def test_late_findings_reach_who_has_gone_on_with_the_task() -> None:
    task = task_after_review(review_rejected(V1), task_claimed("Bob", H2), review_rejected(V2, "Tess"))

    assert task.status == Status.CLAIMED
    assert task.claim is not None
    assert (task.reviews.rejection_count, task.reviews.feedback, task.claim.read) == (1, 2, 0)


def test_a_rejection_of_work_that_is_not_under_review_any_more_changes_nothing() -> None:
    task = task_after_review(review_rejected(V1), *BOB_WORKS)

    after = then(task, review_rejected(V2, "Tess", source="forge:1"))

    assert conflicts(after) == ["review.reject"]
    assert update_task(after, conflicts=()) == task


@pytest.mark.parametrize(
    ("event", "counts"),
    [
        (review_rejected(commit="x", tree=TREE), True),
        (review_rejected(commit=SHA, tree="x"), True),
        (review_rejected(commit="x", tree="x"), False),
        (review_rejected(commit="x", tree=""), False),
    ],
    ids=["same code", "same commit", "neither", "no code"],
)
def test_a_rejection_is_about_a_commit_or_its_code(event: ReviewRejected, counts: bool) -> None:
    assert bool(task_after_review(event).reviews.rounds) == counts


def test_work_without_a_code_tree_is_known_by_its_commit_alone() -> None:
    task = a_task(status=Status.PROVISIONAL, submission=replace(a_submission(), tree=""))

    assert then(task, review_rejected(commit="x", tree="")).reviews.rounds == ()


def test_each_submission_is_a_round_of_its_own_whatever_head_it_has() -> None:
    again = (task_claimed("Carol", H3), *gate_passed_and_submitted("Carol", H3))

    task = task_after_review(review_rejected(V1), *BOB_WORKS, of_bob(), *again, review_rejected(V3))

    assert [(one.commit, one.agent) for one in task.reviews.rounds] == [
        (SHA, "Alice"),
        (OTHER_SHA, "Bob"),
        (SHA, "Carol"),
    ]
    assert task.reviews.rejection_count == 3


def test_an_approval_of_an_earlier_head_does_not_count_for_a_later_one() -> None:
    task = task_after_review(review_rejected(V1), *BOB_WORKS, APPROVED)

    assert (task.status, conflicts(task)) == (Status.PROVISIONAL, ["review.approve"])
    assert then(task, replace(APPROVED, commit=OTHER_SHA)).status == Status.DONE


# Two ledgers.


def test_the_same_review_of_a_forge_in_two_ledgers_counts_once() -> None:
    once = task_after_review(review_rejected(V1, source="forge:1"))

    assert then(once, review_rejected(V1, source="forge:1")) == once
    gone_on = then(once, *BOB_WORKS)
    assert then(gone_on, review_rejected(V1, source="forge:1")) == gone_on, "and is no conflict"


def test_a_review_that_was_noted_elsewhere_is_not_counted_later() -> None:
    noted = ReviewNoted(task_id=T1, reviewer="Eve", source="forge:1")
    bypassed = ReviewBypassed(task_id=T1, by="Eve", commit=SHA, source="forge:2")

    task = task_after_review(noted, noted, bypassed)

    assert task.reviews.sources == ("forge:1", "forge:2")
    assert then(task, review_rejected(source="forge:1")) == task
    assert task_after_review(replace(noted, source="")).reviews.sources == ()


def test_only_so_many_sources_are_remembered_the_latest() -> None:
    task = a_task(sources=tuple(f"forge:{n}" for n in range(MAX_SOURCES)))

    sources = then(task, ReviewNoted(task_id=T1, reviewer="Eve", source="forge:new")).reviews.sources

    assert (len(sources), sources[0], sources[-1]) == (MAX_SOURCES, "forge:1", "forge:new")


def test_two_rejections_of_one_submission_made_in_two_ledgers_are_one_rejection() -> None:
    lead = (review_rejected(V1), lockout_set(review_id=V1), handoff("Bob"))
    tess = (review_rejected(V2, "Tess"), lockout_set(review_id=V2), handoff("Carol", H3))

    task = task_after_review(*lead, *tess)

    assert (task.reviews.rejection_count, len(task.reviews.rounds), len(task.people.lockouts)) == (1, 1, 1)


@pytest.mark.parametrize(
    "order", [(APPROVED, review_rejected()), (review_rejected(), APPROVED)], ids=["yes no", "no yes"]
)
def test_of_an_approval_and_a_rejection_of_the_same_work_the_rejection_counts(
    order: tuple[Event, ...],
) -> None:
    task = task_after_review(*order)

    assert (task.status, task.reviews.rejection_count, task.reviews.approved_commit) == (
        Status.REJECTED,
        1,
        "",
    )
    assert len(task.inbox.conflicts) == 1


def test_a_rejection_of_a_task_that_is_done_in_another_way_changes_nothing() -> None:
    task = update_task(task_after_review(), status=Status.DONE, approved_commit=OTHER_SHA)

    after = then(task, review_rejected())

    assert conflicts(after) == ["review.reject"]
    assert update_task(after, conflicts=()) == task


@pytest.mark.parametrize("status", [Status.ESCALATED, Status.CLAIMED, Status.BLOCKED, Status.INCOMING])
def test_a_rejection_counts_although_another_ledger_took_the_work_out_of_review(status: Status) -> None:
    task = replace(task_after_review(), status=status)

    after = then(task, review_rejected(V1, source="forge:1"))

    assert (after.status, after.queue, after.reviews.rejection_count) == (status, Status.INCOMING, 1)
    assert (after.reviews.feedback, after.people.reviewers, after.reviews.sources) == (
        1,
        ("Lead",),
        ("forge:1",),
    )


def test_a_rejection_of_later_work_is_not_added_to_that_of_earlier_work() -> None:
    task = replace(task_after_review(review_rejected(V1), *BOB_WORKS), status=Status.ESCALATED)

    assert [one.agent for one in then(task, of_bob()).reviews.rounds] == ["Alice", "Bob"]
    taken_back = replace(
        task_after_review(review_rejected(V1), review_retracted(V1)), status=Status.ESCALATED
    )
    assert len(then(taken_back, review_rejected(V2)).reviews.rounds) == 2


def test_a_rejection_counts_although_a_merge_has_undone_the_submission() -> None:
    undone = review_rejected(V1, author="Alice", handoff_id=H1, patch="p1", source="forge:1")
    task = task_after(task_added(), undone, lockout_set())

    assert (task.status, task.reviews.rejection_count, conflicts(task)) == (
        Status.INCOMING,
        1,
        ["review.reject"],
    )
    assert task.reviews.rounds == (a_round(V1, patch="p1"),)
    assert (task.reviews.feedback, task.people.reviewers, task.reviews.sources) == (
        1,
        ("Lead",),
        ("forge:1",),
    )
    assert then(task, replace(undone, source="")).reviews.rejection_count == 1, "once"
    for unknown in (replace(undone, author=""), replace(undone, handoff_id="")):
        assert task_after(task_added(), unknown).reviews.rounds == ()
    assert then(task, review_retracted(V1)).people.lockouts == ()


def test_an_approval_of_code_that_is_rejected_still_does_not_count() -> None:
    again = (task_claimed("Bob", H2), *gate_passed_and_submitted("Bob", H2))

    task = task_after_review(review_rejected(V1), *again, APPROVED)

    assert (task.status, conflicts(task)) == (Status.PROVISIONAL, ["review.approve"])
    assert (
        task_after_review(review_rejected(V1), *again, review_retracted(V1), APPROVED).status == Status.DONE
    )


def test_a_reassignment_from_another_ledger_does_not_take_the_task_from_who_has_gone_on() -> None:
    task = task_after_review(review_rejected(V1), lockout_set(), task_claimed("Bob", H2))
    late = TaskReassigned(task_id=T1, target="Carol", source="Alice")

    assert conflicts(then(task, late)) == ["task.reassign"]
    assert then(task, late).claim == task.claim
    taken = then(task, replace(late, source="Bob"))
    assert (taken.status, taken.claim) == (Status.REJECTED, None)


def test_the_same_rejection_that_one_ledger_retracted_locks_nobody_out_in_the_other() -> None:
    task = task_after_review(
        review_rejected(V1, source="f"), lockout_set(), review_retracted(V1), review_rejected(V1, source="f")
    )

    assert then(task, lockout_set()) == task
    assert then(task, lockout_set(review_id="")).is_locked_out("Alice")


# A retraction.


def test_a_retraction_takes_count_and_lockout_back_and_the_work_is_under_review_again() -> None:
    task = task_after_review(review_rejected(V1), lockout_set(), handoff("Bob"), review_retracted(V1))

    assert (task.status, task.queue, task.reviews.rejection_count) == (Status.PROVISIONAL, Status.INCOMING, 0)
    assert (task.people.lockouts, task.claims.offers) == ((), ())
    assert task.inbox.conflicts == ()
    assert then(task, APPROVED).status == Status.DONE


def test_a_second_reviewers_rejection_of_the_same_work_stands() -> None:
    task = task_after_review(
        review_rejected(V1), lockout_set(), review_rejected(V2, "Tess"), review_retracted(V1)
    )

    assert (task.status, task.reviews.rejection_count) == (Status.REJECTED, 1)
    assert task.is_locked_out("Alice")
    both = then(task, review_retracted(V2, "Tess"))
    assert (both.status, both.reviews.rejection_count, both.people.lockouts) == (Status.PROVISIONAL, 0, ())


def test_who_has_gone_on_with_the_task_goes_on() -> None:
    task = task_after_review(
        review_rejected(V1), lockout_set(), task_claimed("Bob", H2), review_retracted(V1)
    )

    assert task.status == Status.CLAIMED
    assert (task.queue, task.reviews.rejection_count, task.people.lockouts) == (Status.INCOMING, 0, ())
    assert task.claim is not None
    assert task.claim.agent == "Bob"


def test_other_work_that_is_under_review_stays_so() -> None:
    task = task_after_review(review_rejected(V1), lockout_set(), *BOB_WORKS, review_retracted(V1))

    assert task.status == Status.PROVISIONAL
    assert task.submission is not None
    assert (task.submission.agent, task.reviews.rejection_count, task.people.lockouts) == ("Bob", 0, ())


def test_an_earlier_rejection_is_retracted_while_a_later_one_stands() -> None:
    task = task_after_review(
        review_rejected(V1), lockout_set(), *BOB_WORKS, of_bob(), lockout_set("Bob", V2), review_retracted(V1)
    )

    assert (task.status, task.queue, task.reviews.rejection_count) == (Status.REJECTED, Status.REJECTED, 1)
    assert [lockout.agent for lockout in task.people.lockouts] == ["Bob"]
    later = then(task, review_retracted(V2))
    assert (later.status, later.reviews.rejection_count) == (Status.PROVISIONAL, 0)


def test_a_later_rejection_is_retracted_while_an_earlier_one_stands() -> None:
    task = task_after_review(review_rejected(V1), lockout_set(), *BOB_WORKS, of_bob(), review_retracted(V2))

    assert (task.status, task.queue, task.reviews.rejection_count) == (Status.PROVISIONAL, Status.REJECTED, 1)
    assert task.is_locked_out("Alice")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("reviews", Status.PROVISIONAL),
        ("deadlock", Status.PROVISIONAL),
        ("gates", Status.ESCALATED),
        ("asked", Status.ESCALATED),
        ("bypassed", Status.ESCALATED),
        ("", Status.ESCALATED),
    ],
)
def test_a_question_that_followed_from_the_rejection_ends_with_it_and_no_other(
    kind: str, status: Status
) -> None:
    task = task_after_review(
        review_rejected(V1), lockout_set(), replace(ASKED, kind=kind), review_retracted(V1)
    )

    assert (task.status, task.reviews.rejection_count, task.people.lockouts) == (status, 0, ())
    assert (task.open_escalation is None) == (status == Status.PROVISIONAL)


@pytest.mark.parametrize(
    "status",
    sorted(set(Status) - {Status.REJECTED, Status.ESCALATED}),
)
def test_a_task_that_went_another_way_stays_there(status: Status) -> None:
    task = replace(
        task_after_review(review_rejected(V1), lockout_set()), status=status, queue=Status.NEEDS_CONTINUATION
    )

    after = then(task, review_retracted(V1))

    assert (after.status, after.reviews.rejection_count, after.people.lockouts) == (status, 0, ())
    assert (after.queue, after.inbox.conflicts) == (Status.NEEDS_CONTINUATION, ())


def test_what_does_not_stand_cannot_be_retracted() -> None:
    task = task_after_review(review_rejected(V1))

    assert conflicts(then(task, review_retracted(V2))) == ["review.retract"]
    assert conflicts(then(task, review_retracted(V1), review_retracted(V1))) == ["review.retract"]


def test_a_lockout_that_did_not_follow_from_the_rejection_stays() -> None:
    others = (lockout_set("Bob", V2), lockout_set("Carol", ""), lockout_set("Dave", "", inherited_from=T2))

    task = task_after_review(review_rejected(V1), lockout_set(), *others, review_retracted(V1))

    assert [lockout.agent for lockout in task.people.lockouts] == ["Bob", "Carol", "Dave"]


def test_a_lockout_on_somebodys_own_word_outlives_the_rejection() -> None:
    task = task_after_review(
        review_rejected(V1), lockout_set(), lockout_set(review_id=""), review_retracted(V1)
    )

    assert task.is_locked_out("Alice")


def test_work_that_was_rejected_anew_after_a_retraction_is_a_new_round() -> None:
    task = task_after_review(review_rejected(V1), review_retracted(V1), review_rejected(V2))

    assert (len(task.reviews.rounds), task.reviews.rejection_count, task.status) == (2, 1, Status.REJECTED)


# Lockouts.


def test_a_lockout_says_who_set_it_why_and_what_it_follows_from() -> None:
    (lockout,) = task_after(task_added(), lockout_set(review_id=V1, inherited_from=T2)).people.lockouts

    assert (lockout.agent, lockout.by, lockout.reason) == ("Alice", "somebody", "It leaks")
    assert (lockout.review_id, lockout.inherited_from) == (V1, T2)


def test_a_lockout_ends_the_claim_and_the_offers_of_its_agent_and_nobody_elses() -> None:
    held = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1), offers=(an_offer("Bob", H2),))
    offered = a_task(offers=(an_offer("Alice", H1), an_offer("Bob", H2)))

    after = then(held, lockout_set(review_id=""))
    assert (after.status, after.claim, len(after.claims.offers)) == (Status.INCOMING, None, 1)
    assert [offer.target for offer in then(offered, lockout_set()).claims.offers] == ["Bob"]
    by_bob = then(replace(held, claim=a_claim("Bob", H1)), lockout_set())
    assert by_bob.claim is not None


def test_a_locked_out_agent_is_offered_nothing() -> None:
    task = then(a_task(lockouts=(a_lockout("Bob"),)), handoff("Bob"))

    assert (task.claims.offers, conflicts(task)) == ((), ["handoff.initiate"])


def test_an_unlock_is_for_this_task_and_lasts_until_the_next_lockout() -> None:
    cleared = LockoutCleared(task_id=T1, agent="Alice", guidance="Look twice")

    task = task_after(task_added(), lockout_set(), cleared)

    assert (task.people.lockouts, task.people.unlocked, task.reviews.feedback) == ((), ("Alice",), 1)
    assert then(task, lockout_set(review_id=V2)).people.unlocked == ()
    assert task_after(task_added(), lockout_set(), replace(cleared, guidance="")).reviews.feedback == 0


@pytest.mark.parametrize("fields", [{"review_id": V1}, {"inherited_from": T2}], ids=["retraction", "above"])
def test_a_lockout_that_ends_with_its_cause_lets_nobody_past_those_above(fields: dict[str, str]) -> None:
    cleared = LockoutCleared(task_id=T1, agent="Alice", **fields)

    task = task_after(task_added(), lockout_set(**{"review_id": "", **fields}), cleared)

    assert (task.people.lockouts, task.people.unlocked) == ((), ())


def test_an_accepted_appeal_ends_the_lockout_for_that_rejection_alone() -> None:
    own = lockout_set(review_id="", rejection_id="R-1")
    others = (
        lockout_set(review_id=V1),
        lockout_set(review_id=""),
        lockout_set(review_id="", inherited_from=T2),
        lockout_set(review_id="", rejection_id="R-2"),
    )
    cleared = LockoutCleared(task_id=T1, agent="Alice", rejection_id="R-1")

    task = task_after(task_added(), own, cleared)
    assert (task.people.lockouts, task.people.unlocked) == ((), ())
    for other in others:
        for order in ((own, other), (other, own)):
            (left,) = task_after(task_added(), *order, cleared).people.lockouts
            (alone,) = task_after(task_added(), other).people.lockouts
            assert left.causes == alone.causes
    assert not then(task_after(task_added(), own), LockoutCleared(task_id=T1, agent="Alice")).people.lockouts
    assert then(
        task_after(task_added(), own), replace(cleared, rejection_id="", review_id=V1)
    ).people.lockouts


def test_a_lockout_for_several_causes_ends_with_the_last_of_them() -> None:
    own, above = lockout_set(review_id=V1), lockout_set(review_id="", inherited_from=T2)
    by_hand = lockout_set(review_id="")
    from_above = LockoutCleared(task_id=T1, agent="Alice", inherited_from=T2)
    by_the_user = LockoutCleared(task_id=T1, agent="Alice")

    for first, second in ((own, above), (above, own)):
        task = task_after_review(review_rejected(V1), first, second, second)
        assert len(task.people.lockouts) == 1
        assert then(task, review_retracted(V1)).is_locked_out("Alice")
        assert then(task, from_above).is_locked_out("Alice")
        assert not then(task, review_retracted(V1), from_above).is_locked_out("Alice")
        assert not then(task, from_above, review_retracted(V1)).is_locked_out("Alice")
        assert not then(task, by_the_user).is_locked_out("Alice")
    kept = then(task_after_review(review_rejected(V1), own, above, by_hand), review_retracted(V1), from_above)
    assert kept.is_locked_out("Alice")
    assert not then(kept, by_the_user).is_locked_out("Alice")


def test_lockouts_end_when_the_task_is_done() -> None:
    task = task_after_review(
        review_rejected(V1), lockout_set(), *BOB_WORKS, replace(APPROVED, commit=OTHER_SHA)
    )

    assert task.active_lockouts == ()
    assert replace(task, status=Status.CANCELLED).active_lockouts == ()
    assert replace(task, status=Status.CANCELLED).inheritable_lockouts == task.people.lockouts != ()
    assert replace(task, status=Status.INFEASIBLE).active_lockouts == task.people.lockouts


# Requests, feedback, reassignments.


def test_who_was_asked_for_a_review_is_known_until_other_work_is_handed_in() -> None:
    asked = ReviewRequested(task_id=T1, reviewer="Tess", commit=SHA)

    task = task_after_review(asked, asked)

    assert task.reviews.requested == ("Tess",)
    assert task_after_review(replace(asked, commit=OTHER_SHA)).reviews.requested == ()
    assert task_after(task_added(), asked).reviews.requested == ()
    assert then(task, review_rejected(V1), *BOB_WORKS).reviews.requested == ()


def test_feedback_is_read_under_a_claim_and_by_the_next_one_again() -> None:
    fetched = FeedbackFetched(task_id=T1, handoff_id=H2, agent="Bob", count=1)

    task = task_after_review(review_rejected(V1), task_claimed("Bob", H2), fetched)

    assert task.claim is not None
    assert (task.claim.read, task.status) == (1, Status.CLAIMED)
    boasted = task_after_review(review_rejected(V1), task_claimed("Bob", H2), replace(fetched, count=9))
    assert boasted.claim is not None
    assert boasted.claim.read == 1, "nobody has read what is not there yet"
    assert conflicts(then(task, replace(fetched, agent="Eve"))) == ["feedback.fetch"]


def test_a_reassignment_ends_offers_and_goes_to_nobody_who_is_locked_out() -> None:
    to_bob = TaskReassigned(task_id=T1, target="Bob", source="Alice")
    task = a_task(status=Status.REJECTED, queue=Status.REJECTED, offers=(an_offer("Carol", H2),))

    assert then(task, to_bob).claims.offers == ()
    barred = then(update_task(task, lockouts=(a_lockout("Bob"),)), to_bob)
    assert (conflicts(barred), len(barred.claims.offers)) == (["task.reassign"], 1)


# Questions to the user.


def test_a_question_ends_the_claim_and_has_an_id_of_its_own() -> None:
    task = task_after(task_added(), task_claimed(), ASKED)

    assert (task.status, task.claim) == (Status.ESCALATED, None)
    assert task.open_escalation is not None
    assert (task.open_escalation.kind, task.open_escalation.deadline) == ("asked", LATER)
    assert task.open_escalation.id.startswith("E-")
    assert conflicts(then(task, ASKED)) == ["escalation.open"]


def test_an_agent_that_asked_has_used_that_way_out() -> None:
    claim = a_claim("somebody", H1)
    task = a_task(status=Status.CLAIMED, claim=claim, offers=(an_offer("Bob", H2),))

    once = then(task, ASKED)
    assert (once.claims.exits, once.claims.offers) == ((("somebody", "escalation.open"),), ())
    again = update_task(task, exits=once.claims.exits)
    assert then(again, ASKED).claims.exits == once.claims.exits
    assert then(replace(task, claim=a_claim("Bob", H1)), ASKED).claims.exits == ()


@pytest.mark.parametrize("deadline", ["", "never", "9999-12-31T23:59:59.999999Z"])
def test_whatever_a_file_says_a_question_is_repeated_within_a_week(deadline: str) -> None:
    task = task_after(task_added(), replace(ASKED, deadline=deadline))

    assert task.inbox.escalation is not None
    assert NOW < task.inbox.escalation.deadline <= add_seconds(NOW, 7 * 86_400 + 1)
    repeated = EscalationRepeated(task_id=T1, escalation_id=task.inbox.escalation.id, deadline=deadline)
    again = then(task, repeated).inbox.escalation
    assert again is not None
    assert NOW < again.deadline <= add_seconds(NOW, 7 * 86_400 + 1)


OPEN = a_task(status=Status.ESCALATED, escalation=an_escalation(), queue=Status.REJECTED)


def test_a_repeated_question_is_told_again_through_every_channel() -> None:
    told = then(OPEN, EscalationNotified(task_id=T1, escalation_id=E1, channel="mail"))
    assert told.inbox.escalation is not None
    assert told.inbox.escalation.notified == ("mail",)
    assert then(told, EscalationNotified(task_id=T1, escalation_id=E1, channel="mail")) == told

    repeat = EscalationRepeated(task_id=T1, escalation_id=E1, deadline=MUCH_LATER)
    again = then(told, repeat).inbox.escalation

    assert again is not None
    assert (again.notified, again.repeats, again.deadline) == ((), 1, MUCH_LATER)
    twice = then(told, repeat, replace(repeat, deadline=LATER)).inbox.escalation
    assert twice is not None
    assert twice.deadline == MUCH_LATER, "of two ledgers that repeat it the later deadline holds"


def test_who_has_seen_the_question_is_known() -> None:
    seen = then(OPEN, EscalationAcknowledged(task_id=T1, escalation_id=E1)).inbox.escalation

    assert seen is not None
    assert seen.acknowledged_by == "somebody"


@pytest.mark.parametrize(
    "event",
    [
        EscalationRepeated(task_id=T1, escalation_id="E-other", deadline=MUCH_LATER),
        EscalationNotified(task_id=T1, escalation_id="E-other", channel="mail"),
        EscalationAcknowledged(task_id=T1, escalation_id="E-other"),
    ],
    ids=lambda event: event.name,
)
def test_what_is_about_another_question_changes_nothing(event: Event) -> None:
    assert then(OPEN, event) == OPEN


def test_an_answer_brings_the_task_back_to_its_queue() -> None:
    answer = EscalationAnswered(task_id=T1, escalation_id=E1, option="reopen")

    task = then(OPEN, answer)

    assert (task.status, task.people.fixer, task.reviews.feedback, task.open_escalation) == (
        Status.REJECTED,
        "",
        0,
        None,
    )
    assert then(OPEN, replace(answer, guidance="Look")).reviews.feedback == 1
    assert then(OPEN, replace(answer, option="fix")).people.fixer == "somebody"
    for late in (then(task, answer), then(OPEN, replace(answer, escalation_id="E-other"))):
        assert conflicts(late) == ["escalation.answer"]


def test_a_rejection_counts_though_a_line_with_an_earlier_date_undid_the_submission() -> None:
    gone = TaskReleased(task_id=T1, handoff_id=H1, agent="Alice")
    undone = task_after(
        task_added(), task_claimed(), gone, review_rejected(author="Alice", handoff_id=H1, patch="p1")
    )

    assert (undone.reviews.rejection_count, undone.reviews.feedback, undone.reviews.rounds[0].patch) == (
        1,
        1,
        "p1",
    )
    assert undone.status == Status.INCOMING


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, Status.PROVISIONAL),
        ({"submission": None}, Status.INCOMING),
        ({"rounds": (a_round(),), "queue": Status.REJECTED}, Status.REJECTED),
    ],
    ids=["handed in", "nothing handed in", "rejected elsewhere meanwhile"],
)
def test_an_accepted_merge_is_under_review_for_the_approval_that_follows(
    fields: dict[str, object], status: Status
) -> None:
    asked = a_task(
        status=Status.ESCALATED, escalation=an_escalation("bypassed"), submission=a_submission("Alice")
    )
    answer = EscalationAnswered(task_id=T1, escalation_id=E1, option="accept")
    after = evolve(update_task(asked, **fields), stamp_events(answer)[0])

    assert after is not None
    assert after.status == status
