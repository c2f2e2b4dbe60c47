"""Taking the reviews of a pull request in: each becomes the ask it stands for, once, or is kept with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from remand.app.asking import Answer
from remand.app.forges.accounts import Accounts
from remand.app.forges.findings import findings_of, is_rejection
from remand.app.forges.ports import Account, Comment, Marks, PullRequest, PullState, Review, ReviewState
from remand.app.forges.reporting import answer_text, is_left, is_ours
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.feedback.commands import commands_in
from remand.domain.instant import BEGINNING, plus
from remand.domain.refusals import Refused
from remand.domain.roles import THE_COORDINATOR, Actor
from remand.domain.task import Status, Submission, Task

FOR_GOOD = (
    "bad_value",
    "nothing_to_review",
    "not_authorised",
    "out_of_scope",
    "own_work",
    "stale_review",
    "too_late",
    "head_moved",
)
"""Refusals that no later poll would take back: the review is kept as one that does not count."""
OWN_ACCOUNT = "it comes from the account that opened the pull request, which agents may share"
OBEYED_SECONDS = 24 * 3600.0
"""How old a command may be. A machine that polls for the first time obeys nothing of long ago."""
Obey = Callable[[Actor, str, str], str]
"""Carries out what a member says in a comment, under a key; returns what to answer."""


CLOCKS_APART = 300.0
"""So many seconds the forge's clock may be behind ours, where that could swallow a no."""


class Taken(NamedTuple):
    """What came of one pull request."""

    rejections: int = 0
    approvals: int = 0
    noted: int = 0
    ignored: int = 0
    """Reviews by accounts that are no member's, or may not write."""
    commands: int = 0
    unsettled: int = 0
    """What has to be looked at again though nothing changes on the forge."""
    waits_for: str = ""

    def plus(self, other: Taken) -> Taken:
        """Both together."""
        return Taken(
            rejections=self.rejections + other.rejections,
            approvals=self.approvals + other.approvals,
            noted=self.noted + other.noted,
            ignored=self.ignored + other.ignored,
            commands=self.commands + other.commands,
            unsettled=self.unsettled + other.unsettled,
            waits_for=self.waits_for or other.waits_for,
        )


