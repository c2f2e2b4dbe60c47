"""The story of a task, followed event by event and held against an account of its own.

The account is kept from the events alone and knows none of the rules' code: what was handed in last, which
rejections stand, and why each agent is locked out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from remand.domain.events.event import Event
from remand.domain.events.reviews import (
    LockoutCleared,
    LockoutSet,
    ReviewApproved,
    ReviewRejected,
    ReviewRetracted,
)
from remand.domain.events.tasks import HandoffCompleted, TaskSubmitted
from remand.domain.events.work import FindingAccepted
from remand.domain.evolve import evolve
from remand.domain.task import Status, Task

OWNER = "owner"
OWN_WORD, INHERITED, OWN_REJECTION = "somebody's own word", "a task above", "its own rejection "


class Broken(AssertionError):  # noqa: N818 - what was to be shown is broken
    """Something that must hold did not."""


def require(holds: bool, what: str, about: Any) -> None:
    """Fails with what is broken, and on what."""
    if not holds:
        raise Broken(f"{what}: {about}")


class Work(NamedTuple):
    """What was handed in."""

    commit: str
    tree: str
    handoff: str
    agent: str


class Rejection(NamedTuple):
    """A review that sent work back."""

    work: Work
    turn: str
    """Which time it was that something was under review."""


class Account:
    """What the events say of reviews and lockouts."""

    def __init__(self) -> None:
        self.work: Work | None = None
        self.turn = 0
        self.standing: dict[str, Rejection] = {}
        self.reasons: dict[str, set[str]] = {}
        """Why each agent is locked out: the review, or somebody's own word."""
        self.turns: dict[str, str] = {}
        self.let_pass: set[str] = set()

    def note(self, event: Event, before: Task, after: Task) -> None:
        """Takes an event into the account; `before` and `after` say whether it applied, no more."""
        match event:
            case TaskSubmitted() | HandoffCompleted() if after.submission != before.submission:
                self._handed_in(event)
            case ReviewApproved() if after.status == Status.DONE != before.status:
                self._approved(event, after)
            case ReviewRejected() if _reviews(after) != _reviews(before):
                self._rejected(event)
            case ReviewRejected():
                self._not_counted(event, before)
            case ReviewRetracted():
                self._retracted(event.review_id)
                self._looked_at_again(event, before, after)
            case LockoutSet() if not self._is_taken_back(event.review_id):
                own = f"{OWN_REJECTION}{event.rejection_id}" if event.rejection_id else OWN_WORD
                reason = event.review_id or (INHERITED if event.inherited_from else own)
                self.reasons.setdefault(event.agent, set()).add(reason)
            case LockoutCleared():
                self._cleared(event)
            case FindingAccepted():
                require(event.reviewer == OWNER, "not the user let rejected work pass", event)
                self.let_pass.add(event.finding)
            case _:
                pass
        if after.status == Status.PROVISIONAL != before.status:
            self.turn += 1

    def _handed_in(self, event: TaskSubmitted | HandoffCompleted) -> None:
        require(event.agent not in self.locked, "work of a locked-out agent was taken", event)
        self.work = Work(event.commit, event.tree, event.handoff_id, event.agent)

    def _approved(self, event: ReviewApproved, task: Task) -> None:
        work = self.work
        require(work is not None, "nothing was handed in, and it was approved", event)
        assert work is not None
        is_same = (
            (event.commit, event.tree)
            == (work.commit, work.tree)
            == (task.reviews.approved_commit, work.tree)
        )
        require(is_same, "an approval counted for another commit", (event, work))
        named = [one for one in self.standing.values() if one.work.tree == work.tree]
        require(not named or bool(self.let_pass), "rejected code was approved", (event, named))

    def _rejected(self, event: ReviewRejected) -> None:
        """Of the work handed in last, or of some that a merge has undone: a no is believed."""
        work, turn = self.work, str(self.turn)
        if work is None or (work.commit != event.commit and work.tree != event.tree):
            require(bool(event.author and event.handoff_id), "a rejection of nobody's work counted", event)
            work, turn = Work(event.commit, event.tree, event.handoff_id, event.author), event.review_id
            same = [one.turn for one in self.standing.values() if one.work[1:3] == work[1:3]]
            turn = same[-1] if same else turn
        self.standing[event.review_id] = Rejection(work, turn)
        self.turns[event.review_id] = turn

    def _not_counted(self, event: ReviewRejected, task: Task) -> None:
        """A rejection of what was handed in last counts, whatever happened meanwhile, unless the task has ended."""
        is_about = self.work is not None and self.work.tree == event.tree
        is_repeated = event.source in task.reviews.sources
        has_ended = task.is_terminal and not task.reviews.approved_commit
        require(not is_about or is_repeated or has_ended, "a rejection was lost", (event, task))

    def _retracted(self, review_id: str) -> None:
        """With the last review of its turn, a rejection takes the lockouts along that follow from it."""
        found = self.standing.pop(review_id, None)
        if found is None or any(one.turn == found.turn for one in self.standing.values()):
            return
        taken_back = {name for name, turn in self.turns.items() if turn == found.turn}
        for agent in list(self.reasons):
            self.reasons[agent] -= taken_back

    def _looked_at_again(self, event: ReviewRetracted, before: Task, after: Task) -> None:
        """A retraction puts work under review again only when no other rejection of it stands."""
        is_again = after.status == Status.PROVISIONAL != before.status
        named = [one for one in self.standing.values() if one.work == self.work]
        require(not (is_again and named), "rejected work is under review again", (event, named))

    def _cleared(self, event: LockoutCleared) -> None:
        """The user ends a lockout for whatever reason; what follows from elsewhere ends that reason alone."""
        left = self.reasons.get(event.agent, set())
        if event.inherited_from:
            left.discard(INHERITED)
        elif event.rejection_id:
            left.discard(f"{OWN_REJECTION}{event.rejection_id}")
        elif event.review_id:
            left -= {one for one in left if not one.startswith((OWN_WORD, INHERITED, OWN_REJECTION))}
        else:
            left.clear()

    def _is_taken_back(self, review_id: str) -> bool:
        """True when a review was taken in before, here or elsewhere, and all of its turn were retracted."""
        turn = self.turns.get(review_id)
        return turn is not None and all(one.turn != turn for one in self.standing.values())

    @property
    def locked(self) -> set[str]:
        """Who is locked out."""
        return {agent for agent, reasons in self.reasons.items() if reasons}

    @property
    def count(self) -> int:
        """How many submissions are sent back."""
        return len({one.turn for one in self.standing.values()})


