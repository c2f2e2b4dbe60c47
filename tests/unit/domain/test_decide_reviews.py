"""Holds who may say yes or no to submitted work, and to what exactly."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Actor, Role
from remand.domain.events.reviews import (
    EscalationOpened,
    FeedbackFetched,
    Finding,
    LockoutCleared,
    LockoutSet,
    ReviewApproved,
    ReviewBypassed,
    ReviewNoted,
    ReviewRejected,
    ReviewRequested,
)
from remand.domain.gate.state import GateState
from remand.domain.preconditions import MAX_FINDINGS
from remand.domain.task import TERMINAL, Status, Task, update_task
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    MUCH_LATER,
    SHA,
    T1,
    T2,
    TREE,
    a_claim,
    a_lockout,
    a_submission,
    a_task,
    actor,
)
from tests.support.builders import (
    LEAD,
    LEAKS,
    NIT,
    OTHER_SHA,
    THE_USER,
    V1,
    V2,
    a_round,
    decide_events,
    lockout_set,
    refusal_code,
    review_rejected,
    task_after_review,
)

HANDED_IN = a_task(
    status=Status.PROVISIONAL, submission=a_submission("Alice"), authors=("Alice",), holders=("Alice",)
)
SENT_BACK = update_task(HANDED_IN, status=Status.REJECTED, rounds=(a_round(V1),))
APPROVE = c.ApproveReview(task_id=T1, commit="HEAD")
REJECT = c.RejectReview(task_id=T1, commit="HEAD", findings=(NIT, LEAKS))
REJECT_ALL = c.RejectReview(task_id=T1, commit="HEAD", findings=(Finding(text="It leaks"),))
TESS = actor("Tess", Role.TESTER)
DIRECTOR = actor("Dir", Role.DIRECTOR)
PAINTER = actor("Pat", Role.LEAD, paths=("paint/**",))
both = pytest.mark.parametrize("ask", [APPROVE, REJECT], ids=["approve", "reject"])


def about(*paths: str) -> tuple[Finding, ...]:
    return tuple(Finding(text="It leaks", path=path) for path in paths)


def rejection_of(task: Task, by: Actor = LEAD, ask: c.RejectReview = REJECT, **facts: Any) -> ReviewRejected:
    event = decide_events(task, ask, by, **{"commit": SHA, **facts})[0]
    assert isinstance(event, ReviewRejected)
    return event


# What a review says.


def test_an_approval_names_the_commit_and_tree_it_is_about() -> None:
    ask = replace(APPROVE, source="forge:1")

    assert decide_events(HANDED_IN, ask, LEAD, commit=SHA) == (
        ReviewApproved(task_id=T1, reviewer="Lead", commit=SHA, tree=TREE, source="forge:1"),
    )


def test_a_rejection_names_the_work_the_findings_and_the_change() -> None:
    assert rejection_of(HANDED_IN, patch="p1") == ReviewRejected(
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
        rejection_of(task, ask=replace(REJECT, source=source), review_id=fresh).review_id
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
    task = update_task(HANDED_IN, status=status, sources=("forge:1",))

    assert decide_events(task, replace(ask, source="forge:1"), LEAD, commit=SHA) == ()


@both
def test_where_a_review_comes_from_is_told_in_a_few_words(ask: c.ApproveReview) -> None:
    assert refusal_code(HANDED_IN, replace(ask, source="x" * 201), LEAD, commit=SHA) == "bad_value"


@pytest.mark.parametrize("findings", [(), (NIT,), (NIT, NIT)], ids=["none", "a nit", "nits"])
def test_nits_alone_do_not_reject(findings: tuple[Finding, ...]) -> None:
    ask = c.RejectReview(task_id=T1, commit="HEAD", findings=findings)

    assert refusal_code(HANDED_IN, ask, LEAD, commit=SHA) == "bad_value"


@pytest.mark.parametrize(
    "finding",
    [
        Finding(text=" "),
        Finding(text="\ud800"),
        Finding(text="a", path="\ud800"),
        Finding(text="a", path="a" * 4097),
        Finding(text="a", line=-1),
        Finding(text="a", line=10**30),
    ],
    ids=["empty", "no text", "no path", "long path", "negative line", "huge line"],
)
def test_a_finding_says_something(finding: Finding) -> None:
    ask = c.RejectReview(task_id=T1, commit="HEAD", findings=(LEAKS, finding))

    assert refusal_code(HANDED_IN, ask, LEAD, commit=SHA) == "bad_value"


def test_there_are_only_so_many_findings_in_a_review() -> None:
    def ask(count: int) -> c.RejectReview:
        return c.RejectReview(task_id=T1, commit="HEAD", findings=(LEAKS,) * count)

    assert decide_events(HANDED_IN, ask(MAX_FINDINGS), LEAD, commit=SHA)
    assert refusal_code(HANDED_IN, ask(MAX_FINDINGS + 1), LEAD, commit=SHA) == "bad_value"


# Whose word counts.


@both
@pytest.mark.parametrize("reviewer", [LEAD, THE_USER, TESS], ids=lambda who: who.name)
def test_reviewers_and_the_user_review(ask: c.Command, reviewer: Actor) -> None:
    ask = REJECT_ALL if ask is REJECT else ask

    assert decide_events(HANDED_IN, ask, reviewer, commit=SHA, changed=("tests/test_roof.py",))


@both
@pytest.mark.parametrize("roles", [(Role.LEAD, Role.AGENT), (Role.USER,)], ids=["lead", "user"])
def test_nobody_reviews_work_they_authored(ask: c.Command, roles: tuple[Role, ...]) -> None:
    for task in (HANDED_IN, SENT_BACK):
        assert refusal_code(task, ask, actor("Alice", *roles), commit=SHA) == "own_work"


@both
def test_an_author_of_an_earlier_attempt_does_not_review_a_later_one(ask: c.Command) -> None:
    task = update_task(HANDED_IN, submission=a_submission("Bob"), authors=("Alice", "Bob"))

    assert refusal_code(task, ask, actor("Alice", Role.LEAD), commit=SHA) == "own_work"


@both
def test_who_ever_held_the_task_does_not_review_it_but_for_the_user(ask: c.Command) -> None:
    task = update_task(HANDED_IN, holders=("Alice", "Lead", "user"))

    assert refusal_code(task, ask, LEAD, commit=SHA) == "own_work"
    assert (
        refusal_code(task, ask, actor("user", Role.USER, Role.LEAD, confined=True), commit=SHA) == "own_work"
    )
    assert decide_events(task, ask, THE_USER, commit=SHA)


@both
def test_who_is_kept_away_from_a_task_does_not_review_it_but_for_the_user(ask: c.Command) -> None:
    barred = update_task(HANDED_IN, lockouts=(a_lockout("Lead"), a_lockout("user")))
    above = {"inherited": (("Lead", T2), ("user", T2))}
    confined = actor("user", Role.USER, Role.LEAD, confined=True)

    for who in (LEAD, confined):
        assert refusal_code(barred, ask, who, commit=SHA) == "locked_out"
        assert refusal_code(HANDED_IN, ask, who, commit=SHA, **above) == "locked_out"
    assert decide_events(barred, ask, THE_USER, commit=SHA)
    assert decide_events(HANDED_IN, ask, THE_USER, commit=SHA, **above)
    asked = c.RequestReview(task_id=T1, reviewer="Lead")
    assert refusal_code(barred, asked, target=LEAD) == "locked_out"


def test_what_the_user_mended_by_hand_the_user_may_approve() -> None:
    task = update_task(HANDED_IN, authors=("Alice", "user"), fixer="user")
    other = actor("boss", Role.USER)

    assert decide_events(task, APPROVE, THE_USER, commit=SHA)
    assert refusal_code(update_task(task, fixer=""), APPROVE, THE_USER, commit=SHA) == "own_work"
    assert refusal_code(update_task(task, authors=("boss",)), APPROVE, other, commit=SHA) == "own_work"


# How far a word reaches.


def test_a_scoped_reviewer_approves_only_what_lies_within_its_scope() -> None:
    inside, across = ("paint/a.py",), ("paint/a.py", "roof.py", "wall.py", "floor.py", "door.py")

    assert decide_events(HANDED_IN, APPROVE, PAINTER, commit=SHA, changed=inside)
    assert decide_events(HANDED_IN, APPROVE, LEAD, commit=SHA, changed=across)
    assert refusal_code(HANDED_IN, APPROVE, PAINTER, commit=SHA, changed=across) == "out_of_scope"


def test_a_scoped_reviewer_approves_nothing_whose_change_is_not_known() -> None:
    assert refusal_code(HANDED_IN, APPROVE, PAINTER, commit=SHA, changed=None) == "out_of_scope"
    assert decide_events(HANDED_IN, APPROVE, LEAD, commit=SHA, changed=None)


def test_a_tester_without_paths_reviews_tests_only() -> None:
    assert decide_events(HANDED_IN, APPROVE, TESS, commit=SHA, changed=("tests/test_roof.py",))
    assert refusal_code(HANDED_IN, APPROVE, TESS, commit=SHA, changed=("roof.py",)) == "out_of_scope"


def test_blocking_findings_out_of_scope_are_kept_as_suggestions() -> None:
    ask = replace(REJECT, findings=about("paint/a.py", "roof.py", ""))

    said = rejection_of(HANDED_IN, PAINTER, ask).findings

    assert [finding.is_blocking for finding in said] == [True, False, True], "no path is no other file"


def test_a_rejection_out_of_scope_rejects_nothing() -> None:
    ask = replace(REJECT, findings=(*about("roof.py"), NIT))

    assert refusal_code(HANDED_IN, ask, PAINTER, commit=SHA) == "out_of_scope"
    assert rejection_of(HANDED_IN, THE_USER, ask).findings[0].is_blocking


# Which work a review is about.


@both
def test_a_review_is_about_the_work_submitted_last(ask: c.Command) -> None:
    assert refusal_code(HANDED_IN, ask, LEAD, commit=OTHER_SHA, tree="other") == "stale_review"
    assert refusal_code(HANDED_IN, ask, LEAD, commit="") == "unknown_commit"
    (event, *_) = decide_events(HANDED_IN, ask, LEAD, commit=OTHER_SHA, tree=TREE)
    assert (event.commit, event.tree) == (SHA, TREE), "another commit with the same code"


@both
def test_work_without_a_code_tree_is_known_by_its_commit_alone(ask: c.Command) -> None:
    task = replace(HANDED_IN, submission=replace(a_submission(), tree=""))

    assert refusal_code(task, ask, LEAD, commit=OTHER_SHA, tree="") == "stale_review"


@both
@pytest.mark.parametrize("status", sorted(set(Status) - {Status.PROVISIONAL, Status.DONE}))
def test_only_what_was_handed_in_is_reviewed(ask: c.Command, status: Status) -> None:
    for submission in (a_submission("Alice"), None):
        task = a_task(status=status, submission=submission)
        assert refusal_code(task, ask, LEAD, commit=SHA) == "nothing_to_review"


@both
def test_a_review_of_a_task_that_is_done_comes_too_late(ask: c.Command) -> None:
    task = update_task(SENT_BACK, status=Status.DONE, approved_commit=SHA)

    assert refusal_code(task, ask, LEAD, commit=SHA) == "too_late"


@pytest.mark.parametrize("status", sorted(set(Status) - TERMINAL - {Status.PROVISIONAL}))
def test_a_further_rejection_of_work_that_was_sent_back_adds_its_findings_alone(status: Status) -> None:
    task = replace(SENT_BACK, status=status)

    (event,) = decide_events(task, REJECT, THE_USER, commit=SHA, has_team=True)

    assert isinstance(event, ReviewRejected)
    assert refusal_code(task, APPROVE, THE_USER, commit=SHA) == "nothing_to_review"
    assert refusal_code(task, REJECT, THE_USER, commit=OTHER_SHA, tree="other") == "stale_review"


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.INFEASIBLE])
def test_a_task_that_has_ended_is_not_rejected(status: Status) -> None:
    assert (
        refusal_code(replace(SENT_BACK, status=status), REJECT, THE_USER, commit=SHA) == "nothing_to_review"
    )


def test_a_rejection_that_was_taken_back_is_not_added_to() -> None:
    gone = a_round(reviews=(replace(a_round(V1).reviews[0], is_retracted=True),))
    task = update_task(SENT_BACK, status=Status.CLAIMED, claim=a_claim("Bob", H2), rounds=(gone,))

    assert refusal_code(task, REJECT, LEAD, commit=SHA) == "nothing_to_review"


def test_late_findings_on_earlier_work_are_stale_when_other_work_was_handed_in() -> None:
    task = update_task(HANDED_IN, submission=a_submission("Bob", OTHER_SHA, H2), rounds=(a_round(V1),))
    task = replace(task, submission=replace(task.submission, tree="other"))

    assert refusal_code(task, REJECT, LEAD, commit=SHA, tree=TREE) == "stale_review"


def test_work_is_not_approved_when_its_branch_has_gone_on_but_for_the_user() -> None:
    moved = {"commit": SHA, "head_tree": "another"}

    assert refusal_code(HANDED_IN, APPROVE, LEAD, **moved) == "head_moved"
    assert (
        refusal_code(HANDED_IN, APPROVE, actor("u", Role.USER, Role.LEAD, confined=True), **moved)
        == "head_moved"
    )
    assert decide_events(HANDED_IN, APPROVE, THE_USER, **moved)
    assert decide_events(HANDED_IN, APPROVE, LEAD, commit=SHA, head_tree=TREE)
    assert decide_events(HANDED_IN, APPROVE, LEAD, commit=SHA, head_tree="")
    assert decide_events(HANDED_IN, REJECT, LEAD, **moved), "saying no is always possible"


def test_code_that_is_rejected_still_is_not_approved_until_the_user_lets_it_pass() -> None:
    task = update_task(HANDED_IN, submission=a_submission("Bob", OTHER_SHA, H2), rounds=(a_round(V1),))
    other = update_task(task, rounds=(a_round(V1, tree="other"),))
    gone = a_round(reviews=(replace(a_round(V1).reviews[0], is_retracted=True),))

    assert refusal_code(task, APPROVE, LEAD, commit=OTHER_SHA) == "rejected_before"
    assert decide_events(other, APPROVE, LEAD, commit=OTHER_SHA)
    assert decide_events(update_task(task, rounds=(gone,)), APPROVE, LEAD, commit=OTHER_SHA)


# Asking for a review.


def test_a_reviewer_is_asked_once_for_what_was_handed_in() -> None:
    ask = c.RequestReview(task_id=T1, reviewer="Lead")

    (event,) = decide_events(HANDED_IN, ask, target=LEAD)

    assert event == ReviewRequested(task_id=T1, reviewer="Lead", commit=SHA)
    assert decide_events(update_task(HANDED_IN, requested=("Lead",)), ask, target=LEAD) == ()


def test_nobody_else_is_asked_for_a_review() -> None:
    ask = c.RequestReview(task_id=T1, reviewer="x")

    assert refusal_code(HANDED_IN, ask, target=BOB) == "bad_value"
    assert refusal_code(HANDED_IN, ask, target=None) == "bad_value"
    assert refusal_code(HANDED_IN, ask, target=actor("Alice", Role.LEAD)) == "own_work"
    assert refusal_code(SENT_BACK, ask, target=LEAD) == "nothing_to_review"


# What a forge tells besides.


def test_a_review_that_cannot_count_is_kept_once() -> None:
    ask = c.NoteReview(
        task_id=T1, reviewer="Eve", source="forge:1", why="no member", commit=SHA, findings=(NIT,)
    )

    (event,) = decide_events(HANDED_IN, ask, THE_COORDINATOR)

    assert event == ReviewNoted(
        task_id=T1, reviewer="Eve", source="forge:1", why="no member", commit=SHA, findings=(NIT,)
    )
    assert decide_events(update_task(HANDED_IN, sources=("forge:1",)), ask, THE_COORDINATOR) == ()


MERGED = c.NoteMerge(task_id=T1, by="Eve", commit=SHA, why="no gate passed it", source="forge:m1")


def test_work_that_was_merged_past_the_rules_is_brought_before_the_user_once() -> None:
    bypassed, asked = decide_events(HANDED_IN, MERGED, THE_COORDINATOR)

    assert bypassed == ReviewBypassed(
        task_id=T1, by="Eve", commit=SHA, why="no gate passed it", source="forge:m1"
    )
    assert isinstance(asked, EscalationOpened)
    assert asked.kind == "bypassed"
    assert decide_events(update_task(HANDED_IN, sources=("forge:m1",)), MERGED, THE_COORDINATOR) == ()


@pytest.mark.parametrize("status", sorted(TERMINAL | {Status.ESCALATED, Status.DECOMPOSED}))
def test_a_merge_past_the_rules_asks_nothing_where_nothing_can_be_asked(status: Status) -> None:
    (event,) = decide_events(replace(HANDED_IN, status=status), MERGED, THE_COORDINATOR)

    assert isinstance(event, ReviewBypassed)


# Feedback.


def test_the_holder_is_given_all_feedback_there_is_and_that_is_noted_once() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), feedback=3)
    ask = c.FetchFeedback(task_id=T1, agent="Bob")

    assert decide_events(task, ask, BOB) == (
        FeedbackFetched(task_id=T1, handoff_id=H2, agent="Bob", count=3),
    )
    assert decide_events(replace(task, claim=replace(a_claim("Bob", H2), read=3)), ask, BOB) == ()


@pytest.mark.parametrize("who", [LEAD, DIRECTOR, THE_USER], ids=["lead", "director", "user"])
def test_who_reviews_or_directs_may_look_at_feedback_of_others_and_no_receipt_is_given(who: Actor) -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), feedback=3)

    assert decide_events(task, c.FetchFeedback(task_id=T1, agent=who.name), who) == ()


@pytest.mark.parametrize(
    "who",
    [ALICE, Actor(name="nobody"), replace(THE_USER, confined=True)],
    ids=["agent", "stranger", "confined user"],
)
def test_what_an_agent_holds_no_other_agent_is_told(who: Actor) -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), feedback=3)
    ask = c.FetchFeedback(task_id=T1, agent=who.name)

    assert refusal_code(task, ask, who) == "not_yours"
    assert decide_events(task, ask, who, at=MUCH_LATER) == (), "nobody holds it any more"
    assert decide_events(replace(task, status=Status.REJECTED, claim=None), ask, who) == ()


def test_who_is_locked_out_is_not_given_the_feedback() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), feedback=3, lockouts=(a_lockout("Alice"),))

    assert refusal_code(task, c.FetchFeedback(task_id=T1, agent="Alice"), ALICE) == "locked_out"


@pytest.mark.parametrize("is_handoff", [True, False], ids=["complete", "submit"])
def test_nothing_is_handed_in_before_all_feedback_was_read(is_handoff: bool) -> None:
    ask: c.Command = c.SubmitTask(task_id=T1, agent="Bob", commit="HEAD")
    if is_handoff:
        ask = c.CompleteHandoff(handoff_id=H2, agent="Bob", commit="HEAD")
    claim = a_claim("Bob", H2)
    task = a_task(status=Status.CLAIMED, claim=replace(claim, read=1), feedback=2)

    assert refusal_code(task, ask, BOB, commit=OTHER_SHA, tree="t", gates=()) == "feedback_unread"
    read = replace(task, claim=replace(claim, read=2))
    assert decide_events(read, ask, BOB, commit=OTHER_SHA, tree="t", gates=())


# A rejected change that is handed in again.


@pytest.mark.parametrize(
    "work", [{"tree": TREE}, {"tree": "moved", "patch": "p1"}], ids=["the same code", "the same change"]
)
def test_a_rejected_change_is_not_handed_in_again_by_anyone(work: dict[str, str]) -> None:
    task = a_task(
        status=Status.CLAIMED, claim=a_claim("Bob", H2), rounds=(a_round(V1, patch="p1"),), feedback=0
    )
    ask = c.SubmitTask(task_id=T1, agent="Bob", commit="HEAD")
    released = GateState(is_released=True, commit=OTHER_SHA, tree=work["tree"])

    for known in (task, update_task(task, gates=released)):
        assert refusal_code(known, ask, BOB, commit=OTHER_SHA, gates=(), **work) == "not_measured"
    assert decide_events(task, ask, BOB, commit=OTHER_SHA, gates=(), tree="new", patch="p2")
    assert decide_events(task, ask, BOB, commit=OTHER_SHA, gates=(), tree="new", patch="")


def test_nothing_known_of_a_change_is_no_sameness() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), rounds=(a_round(V1, tree="", patch=""),))
    ask = c.SubmitTask(task_id=T1, agent="Bob", commit="HEAD")

    assert decide_events(task, ask, BOB, commit=OTHER_SHA, gates=(), tree="", patch="")


def test_a_change_whose_rejection_was_retracted_may_be_handed_in_again() -> None:
    gone = a_round(reviews=(replace(a_round(V1).reviews[0], is_retracted=True),))
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2), rounds=(gone,))

    ask = c.SubmitTask(task_id=T1, agent="Bob", commit="HEAD")

    assert decide_events(task, ask, BOB, commit=OTHER_SHA, gates=(), tree=TREE)


def test_a_second_review_of_the_same_work_keeps_its_author_out_by_itself_too() -> None:
    sent_back = task_after_review(review_rejected(), lockout_set())
    decided_of = decide_events(sent_back, REJECT_ALL, TESS, commit=SHA, review_id=V2)

    assert [event.review_id for event in decided_of if isinstance(event, LockoutSet)] == [V2]


def test_a_second_review_does_not_lock_out_whom_the_user_let_back() -> None:
    let_back = task_after_review(review_rejected(), lockout_set(), LockoutCleared(task_id=T1, agent="Alice"))
    decided_of = decide_events(let_back, REJECT_ALL, TESS, commit=SHA, review_id=V2)

    assert [type(event) for event in decided_of] == [ReviewRejected]


def test_each_rejection_by_the_command_has_an_id_of_its_own() -> None:
    """Only a forge's review has an id there; `reject-task` says the same of itself each time."""
    command = replace(REJECT, source="reject-task")
    ids = [rejection_of(HANDED_IN, ask=command, review_id=fresh).review_id for fresh in (V1, V2)]

    assert ids == [V1, V2]


LOOKED = Finding(path="roof.py", line=7, text="Every tile is nailed to two beams")
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
def test_an_agents_approval_says_what_it_looked_at(checked: tuple[Finding, ...], code: str) -> None:
    facts: dict[str, Any] = {"commit": SHA, "changed": ("roof.py",)}

    assert refusal_code(HANDED_IN, replace(APPROVE, checked=checked), REVIEWER, **facts) == code
    (approved,) = decide_events(HANDED_IN, replace(APPROVE, checked=(LOOKED,)), REVIEWER, **facts)
    assert isinstance(approved, ReviewApproved)
    assert approved.checked == (LOOKED,)


def test_a_person_need_not_say_what_they_looked_at_but_in_words_that_can_be_kept() -> None:
    assert [event.name for event in decide_events(HANDED_IN, APPROVE, LEAD, commit=SHA)] == ["review.approve"]
    wrong = replace(APPROVE, checked=(replace(LOOKED, line=-1),))
    assert refusal_code(HANDED_IN, wrong, LEAD, commit=SHA) == "bad_value"
