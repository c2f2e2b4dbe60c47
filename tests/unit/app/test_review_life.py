"""Holds whole stories of reviews: who says no under which name, and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from remand.app.ports import CommitDifference
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Role, Team
from remand.domain.decisions.findings import find_rejected_change, hold_for_rejected_change
from remand.domain.events.reviews import Finding
from remand.domain.policy import Policy
from remand.domain.task import Status
from tests.support.builders import LEAKS, FakeLedger, a_verdict, member, send_back

TEAM = Team(
    (
        member("Alice", Role.AGENT, Role.LEAD, aliases=("al",), accounts=("alice-on-the-forge",)),
        member("Bob", aliases=("robert",)),
        member("Carol", skills=("accessibility",)),
        member("Lea", Role.LEAD, aliases=("le",), accounts=("lea-on-the-forge",)),
        member("Tess", Role.TESTER),
        member("owner", Role.USER),
    )
)
ALONE = Team((member("Alice"), member("Lea", Role.LEAD), member("owner", Role.USER)))


def a_world(team: Team = TEAM, **policy: Any) -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), team=team, policy=Policy(**policy), base="base"))


def replace_capacity(team: Team, **capacities: int) -> Team:
    return Team(tuple(replace(one, capacity=capacities.get(one.name, one.capacity)) for one in team.members))


def handed_in(world: FakeLedger, by: str = "Alice", commit: str = "work") -> str:
    task = world.add()
    world.claim(task, by)
    world.submit(task, by, commit)
    return task


def rejecting(task: str, commit: str = "work", source: str = "", text: str = "It leaks") -> c.RejectReview:
    return c.RejectReview(task_id=task, commit=commit, findings=(Finding(text=text),), source=source)


# Under which name.


@pytest.mark.parametrize("name", ["Alice", "al", "alice-on-the-forge"])
@pytest.mark.parametrize("kind", [c.ApproveReview, c.RejectReview])
def test_nobody_reviews_their_own_work_under_any_name(name: str, kind: type[c.ApproveReview]) -> None:
    world = a_world()
    task = handed_in(world, "al")

    assert world.refusal(kind(task_id=task, commit="work"), name).code == "own_work"


@pytest.mark.parametrize("name", ["al", "alice-on-the-forge"])
def test_a_lockout_holds_under_any_name(name: str) -> None:
    world = a_world()
    task = handed_in(world, name)
    world.ask(rejecting(task), "lea-on-the-forge")

    assert [lockout.agent for lockout in world.task(task).people.lockouts] == ["Alice"]
    for one in ("Alice", "al", "alice-on-the-forge"):
        assert world.refusal(c.ClaimTask(agent=one, task_id=task), one).code == "locked_out"
        assert world.refusal(c.ReassignTask(task_id=task, target=one)).code == "locked_out"
    world.ask(c.Unlock(task_id=task, agent=name, reason="Taught"), "owner")
    assert world.task(task).people.lockouts == ()


def test_a_reviewers_rejection_is_its_own_under_any_name() -> None:
    world = a_world()
    task = handed_in(world)
    world.ask(rejecting(task), "lea-on-the-forge")

    assert world.task(task).people.reviewers == ("Lea",)
    world.ask(c.RetractReview(task_id=task, reason="It was right"), "le")
    assert world.task(task).status == Status.PROVISIONAL


def test_an_answer_names_an_agent_by_any_name() -> None:
    world = a_world(escalate_after_reviews=1)
    task = handed_in(world)
    world.ask(rejecting(task), "Lea")

    world.ask(c.AnswerEscalation(task_id=task, option="unlock:al"), "owner")

    assert [offer.target for offer in world.task(task).claims.offers] == ["Alice"]


# What follows.


def test_a_component_rejected_for_accessibility_is_finished_by_the_colleague_with_the_skill() -> None:
    world = a_world()
    task = handed_in(world)
    world.ask(rejecting(task, text="Accessibility issues"), "Lea")

    assert world.refusal(c.ClaimTask(agent="Alice", task_id=task), "Alice").code == "locked_out"
    assert world.refusal(c.ClaimTask(agent="Bob", task_id=task), "Bob").code == "waits_on_other"
    assert world.claim(task, "Carol").claim is not None
    unread = c.SubmitTask(task_id=task, agent="Carol", commit=world.repository.add("better"))
    assert world.refusal(unread, "Carol").code == "feedback_unread"
    world.submit(task, "Carol", "better")
    assert world.ask(c.ApproveReview(task_id=task, commit="better"), "Lea").task.status == Status.DONE


def passed_to(world: FakeLedger, text: str = "It leaks") -> str:
    """Who goes on with a task of Alice's that is rejected now."""
    commit = f"work {len(world.tasks())}"
    task = handed_in(world, commit=commit)
    return world.ask(rejecting(task, commit, text=text), "Lea").task.claims.offers[-1].target


def test_rework_goes_to_whom_has_the_most_room() -> None:
    world = a_world(replace_capacity(TEAM, Carol=2))

    assert [passed_to(world) for _ in range(3)] == ["Carol", "Bob", "Carol"], "what is reserved is in hand"
    world.clock.advance(Policy().lease_seconds)
    world.claim(world.add(), "Carol")
    world.claim(world.add(), "Carol")
    assert passed_to(world) == "Bob"


