"""Taking the reviews of a pull request in: each becomes the ask it stands for, once, or is kept with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from remand.app.forges.accounts import Accounts
from remand.app.forges.ports import Marks
from remand.app.forges.reporting import answer_text
from remand.app.ledger import Ledger
from remand.app.stories import UncountedReview, uncounted
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.event import KnownBy
from remand.domain.feedback.commands import commands_in
from remand.domain.pulls.judging import Judged, Seen, judged, refused
from remand.domain.pulls.merging import is_news, judged_merge, merge_source, past_the_rules
from remand.domain.pulls.obeying import may_command
from remand.domain.pulls.opinions import opinions
from remand.domain.pulls.rounds import Reading, additions, asks
from remand.domain.pulls.shapes import Account, PullRequest, PullState, Review
from remand.domain.pulls.sources import is_known
from remand.domain.refusals import Refused
from remand.domain.roles import REVIEWERS, THE_COORDINATOR, Actor
from remand.domain.task import Task

Obey = Callable[[Actor, str, str], str]
"""Carries out what a member says in a comment, under a key; returns what to answer."""


class Taken(NamedTuple):
    """What came of one pull request."""

    rejections: int = 0
    approvals: int = 0
    comments: int = 0
    """Comments that were added to rejections."""
    noted: int = 0
    ignored: int = 0
    """Reviews by accounts that are no member's, or may not write."""
    commands: int = 0
    unsettled: int = 0
    """What has to be looked at again though nothing changes on the forge."""
    waits_for: str = ""
    not_counted: tuple[UncountedReview, ...] = ()

    def plus(self, other: Taken) -> Taken:
        """Both together."""
        return Taken(
            rejections=self.rejections + other.rejections,
            approvals=self.approvals + other.approvals,
            comments=self.comments + other.comments,
            noted=self.noted + other.noted,
            ignored=self.ignored + other.ignored,
            commands=self.commands + other.commands,
            unsettled=self.unsettled + other.unsettled,
            waits_for=self.waits_for or other.waits_for,
            not_counted=(*self.not_counted, *other.not_counted),
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
        """Takes in rejections first, then approvals, comments, the merge, and what members ask for in comments."""
        taken = Taken()
        for review in opinions(task, pull):
            taken = taken.plus(self._review(task.id, pull, review))
        taken = taken.plus(self._comments(task.id, pull))
        if pull.state is PullState.MERGED:
            taken = taken.plus(self._merge(task.id, pull))
        if pull.state is PullState.CLOSED and not task.is_terminal:
            text = f"pull request #{pull.number} to be opened again: it was closed without a merge"
            taken = taken.plus(Taken(waits_for=text))
        return taken.plus(self._commands(pull))

    def _review(self, task_id: str, pull: PullRequest, review: Review) -> Taken:
        task = self._task(task_id)
        if task is None or is_known(task, self._kind, review):
            return Taken()
        seen = self._seen(task, pull, review)
        return self._recorded(seen, judged(seen))

    def _seen(self, task: Task, pull: PullRequest, review: Review) -> Seen:
        """Reads what has to be known of a review: whose it is, and what the repository knows of its commits."""
        may_write = self._accounts.member(review.author) is not None
        return Seen(
            task=task,
            pull=pull,
            review=review,
            kind=self._kind,
            home=self._home,
            member=self._accounts.claimed(review.author),
            may_write=may_write,
            trees=self._trees(pull, task) if may_write else {},
            tree=self._tree(review.commit, task) if may_write else "",
            head_tree=self._tree(pull.head, task) if may_write else "",
        )

    def _tree(self, commit: str, task: Task) -> str:
        """The code tree of a commit that may be the work that was handed in."""
        submission = task.submission
        if submission is None or commit == submission.commit:
            return submission.tree if submission is not None else ""
        found = self._ledger.repository.commit(commit) if commit else None
        return found.tree if found is not None else ""

    def _trees(self, pull: PullRequest, task: Task) -> dict[str, str]:
        """The code trees of the commits that reviews of members name."""
        commits = {review.commit for review in pull.reviews if self._is_reviewers(review.author)} - {""}
        return {commit: self._tree(commit, task) for commit in commits}

    def _comments(self, task_id: str, pull: PullRequest) -> Taken:
        """Adds what reviewers said of rejected work to its rejection, each comment once."""
        task = self._task(task_id)
        if task is None or not task.standing_rounds:
            return Taken()
        reading = Reading(
            task=task, pull=pull, kind=self._kind, home=self._home, trees=self._trees(pull, task)
        )
        found = additions(reading)
        accounts = {said.author.id: said.author for _, said in found if self._is_reviewers(said.author)}
        members = {
            name: actor
            for name, account in accounts.items()
            if (actor := self._accounts.member(account)) is not None
        }
        count = 0
        for member, ask in asks(found, members, reading):
            answer = self._ledger.ask_as(member, ask, known_by=KnownBy.FORGE)
            if not isinstance(answer, Refused) and answer.events:
                count += len(ask.findings)
        return Taken(comments=count)

    def _is_reviewers(self, account: Account | None) -> bool:
        """True for an account of a member that reviews; whether it may write now only the forge says."""
        member = self._accounts.claimed(account)
        return member is not None and member.has(*REVIEWERS)

    def _recorded(self, seen: Seen, judgement: Judged) -> Taken:
        """Asks for what follows from a review; what the rules refuse is judged once more."""
        taken = Taken(
            ignored=int(judgement.is_ignored),
            unsettled=int(judgement.is_unsettled),
            waits_for=judgement.waits_for,
        )
        ask, member = judgement.ask, seen.member
        if ask is None or member is None:
            return taken
        if isinstance(ask, c.NoteReview):
            answer = self._ledger.ask_as(THE_COORDINATOR, ask)
            if isinstance(answer, Refused) or not answer.events:
                return Taken()
            noted = (event for event in answer.events if isinstance(event, e.ReviewNoted))
            return Taken(noted=1, not_counted=tuple(map(uncounted, noted)))
        answer = self._ledger.ask_as(member, ask, known_by=KnownBy.FORGE)
        if isinstance(answer, Refused):
            return self._recorded(seen, refused(seen, answer))
        if not answer.events:
            return Taken()
        return Taken(approvals=1) if isinstance(ask, c.ApproveReview) else Taken(rejections=1)

    def _merge(self, task_id: str, pull: PullRequest) -> Taken:
        """Asks for what a merge stands for. When the rules refuse that, it went past them, and the user is told."""
        task, source = self._task(task_id), merge_source(self._kind, pull)
        if task is None or not is_news(task, source):
            return Taken()
        member = self._accounts.member(pull.merged_by)
        ask = judged_merge(task, pull, member, source)
        if isinstance(ask, c.ApproveReview) and member is not None:
            answer = self._ledger.ask_as(member, ask, known_by=KnownBy.FORGE)
            if not isinstance(answer, Refused):
                return Taken(approvals=1)
            ask = past_the_rules(task, pull, member, source, answer.message)
        self._ledger.ask_as(THE_COORDINATOR, ask)
        return Taken(noted=1)

    def _commands(self, pull: PullRequest) -> Taken:
        """What members ask for in comments, once."""
        count, now = 0, self._ledger.clock.now()
        for remark in pull.remarks:
            key = f"{self._kind}-comment-{remark.id}"
            is_members = may_command(remark, pull, now) and self._accounts.claimed(remark.author) is not None
            if not is_members or self._marks.get(key):
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

    def _task(self, task_id: str) -> Task | None:
        return self._ledger.task_of(c.TaskAsk(task_id=task_id))
