"""Holds that a no under a key which is not trusted has no effect, and yet nobody approves past it unasked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from remand.app.events.task_folds import rebuild_tables
from remand.app.inbox.decisions import open_questions
from remand.app.inbox.objections import MAX_LISTED, ObjectionQuestion, task_objections
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Member, Role, Team
from remand.domain.decisions.objections import DISMISS, DISMISS_ALL, MAX_ANSWERS
from remand.domain.events.event import Event
from remand.domain.events.reviews import (
    Finding,
    LockoutCleared,
    LockoutSet,
    ObjectionsDismissed,
    ReviewApproved,
    ReviewNoted,
    ReviewRejected,
)
from remand.domain.events.tasks import HandoffRejected, HandoffRejectionInvalid, TaskCancelled
from remand.domain.events.work import FindingRefused, GateErrored, GateHeld, GatePassed, GateRejected
from remand.domain.gate.verdict import GateStatus
from remand.domain.policy import Policy
from remand.domain.task import Status
from remand.testing.builders import MACHINE, Session
from remand.testing.fakes import FakeClock, FakeKeys
from tests.support.builders import FakeLedger, a_verdict, an_event

PROJECT = "0123456789abcdef"
STRANGER = FakeKeys("a stranger")
KEY = STRANGER.ensure_key().id
EARLIER, LATER = "2026-11-15T08:00:00.000000Z", "2026-11-15T09:05:00.000000Z"
WORK, TREE = "776f726b".ljust(40, "0"), "tree of work"
TEAM = Team(
    (
        Member(name="Alice"),
        Member(name="Bob"),
        Member(name="Lead", roles=(Role.LEAD,)),
        Member(name="owner", roles=(Role.USER,), aliases=("user",)),
    )
)


def rules(*trusted: FakeKeys, answer: str = "ask") -> Rules:
    keys = tuple(one.ensure_key() for one in (MACHINE, *trusted))
    return Rules(team=TEAM, gates=(), project=PROJECT, trusted=keys, policy=Policy(unconfirmed_no=answer))


def noes(task: str, commit: str = WORK, tree: str = TREE) -> dict[str, Event]:
    """One event of each kind that is a no."""
    verdict = replace(a_verdict(), commit=commit, tree=tree)
    claim = {"task_id": task, "handoff_id": "H-1", "agent": "Alice"}
    return {
        "review.reject": rejection(task, commit, tree),
        "lockout.set": LockoutSet(task_id=task, agent="Alice", reason="It leaks"),
        "handoff.reject": HandoffRejected(
            **claim, rejection_id="R-1", rejection={"reason_summary": "It leaks"}
        ),
        "gate.reject": GateRejected(**claim, verdict=replace(verdict, status=GateStatus.FAILED)),
        "gate.hold": GateHeld(**claim, verdict=replace(verdict, status=GateStatus.HELD)),
        "gate.refuse": FindingRefused(task_id=task, finding="c0ffee001122", reviewer="Lead"),
    }


def rejection(task: str, commit: str = WORK, tree: str = TREE, text: str = "It leaks") -> ReviewRejected:
    return ReviewRejected(
        task_id=task, reviewer="Lead", commit=commit, tree=tree, findings=(Finding(text=text),)
    )


class Reviewed:
    """A ledger with work under review, and strangers who say no of it."""

    def __init__(self, answer: str = "ask") -> None:
        self.world = FakeLedger(rules=rules(answer=answer))
        self.files = 0
        self.task = self.world.add("Mend the roof")
        self.world.claim(self.task)
        self.world.submit(self.task)

    def read_in(self, *events: Event, keys: FakeKeys | None = STRANGER, at: str = EARLIER) -> None:
        """Somebody's events come with a branch."""
        self.files += 1
        name = f"20261115-090000-{self.files:08x}"
        session = Session(name, FakeClock(at), keys=keys, project=PROJECT)
        for event in events:
            session.write(event, actor="Lead")
        self.world.exchange.put(f"/events/{name}.jsonl", session.lines)
        self.world.ledger.refresh()

    def trust(self, *keys: FakeKeys) -> None:
        self.world.rules = replace(self.world.rules, trusted=rules(*keys).trusted)
        self.world.ledger.refresh()

    def approve(self, by: str = "Lead") -> Status:
        return self.world.ask(c.ApproveReview(task_id=self.task, commit="work"), by).task.status

    def waits(self, by: str = "Lead", commit: str = "work") -> str:
        """The message by which an approval is told to wait."""
        refused = self.world.refusal(c.ApproveReview(task_id=self.task, commit=commit), by)
        assert refused.code == "unconfirmed_no"
        return refused.message

    def dismiss(self, key: str = KEY, by: str = "owner") -> tuple[Event, ...]:
        ask = c.DismissObjections(task_id=self.task, signer=key, reason="Not one of us")
        return self.world.ask(ask, by).events

    def questions(self) -> list[ObjectionQuestion]:
        with self.world.store.read() as view:
            found = open_questions(view, self.world.rules)
        return [one for one in found if isinstance(one, ObjectionQuestion)]

    def hand_in_again(self, commit: str) -> None:
        """Other work is handed in for the task, after a rejection that counts."""
        finding = (Finding(text="Not yet"),)
        ask = c.RejectReview(
            task_id=self.task, commit=self.commit, findings=finding, source=f"forge:{commit}"
        )
        self.world.ask(ask, "Lead")
        task = self.world.task(self.task)
        agent = "Bob" if task.is_locked_out("Alice") else "Alice"
        self.world.claim(self.task, agent)
        self.world.submit(self.task, agent, commit)

    @property
    def commit(self) -> str:
        submission = self.world.task(self.task).submission
        assert submission is not None
        return submission.commit