def _reviews(task: Task) -> list[str]:
    return [review.id for one in task.reviews.rounds for review in one.reviews]


def audited(events: Iterable[Event]) -> Task:
    """Follows a task's story, and holds after every event what must hold."""
    account = Account()
    task: Task | None = None
    for event in events:
        before, task = task, evolve(task, event)
        if task is not None and before is not None:
            account.note(event, before, task)
            _require_agreement(account, task, event)
    assert task is not None
    return task


def _require_agreement(account: Account, task: Task, event: Event) -> None:
    locked = {lockout.agent for lockout in task.people.lockouts}
    require(
        locked == account.locked,
        "the lockouts are not those the events tell",
        (event, locked, account.reasons),
    )
    require(
        task.reviews.rejection_count == account.count,
        "the count is not that of the rejections that stand",
        (event, task),
    )
    holder = task.claim.agent if task.claim else ""
    require(holder not in account.locked, "a locked-out agent holds a claim", (event, task))
    offered = {offer.target for offer in task.claims.offers}
    require(offered.isdisjoint(account.locked), "a locked-out agent has an offer", (event, task))
    if task.status == Status.DONE and task.reviews.approved_commit:
        work = account.work
        is_last = work is not None and work.commit == task.reviews.approved_commit
        require(is_last, "the task is done at another commit than was handed in last", (event, task))
