"""Holds who may say yes or no to submitted work, and to what exactly."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.roles import THE_COORDINATOR, Actor, Role
from remand.domain.rules import MAX_FINDINGS
from remand.domain.task import TERMINAL, Gating, Status, Task
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    LEAD,
    MUCH_LATER,
    OTHER_SHA,
    SHA,
    T1,
    T2,
    THE_USER,
    TREE,
    a_claim,
    a_lockout,
    a_submission,
    a_task,
    actor,
    decided,
    refused,
)
from remand.testing.reviewing import LEAKS, NIT, V1, V2, a_round, after_review, locked_out, rejected

HANDED_IN = a_task(
    status=Status.PROVISIONAL, submission=a_submission("Alice"), authors=("Alice",), holders=("Alice",)
)
SENT_BACK = replace(HANDED_IN, status=Status.REJECTED, rounds=(a_round(V1),))
APPROVE = c.ApproveReview(task_id=T1, commit="HEAD")
REJECT = c.RejectReview(task_id=T1, commit="HEAD", findings=(NIT, LEAKS))
REJECT_ALL = c.RejectReview(task_id=T1, commit="HEAD", findings=(e.Finding(text="It leaks"),))
TESS = actor("Tess", Role.TESTER)
DIRECTOR = actor("Dir", Role.DIRECTOR)
PAINTER = actor("Pat", Role.LEAD, paths=("paint/**",))
both = pytest.mark.parametrize("ask", [APPROVE, REJECT], ids=["approve", "reject"])


def about(*paths: str) -> tuple[e.Finding, ...]:
    return tuple(e.Finding(text="It leaks", path=path) for path in paths)


def rejection_of(
    task: Task, by: Actor = LEAD, ask: c.RejectReview = REJECT, **facts: Any
) -> e.ReviewRejected:
    event = decided(task, ask, by, **{"commit": SHA, **facts})[0]
    assert isinstance(event, e.ReviewRejected)
    return event


# What a review says.


def test_an_approval_names_the_commit_and_tree_it_is_about() -> None:
    ask = replace(APPROVE, source="forge:1")

    assert decided(HANDED_IN, ask, LEAD, commit=SHA) == (
        e.ReviewApproved(task_id=T1, reviewer="Lead", commit=SHA, tree=TREE, source="forge:1"),
    )


def test_a_rejection_names_the_work_the_findings_and_the_change() -> None:
    assert rejection_of(HANDED_IN, patch="p1") == e.ReviewRejected(
        task_id=T1,
        reviewer="Lead",
        commit=SHA,
        tree=TREE,
        findings=(NIT, LEAKS),
        review_id=V1,
        patch="p1",
        author="Alice",
        handoff_id=H1,
    )


def test_a_review_of_a_forge_has_the_same_id_in_every_ledger() -> None:
    ids = {
        rejection_of(task, ask=replace(REJECT, source=source), fresh_review_id=fresh).review_id
        for task, source, fresh in (
            (HANDED_IN, "forge:1", V1),
            (HANDED_IN, "forge:1", V2),
            (HANDED_IN, "forge:2", V1),
            (replace(HANDED_IN, id="T-other"), "forge:1", V1),
        )
    }

    assert len(ids) == 3
    assert V1 not in ids


@pytest.mark.parametrize("status", [Status.PROVISIONAL, Status.REJECTED, Status.CLAIMED, Status.DONE])
@both
def test_a_review_of_a_forge_that_was_taken_in_changes_nothing_any_more(
    ask: c.ApproveReview, status: Status
) -> None:
    task = replace(HANDED_IN, status=status, sources=("forge:1",))

    assert decided(task, replace(ask, source="forge:1"), LEAD, commit=SHA) == ()


@both
def test_where_a_review_comes_from_is_told_in_a_few_words(ask: c.ApproveReview) -> None:
    assert refused(HANDED_IN, replace(ask, source="x" * 201), LEAD, commit=SHA) == "bad_value"


@pytest.mark.parametrize("findings", [(), (NIT,), (NIT, NIT)], ids=["none", "a nit", "nits"])
def test_nits_alone_do_not_reject(findings: tuple[e.Finding, ...]) -> None:
    ask = c.RejectReview(task_id=T1, commit="HEAD", findings=findings)

    assert refused(HANDED_IN, ask, LEAD, commit=SHA) == "bad_value"


@pytest.mark.parametrize(
    "finding",
    [
        e.Finding(text=" "),
        e.Finding(text="\ud800"),
        e.Finding(text="a", path="\ud800"),
        e.Finding(text="a", path="a" * 4097),
        e.Finding(text="a", line=-1),
        e.Finding(text="a", line=10**30),
    ],
    ids=["empty", "no text", "no path", "long path", "negative line", "huge line"],
)
def test_a_finding_says_something(finding: e.Finding) -> None:
    ask = c.RejectReview(task_id=T1, commit="HEAD", findings=(LEAKS, finding))

    assert refused(HANDED_IN, ask, LEAD, commit=SHA) == "bad_value"


def test_there_are_only_so_many_findings_in_a_review() -> None:
    def ask(count: int) -> c.RejectReview:
        return c.RejectReview(task_id=T1, commit="HEAD", findings=(LEAKS,) * count)

    assert decided(HANDED_IN, ask(MAX_FINDINGS), LEAD, commit=SHA)
    assert refused(HANDED_IN, ask(MAX_FINDINGS + 1), LEAD, commit=SHA) == "bad_value"


# Whose word counts.


@both
@pytest.mark.parametrize("reviewer", [LEAD, THE_USER, TESS], ids=lambda who: who.name)
def test_reviewers_and_the_user_review(ask: c.Ask, reviewer: Actor) -> None:
    ask = REJECT_ALL if ask is REJECT else ask

    assert decided(HANDED_IN, ask, reviewer, commit=SHA, changed=("tests/test_roof.py",))


@both
@pytest.mark.parametrize("roles", [(Role.LEAD, Role.AGENT), (Role.USER,)], ids=["lead", "user"])
def test_nobody_reviews_work_they_authored(ask: c.Ask, roles: tuple[Role, ...]) -> None:
    for task in (HANDED_IN, SENT_BACK):
        assert refused(task, ask, actor("Alice", *roles), commit=SHA) == "own_work"


@both
def test_an_author_of_an_earlier_attempt_does_not_review_a_later_one(ask: c.Ask) -> None:
    task = replace(HANDED_IN, submission=a_submission("Bob"), authors=("Alice", "Bob"))

    assert refused(task, ask, actor("Alice", Role.LEAD), commit=SHA) == "own_work"


@both
def test_who_ever_held_the_task_does_not_review_it_but_for_the_user(ask: c.Ask) -> None:
    task = replace(HANDED_IN, holders=("Alice", "Lead", "user"))

    assert refused(task, ask, LEAD, commit=SHA) == "own_work"
    assert refused(task, ask, actor("user", Role.USER, Role.LEAD, confined=True), commit=SHA) == "own_work"
    assert decided(task, ask, THE_USER, commit=SHA)


@both
def test_who_is_kept_away_from_a_task_does_not_review_it_but_for_the_user(ask: c.Ask) -> None:
    barred = replace(HANDED_IN, lockouts=(a_lockout("Lead"), a_lockout("user")))
    above = {"inherited": (("Lead", T2), ("user", T2))}
    confined = actor("user", Role.USER, Role.LEAD, confined=True)

    for who in (LEAD, confined):
        assert refused(barred, ask, who, commit=SHA) == "locked_out"
        assert refused(HANDED_IN, ask, who, commit=SHA, **above) == "locked_out"
    assert decided(barred, ask, THE_USER, commit=SHA)
    assert decided(HANDED_IN, ask, THE_USER, commit=SHA, **above)
    asked = c.RequestReview(task_id=T1, reviewer="Lead")
    assert refused(barred, asked, target=LEAD) == "locked_out"


def test_what_the_user_mended_by_hand_the_user_may_approve() -> None:
    task = replace(HANDED_IN, authors=("Alice", "user"), fixer="user")
    other = actor("boss", Role.USER)

    assert decided(task, APPROVE, THE_USER, commit=SHA)
    assert refused(replace(task, fixer=""), APPROVE, THE_USER, commit=SHA) == "own_work"
    assert refused(replace(task, authors=("boss",)), APPROVE, other, commit=SHA) == "own_work"


# How far a word reaches.


def test_a_scoped_reviewer_approves_only_what_lies_within_its_scope() -> None:
    inside, across = ("paint/a.py",), ("paint/a.py", "roof.py", "wall.py", "floor.py", "door.py")

    assert decided(HANDED_IN, APPROVE, PAINTER, commit=SHA, changed=inside)
    assert decided(HANDED_IN, APPROVE, LEAD, commit=SHA, changed=across)
    assert refused(HANDED_IN, APPROVE, PAINTER, commit=SHA, changed=across) == "out_of_scope"


def test_a_scoped_reviewer_approves_nothing_whose_change_is_not_known() -> None:
    assert refused(HANDED_IN, APPROVE, PAINTER, commit=SHA, changed=None) == "out_of_scope"
    assert decided(HANDED_IN, APPROVE, LEAD, commit=SHA, changed=None)


def test_a_tester_without_paths_reviews_tests_only() -> None:
    assert decided(HANDED_IN, APPROVE, TESS, commit=SHA, changed=("tests/test_roof.py",))
    assert refused(HANDED_IN, APPROVE, TESS, commit=SHA, changed=("roof.py",)) == "out_of_scope"


def test_blocking_findings_out_of_scope_are_kept_as_suggestions() -> None:
    ask = replace(REJECT, findings=about("paint/a.py", "roof.py", ""))

    said = rejection_of(HANDED_IN, PAINTER, ask).findings

    assert [finding.is_blocking for finding in said] == [True, False, True], "no path is no other file"


def test_a_rejection_out_of_scope_rejects_nothing() -> None:
    ask = replace(REJECT, findings=(*about("roof.py"), NIT))

    assert refused(HANDED_IN, ask, PAINTER, commit=SHA) == "out_of_scope"
    assert rejection_of(HANDED_IN, THE_USER, ask).findings[0].is_blocking


# Which work a review is about.


@both
def test_a_review_is_about_the_work_submitted_last(ask: c.Ask) -> None:
    assert refused(HANDED_IN, ask, LEAD, commit=OTHER_SHA, tree="other") == "stale_review"
    assert refused(HANDED_IN, ask, LEAD, commit="") == "unknown_commit"
    (event, *_) = decided(HANDED_IN, ask, LEAD, commit=OTHER_SHA, tree=TREE)
    assert (event.commit, event.tree) == (SHA, TREE), "another commit with the same code"


@both
def test_work_without_a_code_tree_is_known_by_its_commit_alone(ask: c.Ask) -> None:
    task = replace(HANDED_IN, submission=replace(a_submission(), tree=""))

    assert refused(task, ask, LEAD, commit=OTHER_SHA, tree="") == "stale_review"


@both
@pytest.mark.parametrize("status", sorted(set(Status) - {Status.PROVISIONAL, Status.DONE}))
def test_only_what_was_handed_in_is_reviewed(ask: c.Ask, status: Status) -> None:
    for submission in (a_submission("Alice"), None):
        task = a_task(status=status, submission=submission)
        assert refused(task, ask, LEAD, commit=SHA) == "nothing_to_review"


@both
def test_a_review_of_a_task_that_is_done_comes_too_late(ask: c.Ask) -> None:
    task = replace(SENT_BACK, status=Status.DONE, approved_commit=SHA)

    assert refused(task, ask, LEAD, commit=SHA) == "too_late"


@pytest.mark.parametrize("status", sorted(set(Status) - TERMINAL - {Status.PROVISIONAL}))
def test_a_further_rejection_of_work_that_was_sent_back_adds_its_findings_alone(status: Status) -> None:
    task = replace(SENT_BACK, status=status)

    (event,) = decided(task, REJECT, THE_USER, commit=SHA, has_team=True)

    assert isinstance(event, e.ReviewRejected)
    assert refused(task, APPROVE, THE_USER, commit=SHA) == "nothing_to_review"
    assert refused(task, REJECT, THE_USER, commit=OTHER_SHA, tree="other") == "stale_review"


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.INFEASIBLE])
def test_a_task_that_has_ended_is_not_rejected(status: Status) -> None:
    assert refused(replace(SENT_BACK, status=status), REJECT, THE_USER, commit=SHA) == "nothing_to_review"


def test_a_rejection_that_was_taken_back_is_not_added_to() -> None:
    gone = a_round(reviews=(replace(a_round(V1).reviews[0], is_retracted=True),))
    task = replace(SENT_BACK, status=Status.CLAIMED, claim=a_claim("Bob", H2), rounds=(gone,))

    assert refused(task, REJECT, LEAD, commit=SHA) == "nothing_to_review"


def test_late_findings_on_earlier_work_are_stale_when_other_work_was_handed_in() -> None:
    task = replace(HANDED_IN, submission=a_submission("Bob", OTHER_SHA, H2), rounds=(a_round(V1),))
    task = replace(task, submission=replace(task.submission, tree="other"))

    assert refused(task, REJECT, LEAD, commit=SHA, tree=TREE) == "stale_review"


def test_work_is_not_approved_when_its_branch_has_gone_on_but_for_the_user() -> None:
    moved = {"commit": SHA, "head_tree": "another"}

    assert refused(HANDED_IN, APPROVE, LEAD, **moved) == "head_moved"
    assert (
        refused(HANDED_IN, APPROVE, actor("u", Role.USER, Role.LEAD, confined=True), **moved) == "head_moved"
    )
    assert decided(HANDED_IN, APPROVE, THE_USER, **moved)
    assert decided(HANDED_IN, APPROVE, LEAD, commit=SHA, head_tree=TREE)
    assert decided(HANDED_IN, APPROVE, LEAD, commit=SHA, head_tree="")
    assert decided(HANDED_IN, REJECT, LEAD, **moved), "saying no is always possible"


def test_code_that_is_rejected_still_is_not_approved_until_the_user_lets_it_pass() -> None:
    task = replace(HANDED_IN, submission=a_submission("Bob", OTHER_SHA, H2), rounds=(a_round(V1),))
    other = replace(task, rounds=(a_round(V1, tree="other"),))
    gone = a_round(reviews=(replace(a_round(V1).reviews[0], is_retracted=True),))

    assert refused(task, APPROVE, LEAD, commit=OTHER_SHA) == "rejected_before"
    assert decided(other, APPROVE, LEAD, commit=OTHER_SHA)
    assert decided(replace(task, rounds=(gone,)), APPROVE, LEAD, commit=OTHER_SHA)


# Asking for a review.


def test_a_reviewer_is_asked_once_for_what_was_handed_in() -> None:
    ask = c.RequestReview(task_id=T1, reviewer="Lead")

    (event,) = decided(HANDED_IN, ask, target=LEAD)

    assert event == e.ReviewRequested(task_id=T1, reviewer="Lead", commit=SHA)
    assert decided(replace(HANDED_IN, requested=("Lead",)), ask, target=LEAD) == ()


def test_nobody_else_is_asked_for_a_review() -> None:
    ask = c.RequestReview(task_id=T1, reviewer="x")

    assert refused(HANDED_IN, ask, target=BOB) == "bad_value"
    assert refused(HANDED_IN, ask, target=None) == "bad_value"
    assert refused(HANDED_IN, ask, target=actor("Alice", Role.LEAD)) == "own_work"
    assert refused(SENT_BACK, ask, target=LEAD) == "nothing_to_review"


# What a forge tells besides.


def test_a_review_that_cannot_count_is_kept_once() -> None:
    ask = c.NoteReview(
        task_id=T1, reviewer="Eve", source="forge:1", why="no member", commit=SHA, findings=(NIT,)
    )

    (event,) = decided(HANDED_IN, ask, THE_COORDINATOR)

    assert event == e.ReviewNoted(
        task_id=T1, reviewer="Eve", source="forge:1", why="no member", commit=SHA, findings=(NIT,)
    )
    assert decided(replace(HANDED_IN, sources=("forge:1",)), ask, THE_COORDINATOR) == ()


MERGED = c.NoteMerge(task_id=T1, by="Eve", commit=SHA, why="no gate passed it", source="forge:m1")


def test_work_that_was_merged_past_the_rules_is_brought_before_the_user_once() -> None:
    bypassed, asked = decided(HANDED_IN, MERGED, THE_COORDINATOR)

    assert bypassed == e.ReviewBypassed(
        task_id=T1, by="Eve", commit=SHA, why="no gate passed it", source="forge:m1"
    )
    assert isinstance(asked, e.EscalationOpened)
    assert asked.kind == "bypassed"
    assert decided(replace(HANDED_IN, sources=("forge:m1",)), MERGED, THE_COORDINATOR) == ()


@pytest.mark.parametrize("status", sorted(TERMINAL | {Status.ESCALATED, Status.DECOMPOSED}))
def test_a_merge_past_the_rules_asks_nothing_where_nothing_can_be_asked(status: Status) -> None:
    (event,) = decided(replace(HANDED_IN, status=status), MERGED, THE_COORDINATOR)

    assert isinstance(event, e.ReviewBypassed)


# Feedback.


def test_the_holder_is_given_all_feedback_there_is_and_that_is_noted_once() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), feedback=3)
    ask = c.FetchFeedback(task_id=T1, agent="Bob")

    assert decided(task, ask, BOB) == (e.FeedbackFetched(task_id=T1, handoff_id=H2, agent="Bob", count=3),)
    assert decided(replace(task, claim=replace(a_claim("Bob", H2), read=3)), ask, BOB) == ()


@pytest.mark.parametrize("who", [LEAD, DIRECTOR, THE_USER], ids=["lead", "director", "user"])
def test_who_reviews_or_directs_may_look_at_feedback_of_others_and_no_receipt_is_given(who: Actor) -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), feedback=3)

    assert decided(task, c.FetchFeedback(task_id=T1, agent=who.name), who) == ()


@pytest.mark.parametrize(
    "who",
    [ALICE, Actor(name="nobody"), replace(THE_USER, confined=True)],
    ids=["agent", "stranger", "confined user"],
)
def test_what_an_agent_holds_no_other_agent_is_told(who: Actor) -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), feedback=3)
    ask = c.FetchFeedback(task_id=T1, agent=who.name)

    assert refused(task, ask, who) == "not_yours"
    assert decided(task, ask, who, at=MUCH_LATER) == (), "nobody holds it any more"
    assert decided(replace(task, status=Status.REJECTED, claim=None), ask, who) == ()


def test_who_is_locked_out_is_not_given_the_feedback() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), feedback=3, lockouts=(a_lockout("Alice"),))

    assert refused(task, c.FetchFeedback(task_id=T1, agent="Alice"), ALICE) == "locked_out"


@pytest.mark.parametrize("is_handoff", [True, False], ids=["complete", "submit"])
def test_nothing_is_handed_in_before_all_feedback_was_read(is_handoff: bool) -> None:
    ask: c.Ask = c.SubmitTask(task_id=T1, agent="Bob", commit="HEAD")
    if is_handoff:
        ask = c.CompleteHandoff(handoff_id=H2, agent="Bob", commit="HEAD")
    claim = a_claim("Bob", H2)
    task = a_task(status=Status.CLAIMED, claim=replace(claim, read=1), feedback=2)

    assert refused(task, ask, BOB, commit=OTHER_SHA, tree="t", gates=()) == "feedback_unread"
    read = replace(task, claim=replace(claim, read=2))
    assert decided(read, ask, BOB, commit=OTHER_SHA, tree="t", gates=())


# A rejected change that is handed in again.


@pytest.mark.parametrize(
    "work", [{"tree": TREE}, {"tree": "moved", "patch": "p1"}], ids=["the same code", "the same change"]
)
def test_a_rejected_change_is_not_handed_in_again_by_anyone(work: dict[str, str]) -> None:
    task = a_task(
        status=Status.CLAIMED, claim=a_claim("Bob", H2), rounds=(a_round(V1, patch="p1"),), feedback=0
    )
    ask = c.SubmitTask(task_id=T1, agent="Bob", commit="HEAD")
    released = Gating(is_released=True, commit=OTHER_SHA, tree=work["tree"])

    for known in (task, replace(task, gating=released)):
        assert refused(known, ask, BOB, commit=OTHER_SHA, gates=(), **work) == "not_measured"
    assert decided(task, ask, BOB, commit=OTHER_SHA, gates=(), tree="new", patch="p2")
    assert decided(task, ask, BOB, commit=OTHER_SHA, gates=(), tree="new", patch="")


def test_nothing_known_of_a_change_is_no_sameness() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), rounds=(a_round(V1, tree="", patch=""),))
    ask = c.SubmitTask(task_id=T1, agent="Bob", commit="HEAD")

    assert decided(task, ask, BOB, commit=OTHER_SHA, gates=(), tree="", patch="")


def test_a_change_whose_rejection_was_retracted_may_be_handed_in_again() -> None:
    gone = a_round(reviews=(replace(a_round(V1).reviews[0], is_retracted=True),))
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), rounds=(gone,))

    ask = c.SubmitTask(task_id=T1, agent="Bob", commit="HEAD")

    assert decided(task, ask, BOB, commit=OTHER_SHA, gates=(), tree=TREE)


def test_a_second_review_of_the_same_work_keeps_its_author_out_by_itself_too() -> None:
    sent_back = after_review(rejected(), locked_out())
    decided_of = decided(sent_back, REJECT_ALL, TESS, commit=SHA, fresh_review_id=V2)

    assert [event.review_id for event in decided_of if isinstance(event, e.LockoutSet)] == [V2]


def test_a_second_review_does_not_lock_out_whom_the_user_let_back() -> None:
    let_back = after_review(rejected(), locked_out(), e.LockoutCleared(task_id=T1, agent="Alice"))
    decided_of = decided(let_back, REJECT_ALL, TESS, commit=SHA, fresh_review_id=V2)

    assert [type(event) for event in decided_of] == [e.ReviewRejected]


def test_each_rejection_by_the_command_has_an_id_of_its_own() -> None:
    """Only a forge's review has an id there; `reject-task` says the same of itself each time."""
    command = replace(REJECT, source="reject-task")
    ids = [rejection_of(HANDED_IN, ask=command, fresh_review_id=fresh).review_id for fresh in (V1, V2)]

    assert ids == [V1, V2]