@pytest.fixture
def reviewed() -> Reviewed:
    return Reviewed()


# What waits.


@pytest.mark.parametrize("kind", list(noes("T-1")))
def test_an_approval_waits_for_the_user_when_an_untrusted_key_says_no(reviewed: Reviewed, kind: str) -> None:
    reviewed.read_in(noes(reviewed.task)[kind])

    assert KEY in reviewed.waits()
    assert reviewed.world.task(reviewed.task).status == Status.PROVISIONAL
    (asked,) = reviewed.questions()
    assert (asked.task_id, asked.signer, [one.key for one in asked.options]) == (
        reviewed.task,
        KEY,
        [DISMISS],
    )

    reviewed.dismiss()

    assert reviewed.questions() == []
    assert reviewed.approve() == Status.DONE


@pytest.mark.parametrize(
    "event",
    [
        HandoffRejectionInvalid,
        GateErrored,
        GatePassed,
        ReviewApproved,
        ReviewNoted,
        LockoutCleared,
        TaskCancelled,
    ],
)
def test_what_is_no_no_asks_nobody(reviewed: Reviewed, event: type[Event]) -> None:
    reviewed.read_in(replace(an_event(event), task_id=reviewed.task))  # type: ignore[call-arg]

    assert reviewed.questions() == []
    assert reviewed.approve() == Status.DONE


def test_a_no_of_other_work_is_shown_and_keeps_nothing_from_being_approved(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task, commit="1" * 40, tree="another tree"))

    assert len(reviewed.questions()) == 1
    assert reviewed.approve() == Status.DONE


def test_a_no_that_names_a_commit_without_its_tree_counts_for_that_commit(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task, tree=""))
    assert reviewed.waits()


def test_a_no_that_names_another_commit_without_its_tree_holds_nothing_up(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task, "1" * 40, tree=""))
    assert reviewed.approve() == Status.DONE


def test_the_same_tree_under_another_commit_waits_too(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task, commit="1" * 40))
    assert reviewed.waits()


@pytest.mark.parametrize("who", ["Lead", "owner"])
def test_the_user_is_asked_as_well_as_any_reviewer(reviewed: Reviewed, who: str) -> None:
    reviewed.read_in(rejection(reviewed.task))
    assert "inbox answer" in reviewed.waits(who)


def test_the_lockout_that_follows_from_a_rejection_concerns_the_rejected_work_alone(
    reviewed: Reviewed,
) -> None:
    said = replace(rejection(reviewed.task, "1" * 40, "another tree"), review_id="V-1")
    reviewed.read_in(said, LockoutSet(task_id=reviewed.task, agent="Alice", review_id="V-1"))

    assert len(reviewed.questions()) == 1
    assert reviewed.approve() == Status.DONE


@pytest.mark.parametrize("keys", [None, "forged"], ids=["unsigned", "wrong signature"])
def test_words_that_no_key_answers_for_are_no_questions(reviewed: Reviewed, keys: str | None) -> None:
    """They are in `task show`, `log verify` and `keys`; nobody could be trusted for them, or dismissed."""
    if keys is None:
        reviewed.read_in(rejection(reviewed.task), keys=None)
    else:
        session = Session("20261115-090000-000000aa", keys=MACHINE, project="another project")
        session.write(rejection(reviewed.task))
        reviewed.world.exchange.put("/events/wrong.jsonl", session.lines)
        reviewed.world.ledger.refresh()

    assert reviewed.questions() == []
    assert reviewed.approve() == Status.DONE


def test_an_answer_that_accepts_a_merge_waits_too(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task))
    merge = c.NoteMerge(
        task_id=reviewed.task, by="Lead", commit=WORK, why="nobody did", source=f"github:merge-1@{WORK}"
    )
    reviewed.world.ledger.ask_as(THE_COORDINATOR, merge)
    accept = c.AnswerEscalation(task_id=reviewed.task, option="accept")

    assert reviewed.world.refusal(accept, "owner").code == "unconfirmed_no"
    reviewed.dismiss()
    assert reviewed.world.ask(accept, "owner").task.status == Status.DONE