def test_who_is_busy_is_known_by_any_of_its_names() -> None:
    world = a_world(replace_capacity(TEAM, Bob=2))
    world.claim(world.add(), "robert")
    world.claim(world.add(), "Bob")

    assert passed_to(world) == "Carol"


def test_the_skill_comes_before_the_room() -> None:
    world = a_world()
    world.claim(world.add(), "Carol")

    assert passed_to(world, "Accessibility issues") == "Carol"


def test_the_third_rejection_asks_the_user_who_lets_an_agent_back_with_guidance() -> None:
    world = a_world()
    task = world.add()
    for agent in ("Alice", "Bob"):
        send_back(world, task, agent, f"{agent}'s", "Lea")
        world.clock.advance(1801)
    found = send_back(world, task, "Carol", "Carol's", "Lea")

    assert found.inbox.escalation is not None
    assert (found.status, found.inbox.escalation.kind, found.reviews.rejection_count) == (
        Status.ESCALATED,
        "reviews",
        3,
    )
    world.ask(c.Unlock(task_id=task, agent="Bob", reason="Once more", guidance="Look twice"), "owner")
    assert world.refusal(c.ClaimTask(agent="Alice", task_id=task), "Alice").code == "locked_out"
    claim = world.claim(task, "Bob").claim
    assert claim is not None
    assert world.task(task).reviews.feedback == 4, "the guidance is to be read as well"


def test_in_a_deadlock_the_user_mends_it_by_hand_and_may_approve_that() -> None:
    world = a_world(ALONE)
    task = handed_in(world)
    found = world.ask(rejecting(task), "Lea").task
    assert found.inbox.escalation is not None
    assert (found.status, found.inbox.escalation.kind) == (Status.ESCALATED, "deadlock")

    world.ask(c.AnswerEscalation(task_id=task, option="fix"), "owner")
    world.clock.advance(6 * 86_400)
    world.submit(task, "owner", "mended")

    assert world.ask(c.ApproveReview(task_id=task, commit="mended"), "owner").task.status == Status.DONE


def test_the_users_own_fix_is_rejected_without_locking_the_user_out() -> None:
    world = a_world(ALONE)
    task = handed_in(world)
    world.ask(rejecting(task), "Lea")
    world.ask(c.AnswerEscalation(task_id=task, option="fix"), "owner")
    world.submit(task, "owner", "mended")

    found = world.ask(rejecting(task, "mended"), "Lea").task

    assert not found.is_locked_out("owner")
    assert found.status == Status.ESCALATED
    assert world.ask(c.AnswerEscalation(task_id=task, option="fix"), "owner").task.claim is not None


def test_the_same_review_seen_a_hundred_times_is_one_rejection() -> None:
    world = a_world()
    task = handed_in(world)
    for _ in range(100):
        world.ask(rejecting(task, source="forge:1"), "Lea")
    world.claim(task, "Bob")
    world.ask(rejecting(task, source="forge:1"), "Lea")
    world.submit(task, "Bob", "better")
    world.ask(rejecting(task, "better", source="forge:1"), "Lea")

    assert world.task(task).status == Status.PROVISIONAL
    assert world.task(task).reviews.rejection_count == 1
    names = [event.name for event in world.events()]
    assert (names.count("review.reject"), names.count("lockout.set")) == (1, 1)


def test_a_review_that_was_retracted_is_not_counted_when_it_is_seen_again() -> None:
    world = a_world()
    task = handed_in(world)
    world.ask(rejecting(task, source="forge:1"), "Lea")
    world.ask(c.RetractReview(task_id=task, reason="It was right"), "Lea")
    world.ask(rejecting(task, source="forge:1"), "Lea")

    found = world.task(task)

    assert (found.status, found.reviews.rejection_count, found.people.lockouts) == (Status.PROVISIONAL, 0, ())


def test_a_question_nobody_saw_is_repeated_at_its_deadline_and_not_once_it_was_seen() -> None:
    world = a_world(ALONE, deadline_seconds=3600.0)
    task = handed_in(world)
    world.ask(rejecting(task), "Lea")

    def repeats() -> int:
        world.ledger.ask_all([])
        escalation = world.task(task).inbox.escalation
        return escalation.repeats if escalation else -1

    assert repeats() == 0
    world.clock.advance(3601)
    assert (repeats(), repeats()) == (1, 1)
    world.clock.advance(3601)
    assert repeats() == 2
    world.ask(c.AcknowledgeEscalation(task_id=task), "owner")
    world.clock.advance(99_999)
    assert repeats() == 2


def test_who_reviews_what_depends_on_what_the_commit_changes() -> None:
    world = a_world()
    task = handed_in(world)
    sha = world.repository.add("work")
    approve = c.ApproveReview(task_id=task, commit="work")

    world.repository.differences[sha] = CommitDifference(("src/roof.py",), "p1")
    assert world.refusal(approve, "Tess").code == "out_of_scope"
    world.repository.differences[sha] = CommitDifference(("tests/test_roof.py",), "p1")
    assert world.ask(approve, "Tess").task.status == Status.DONE