class Taking:
    """Takes in what a forge tells of one task's pull request."""

    def __init__(
        self,
        ledger: Ledger,
        accounts: Accounts,
        marks: Marks,
        *,
        kind: str,
        home: str,
        obey: Obey,
        answer: Callable[[int, str], None] = lambda *_: None,
    ) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._marks = marks
        self._kind = kind
        self._home = home
        self._obey = obey
        self._answer = answer

    def take(self, task: Task, pull: PullRequest) -> Taken:
        """Takes in rejections first, then approvals, the merge, and what members ask for in comments."""
        taken = Taken()
        opinions = _latest(task, pull)
        for review in sorted(opinions, key=lambda review: review.state is ReviewState.APPROVED):
            taken = taken.plus(self._review(task.id, pull, review))
        if pull.state is PullState.MERGED:
            taken = taken.plus(self._merge(task.id, pull))
        if pull.state is PullState.CLOSED and not task.is_terminal:
            text = f"pull request #{pull.number} to be opened again: it was closed without a merge"
            taken = taken.plus(Taken(waits_for=text))
        return taken.plus(self._commands(pull))

    def _review(self, task_id: str, pull: PullRequest, review: Review) -> Taken:
        task = self._task(task_id)
        if task is None or self._is_known(task, review):
            return Taken()
        actor = self._accounts.member(review.author)
        if actor is None:
            return self._of_nobody(review)
        if review.state is ReviewState.DISMISSED:
            return self._note(task, review, actor, "it was dismissed before it was seen")
        if review.state is ReviewState.APPROVED:
            return self._approval(task, pull, review, actor)
        return self._rejection(task, review, actor)

    def _of_nobody(self, review: Review) -> Taken:
        """A review that counts for nothing; one of a member who may not write just now waits for the forge's word."""
        if self._accounts.claimed(review.author) is None:
            return Taken(ignored=1)
        return Taken(
            ignored=1, unsettled=1, waits_for=f"{_called(review.author)} to be allowed to write on the forge"
        )

    def _rejection(self, task: Task, review: Review, actor: Actor) -> Taken:
        submission = task.submission
        if submission is None or not (
            self._is_about(review, submission) or _is_of_what_followed(review, task)
        ):
            return self._of_other_work(task, review, actor)
        findings = findings_of(review, self._home)
        if not any(finding.is_blocking for finding in findings):
            return self._note(task, review, actor, "it has no blocking finding")
        ask = c.RejectReview(
            task_id=task.id,
            commit=submission.commit,
            findings=findings,
            source=self._source(review),
        )
        return self._counted(task, review, actor, self._ask(actor, ask), Taken(rejections=1))

    def _approval(self, task: Task, pull: PullRequest, review: Review, actor: Actor) -> Taken:
        submission = task.submission
        if submission is None or not self._is_about(review, submission):
            return self._of_other_work(task, review, actor)
        if _is_same(review.author, pull.author):
            return self._note(task, review, actor, OWN_ACCOUNT)
        if _is_older_than_a_rejection(review, task, submission):
            return self._note(task, review, actor, "the same work was rejected after it")
        if pull.head != submission.commit and not self._has_tree(pull.head, submission):
            return self._note(task, review, actor, f"the pull request has gone on to {pull.head[:12]}")
        ask = c.ApproveReview(task_id=task.id, commit=submission.commit, source=self._source(review))
        return self._counted(task, review, actor, self._ask(actor, ask), Taken(approvals=1))

    def _of_other_work(self, task: Task, review: Review, actor: Actor) -> Taken:
        """A review of what nobody has handed in yet waits for that; one of earlier work is kept and counts no more."""
        submission = task.submission
        is_early = submission is None or review.submitted_at >= submission.at
        if is_early and task.status in (
            Status.CLAIMED,
            Status.INCOMING,
            Status.NEEDS_CONTINUATION,
            Status.REJECTED,
        ):
            return Taken(waits_for=f"{task.id} to be handed in at {review.commit[:12]}, which was reviewed")
        return self._note(task, review, actor, "it is about a commit that is not the one handed in")

    def _counted(self, task: Task, review: Review, actor: Actor, answer: Answer, taken: Taken) -> Taken:
        if not isinstance(answer, Refused):
            return taken if answer.events else Taken()
        if answer.code in FOR_GOOD:
            return self._note(task, review, actor, answer.message)
        return Taken(unsettled=1, waits_for=f"{task.id}: {answer.message}")

    def _note(self, task: Task, review: Review, actor: Actor, why: str) -> Taken:
        noted = self._ledger.ask_as(
            THE_COORDINATOR,
            c.NoteReview(
                task_id=task.id,
                reviewer=actor.name,
                source=self._source(review),
                why=why[:500],
                commit=review.commit,
                findings=findings_of(review, self._home),
            ),
        )
        return Taken(noted=int(not isinstance(noted, Refused) and bool(noted.events)))

    def _merge(self, task_id: str, pull: PullRequest) -> Taken:
        """A merge by who may approve is an approval; any other went past the rules, and the user is told."""
        task = self._task(task_id)
        source = f"{self._kind}:merge-{pull.number}@{pull.head}"
        if task is None or task.status == Status.DONE or source in task.sources:
            return Taken()
        actor = self._accounts.member(pull.merged_by)
        submission = task.submission
        why = f"{task.label} is {task.status}, not approved"
        if task.status == Status.PROVISIONAL and submission is not None and submission.commit == pull.head:
            why = "nobody who may approve it did so"
            if _is_same(pull.merged_by, pull.author):
                why = OWN_ACCOUNT
            elif actor is not None:
                ask = c.ApproveReview(task_id=task.id, commit=submission.commit, source=source)
                answer = self._ask(actor, ask)
                if not isinstance(answer, Refused):
                    return Taken(approvals=1)
                why = answer.message
        by = actor.name if actor else _called(pull.merged_by)
        bypassed = c.NoteMerge(task_id=task.id, by=by, commit=pull.head, why=why[:500], source=source)
        self._ledger.ask_as(THE_COORDINATOR, bypassed)
        return Taken(noted=1)

    def _commands(self, pull: PullRequest) -> Taken:
        """What members ask for in comments, once. Who opened the pull request is not asked: agents may share that account."""
        count = 0
        for remark in pull.remarks:
            key = f"{self._kind}-comment-{remark.id}"
            may_command = self._may_command(remark) and not _is_same(remark.author, pull.author)
            if not may_command or self._accounts.claimed(remark.author) is None or self._marks.get(key):
                continue
            lines = commands_in(remark.text, self._home)
            actor = self._accounts.member(remark.author) if lines else None
            if actor is None:
                continue
            told = [self._obey(actor, line, f"{key}-{number}") for number, line in enumerate(lines)]
            self._marks.put(key, "taken")
            self._answer(pull.number, answer_text("\n\n".join(told)))
            count += len(told)
        return Taken(commands=count)

    def _may_command(self, remark: Comment) -> bool:
        """True for a fresh comment in its author's own words.

        Whoever may write can edit the comments of others, and what we leave there may repeat what others said.
        """
        since = plus(self._ledger.clock.now(), -OBEYED_SECONDS)
        is_fresh = bool(remark.updated_at) and remark.updated_at >= since
        return is_fresh and not remark.is_edited and not is_left(remark.text)

    def _ask(self, actor: Actor, ask: c.ApproveReview | c.RejectReview) -> Answer:
        return self._ledger.ask_as(actor, ask)

    def _task(self, task_id: str) -> Task | None:
        return self._ledger.task_of(c.TaskAsk(task_id=task_id))

    def _source(self, review: Review) -> str:
        return f"{self._kind}:{review.id}@{review.commit}"

    def _is_known(self, task: Task, review: Review) -> bool:
        """True when the review was taken in before, whatever commit the forge binds it to now."""
        return any(source.partition("@")[0] == f"{self._kind}:{review.id}" for source in task.sources)

    def _is_about(self, review: Review, submission: Submission) -> bool:
        """True when a review is about the work that was handed in. One that names no commit is, when it came after it."""
        if not review.commit:
            return review.submitted_at >= submission.at
        return review.commit == submission.commit or self._has_tree(review.commit, submission)

    def _has_tree(self, head: str, submission: Submission) -> bool:
        found = self._ledger.repository.commit(head)
        return found is not None and bool(submission.tree) and found.tree == submission.tree