# What ends it.


def test_a_key_that_is_trusted_later_needs_no_answer_and_its_no_counts(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task), at=LATER)
    reviewed.trust(STRANGER)

    assert reviewed.questions() == []
    assert reviewed.world.task(reviewed.task).status == Status.REJECTED


def test_a_key_that_is_trusted_no_more_is_asked_about(reviewed: Reviewed) -> None:
    reviewed.trust(STRANGER)
    reviewed.read_in(LockoutSet(task_id=reviewed.task, agent="Alice"))
    assert reviewed.questions() == []

    reviewed.trust()

    assert [one.signer for one in reviewed.questions()] == [KEY]
    assert reviewed.waits()


def test_nobody_is_asked_about_a_task_that_has_ended_or_that_there_is_not(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task), rejection("T-unheard-of"))
    reviewed.world.ask(c.CancelTask(task_id=reviewed.task))

    assert reviewed.questions() == []
    with reviewed.world.store.read() as view:
        (shown,) = task_objections(view, view.tasks.get(reviewed.task)).shown
    assert (shown.is_open, shown.is_dismissed) == (False, False)


# The answer.


def test_the_answer_is_an_event_with_its_actor_its_reason_and_what_it_is_about(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task))

    (dismissed,) = reviewed.dismiss()

    assert isinstance(dismissed, ObjectionsDismissed)
    assert (dismissed.meta.actor, dismissed.reason) == ("owner", "Not one of us")
    assert (dismissed.signer, dismissed.works) == (KEY, (TREE,))
    with reviewed.world.store.write() as tx:
        rebuild_tables(tx)
    assert reviewed.approve() == Status.DONE


@pytest.mark.parametrize("who", ["Alice", "Lead", "stranger"])
def test_nobody_but_the_user_answers(reviewed: Reviewed, who: str) -> None:
    reviewed.read_in(rejection(reviewed.task))
    ask = c.DismissObjections(task_id=reviewed.task, signer=KEY, reason="x")

    assert reviewed.world.refusal(ask, who).code == "user_only"
    assert reviewed.world.refusal(ask, "owner", confined=True).code == "user_only"
    assert reviewed.waits()


def test_an_answer_has_a_reason_and_something_to_answer(reviewed: Reviewed) -> None:
    ask = c.DismissObjections(task_id=reviewed.task, signer=KEY, reason="x")
    assert reviewed.world.refusal(ask, "owner").code == "nothing_to_answer"
    reviewed.read_in(rejection(reviewed.task))
    assert reviewed.world.refusal(replace(ask, reason=" "), "owner").code == "bad_value"
    other = replace(ask, signer=FakeKeys("another").ensure_key().id)
    assert reviewed.world.refusal(other, "owner").code == "nothing_to_answer"
    reviewed.world.ask(ask, "owner")
    assert reviewed.world.refusal(ask, "owner").code == "nothing_to_answer"


def test_a_no_that_was_answered_never_asks_again_however_often_it_comes(reviewed: Reviewed) -> None:
    reviewed.read_in(*noes(reviewed.task).values())
    reviewed.dismiss()

    for kind in noes(reviewed.task):
        reviewed.read_in(noes(reviewed.task)[kind])

    assert reviewed.questions() == []
    assert reviewed.approve() == Status.DONE


def test_another_key_asks_for_an_answer_of_its_own(reviewed: Reviewed) -> None:
    other = FakeKeys("another stranger")
    reviewed.read_in(rejection(reviewed.task))
    reviewed.read_in(rejection(reviewed.task), keys=other)

    reviewed.dismiss()
    assert other.ensure_key().id in reviewed.waits()
    reviewed.dismiss(other.ensure_key().id)
    assert reviewed.approve() == Status.DONE


def test_other_work_is_asked_about_again_but_not_for_ever(reviewed: Reviewed) -> None:
    reviewed.world.rules = replace(
        reviewed.world.rules,
        policy=Policy(lockout_after=0, escalate_after_reviews=99, unconfirmed_no="ask"),
    )
    reviewed.read_in(rejection(reviewed.task))
    reviewed.dismiss()
    for number in range(MAX_ANSWERS - 1):
        reviewed.hand_in_again(f"again {number}")
        reviewed.read_in(rejection(reviewed.task, reviewed.commit, f"tree of again {number}"))
        assert reviewed.waits(commit=f"again {number}")
        reviewed.dismiss()

    reviewed.hand_in_again("last")
    reviewed.read_in(rejection(reviewed.task, reviewed.commit, "tree of last"))

    assert reviewed.questions() == []
    with reviewed.world.store.read() as view:
        (shown,) = task_objections(view, view.tasks.get(reviewed.task)).shown
    assert (shown.signer, shown.is_open) == (KEY, False)
    done = reviewed.world.ask(c.ApproveReview(task_id=reviewed.task, commit="last"), "Lead")
    assert done.task.status == Status.DONE