def test_what_was_pushed_during_a_review_is_not_approved_with_it() -> None:
    world = a_world()
    task = world.add(branch="roof")
    world.claim(task)
    world.submit(task)
    world.repository.add("refs/heads/roof", tree="pushed since")

    assert world.refusal(c.ApproveReview(task_id=task, commit="work"), "Lea").code == "head_moved"
    world.repository.add("refs/heads/roof", tree="tree of work")
    assert world.ask(c.ApproveReview(task_id=task, commit="work"), "Lea").task.status == Status.DONE


def test_one_review_of_a_forge_about_two_tasks_is_a_review_of_each() -> None:
    world = a_world()
    tasks = [handed_in(world, commit=name) for name in ("roof", "wall")]
    for task, commit in zip(tasks, ("roof", "wall"), strict=True):
        world.ask(replace(rejecting(task, commit), source="forge:1", findings=(LEAKS,)), "Lea")

    ids = {world.task(task).reviews.rounds[0].reviews[0].id for task in tasks}

    assert len(ids) == 2


# A rejected change that is handed in again.


def held_again(world: FakeLedger) -> tuple[str, str]:
    """A task whose rejected change another agent hands in once more, and the finding that holds it."""
    task = handed_in(world)
    world.ask(rejecting(task), "Lea")
    world.claim(task, "Bob")
    assert hold(world, task, "Bob", "copied")
    return task, world.task(task).gates.held[0]


def hold(world: FakeLedger, task: str, agent: str, commit: str) -> str:
    """Has an agent's commit measured that has the code of the first one; returns what it is held for."""
    sha = world.repository.add(commit, tree="tree of work")
    world.ask(c.FetchFeedback(task_id=task, agent=agent), agent)
    ask = c.SubmitTask(task_id=task, agent=agent, commit=commit)
    code = world.refusal(ask, agent).code
    name = find_rejected_change(world.task(task), "tree of work", "")
    verdict = hold_for_rejected_change(a_verdict(commit=sha, tree="tree of work"), name)
    world.ledger.ask_as(THE_COORDINATOR, c.RecordVerdict(task_id=task, agent=agent, verdict=verdict))
    return name if code == "not_measured" and world.task(task).gates.held == (name,) else ""


def test_a_rejected_change_handed_in_by_another_agent_waits_for_the_user_alone() -> None:
    world = a_world()
    task, name = held_again(world)
    accept = c.SettleFinding(task_id=task, finding=name, is_accepted=True)

    assert world.refusal(accept, "Lea").code == "user_only"
    assert world.refusal(accept, "owner", confined=True).code == "user_only"
    assert world.task(task).open_escalation is not None
    assert world.ask(accept, "owner").task.status == Status.REJECTED
    world.claim(task, "Bob")
    world.ask(c.FetchFeedback(task_id=task, agent="Bob"), "Bob")
    found = world.ask(c.SubmitTask(task_id=task, agent="Bob", commit="copied"), "Bob").task
    assert found.submission is not None
    assert found.submission.agent == "Bob"
    assert world.ask(c.ApproveReview(task_id=task, commit="copied"), "Lea").task.status == Status.DONE


def test_a_reviewer_may_refuse_it() -> None:
    world = a_world()
    task, name = held_again(world)

    world.ask(c.SettleFinding(task_id=task, finding=name, is_accepted=False, reason="Again"), "Lea")

    assert world.task(task).status == Status.ESCALATED
    assert dict(world.task(task).gates.decisions.refused) == {name: "Again"}


def test_what_the_user_let_pass_once_and_was_rejected_again_waits_for_the_user_again() -> None:
    world = a_world()
    task, name = held_again(world)
    world.ask(c.SettleFinding(task_id=task, finding=name, is_accepted=True), "owner")
    world.claim(task, "Bob")
    world.ask(c.FetchFeedback(task_id=task, agent="Bob"), "Bob")
    world.ask(c.SubmitTask(task_id=task, agent="Bob", commit="copied"), "Bob")
    world.ask(rejecting(task, "copied"), "Lea")
    world.claim(task, "Carol")

    again = hold(world, task, "Carol", "copied once more")

    assert again
    assert again != name


def test_the_same_change_is_known_on_other_code_by_its_patch() -> None:
    world = a_world()
    task = handed_in(world)
    first, moved = world.repository.add("work"), world.repository.add("moved")
    for sha in (first, moved):
        world.repository.differences[sha] = CommitDifference(("roof.py",), "p1")
    world.ask(rejecting(task), "Lea")
    world.claim(task, "Bob")
    world.ask(c.FetchFeedback(task_id=task, agent="Bob"), "Bob")

    ask = c.SubmitTask(task_id=task, agent="Bob", commit="moved")

    assert world.task(task).reviews.rounds[0].patch == "p1"
    assert world.refusal(ask, "Bob").code == "not_measured"
    world.repository.differences[moved] = CommitDifference(("roof.py",), "p2")
    assert world.ask(ask, "Bob").task.status == Status.PROVISIONAL