def _latest(task: Task, pull: PullRequest) -> list[Review]:
    """Of every account its last opinion, and every comment that blocks one's own work; nothing that we left there."""
    latest: dict[str, Review] = {}
    for review in pull.reviews:
        is_own = _is_same(review.author, pull.author)
        if review.author is None or is_ours(review, task) or not _is_opinion(review, is_own=is_own):
            continue
        is_comment = review.state is ReviewState.COMMENTED
        latest[review.id if is_comment else review.author.id] = review
    return list(latest.values())


def _is_opinion(review: Review, *, is_own: bool) -> bool:
    settled = (ReviewState.APPROVED, ReviewState.DISMISSED)
    return review.state in settled or is_rejection(review, is_own=is_own)


def _is_of_what_followed(review: Review, task: Task) -> bool:
    """True when a rejection came while the work was under review, of a head that was pushed on top of it.

    A reviewer can only review the head, so a push after handing in takes nothing away from a no. One of work that
    was handed in earlier, given late, is about that.
    """
    submission = task.submission
    if submission is None or task.status != Status.PROVISIONAL:
        return False
    earlier = {one.commit for one in task.rounds}
    return (
        plus(review.submitted_at or BEGINNING, CLOCKS_APART) >= submission.at and review.commit not in earlier
    )


def _is_older_than_a_rejection(review: Review, task: Task, submission: Submission) -> bool:
    """True when the same work was sent back before, and the review was given before it was handed in again."""
    was_rejected = any(one.commit == submission.commit or one.tree == submission.tree for one in task.rounds)
    return was_rejected and review.submitted_at < submission.at


def _is_same(one: Account | None, other: Account | None) -> bool:
    return one is not None and other is not None and one.id == other.id


def _called(account: Account | None) -> str:
    return account.login if account else "an account that is gone"