def test_a_no_dated_before_the_answer_that_comes_after_it_still_asks(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task, "1" * 40, "another tree"))
    reviewed.dismiss()
    reviewed.read_in(rejection(reviewed.task))
    assert reviewed.waits()


# Floods.


def test_a_flood_of_keys_is_listed_in_part_and_answered_at_once(reviewed: Reviewed) -> None:
    other = reviewed.world.add("Another")
    many = [FakeKeys(f"stranger {number}") for number in range(MAX_LISTED + 10)]
    for keys in many:
        reviewed.read_in(
            rejection(reviewed.task), rejection(reviewed.task, "1" * 40, keys.ensure_key().id), keys=keys
        )
    reviewed.read_in(LockoutSet(task_id=other, agent="Alice"), keys=STRANGER)

    *listed, rest = reviewed.questions()
    assert len(listed) == MAX_LISTED
    assert (rest.options, "11 more" in rest.question) == ((), True)
    assert other in {one.task_id for one in listed}, "a flood on one task leaves room for the others"
    assert DISMISS_ALL in {option.key for option in listed[0].options}

    reviewed.dismiss("")

    assert [one.task_id for one in reviewed.questions()] == [other]
    late = FakeKeys("one more")
    reviewed.read_in(rejection(reviewed.task), keys=late, at=LATER)
    assert reviewed.approve() == Status.DONE, "the user has answered for this work"


def test_after_an_answer_to_all_a_no_of_other_work_asks_again(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task))
    reviewed.dismiss("")
    reviewed.hand_in_again("again")
    said = rejection(reviewed.task, reviewed.commit, "tree of again")
    reviewed.read_in(said, keys=FakeKeys("new"), at=LATER)

    assert reviewed.waits(commit="again")


def test_a_key_that_says_very_much_is_one_item_of_bounded_length(reviewed: Reviewed) -> None:
    reviewed.read_in(*(rejection(reviewed.task, text="x" * 5000) for _ in range(50)))

    (asked,) = reviewed.questions()

    assert asked.events == 50
    assert len(asked.question) < 3000


def test_what_strangers_say_is_shown_without_what_a_terminal_could_obey(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task, text="\x1b[2Jno\u202e\nremand keys trust me"))

    (asked,) = reviewed.questions()

    assert not {"\x1b", "\n", "\u202e"} & set(asked.question + reviewed.waits())
    assert "no" in asked.question


# The policy.


def test_where_the_policy_ignores_them_nothing_waits_and_nobody_is_asked() -> None:
    reviewed = Reviewed("ignore")
    reviewed.read_in(*noes(reviewed.task).values())

    assert reviewed.questions() == []
    with reviewed.world.store.read() as view:
        assert task_objections(view, view.tasks.get(reviewed.task)).shown, "they can still be looked at"
    assert reviewed.approve() == Status.DONE


def test_a_confined_reviewer_is_told_who_has_to_answer(reviewed: Reviewed) -> None:
    reviewed.read_in(rejection(reviewed.task))
    checked = (Finding(text="the roof is tight now", path="roof.py", line=1),)
    ask = c.ApproveReview(task_id=reviewed.task, commit="work", checked=checked)

    refused = reviewed.world.refusal(ask, "Lead", confined=True)

    assert (refused.code, "the user" in refused.message) == ("unconfirmed_no", True)


@pytest.mark.parametrize("no", noes("x"))
def test_a_no_behind_the_end_of_a_key_is_an_objection_like_that_of_any_key(no: str) -> None:
    reviewed = Reviewed()
    reviewed.world.rules = replace(
        reviewed.world.rules, trusted=(MACHINE.ensure_key(), replace(STRANGER.ensure_key(), until=()))
    )
    reviewed.world.ledger.refresh()

    reviewed.read_in(noes(reviewed.task)[no])

    assert KEY in reviewed.waits()
    (question,) = reviewed.questions()
    assert question.signer == KEY
    reviewed.dismiss()
    assert reviewed.approve() is Status.DONE


def test_a_no_becomes_an_objection_when_its_key_is_revoked() -> None:
    reviewed = Reviewed()
    reviewed.trust(STRANGER)
    reviewed.read_in(LockoutSet(task_id=reviewed.task, agent="Bob"))
    assert reviewed.questions() == []

    reviewed.world.rules = replace(
        reviewed.world.rules, trusted=(MACHINE.ensure_key(), replace(STRANGER.ensure_key(), until=()))
    )
    reviewed.world.ledger.refresh()

    assert [one.signer for one in reviewed.questions()] == [KEY]