LOOKED = e.Finding(path="roof.py", line=7, text="Every tile is nailed to two beams")
REVIEWER = actor("Rex", Role.LEAD, confined=True)


@pytest.mark.parametrize(
    ("checked", "code"),
    [
        ((), "vacuous_approval"),
        ((replace(LOOKED, text="LGTM"),), "vacuous_approval"),
        ((replace(LOOKED, path=""),), "vacuous_approval"),
        ((replace(LOOKED, path="other.py"),), "vacuous_approval"),
        ((replace(LOOKED, text="\x00"),), "bad_value"),
        ((replace(LOOKED, path="\x00"),), "bad_value"),
        ((replace(LOOKED, line=-1),), "bad_value"),
        ((LOOKED,) * (MAX_FINDINGS + 1), "bad_value"),
    ],
)
def test_an_agents_approval_says_what_it_looked_at(checked: tuple[e.Finding, ...], code: str) -> None:
    facts: dict[str, Any] = {"commit": SHA, "changed": ("roof.py",)}

    assert refused(HANDED_IN, replace(APPROVE, checked=checked), REVIEWER, **facts) == code
    (approved,) = decided(HANDED_IN, replace(APPROVE, checked=(LOOKED,)), REVIEWER, **facts)
    assert isinstance(approved, e.ReviewApproved)
    assert approved.checked == (LOOKED,)


def test_a_person_need_not_say_what_they_looked_at_but_in_words_that_can_be_kept() -> None:
    assert [event.name for event in decided(HANDED_IN, APPROVE, LEAD, commit=SHA)] == ["review.approve"]
    wrong = replace(APPROVE, checked=(replace(LOOKED, line=-1),))
    assert refused(HANDED_IN, wrong, LEAD, commit=SHA) == "bad_value"
