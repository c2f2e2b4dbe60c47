"""Reviews of a pull request, imported: each becomes the command it stands for, once, or is kept with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from remand.app.forge.ports import Permissions, PollMarks
from remand.app.history.task_history import UncountedReview, uncounted_review
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.access.team import REVIEWERS, THE_COORDINATOR, Actor, Team
from remand.domain.events.event import KnownBy
from remand.domain.events.reviews import ReviewNoted
from remand.domain.feedback.comments import parse_comment_commands
from remand.domain.pull_request.comments import REMAND_MARK, may_command
from remand.domain.pull_request.records import Account, ForgeReview, PullRequest, PullState, is_listed_account
from remand.domain.pull_request.reviews import (
    PullRequestReading,
    ReviewOutcome,
    ReviewReading,
    comment_commands,
    counted_reviews,
    find_new_comments,
    is_known_review,
    is_new_merge,
    judge_merge,
    judge_refusal,
    judge_review,
    make_unapproved_merge,
    merge_source,
)
from remand.domain.refusals import Refused
from remand.domain.task import Task


class Accounts:
    """Knows whose word an account's is. In doubt it is nobody's."""

    def __init__(self, team: Team, forge: Permissions, marks: PollMarks) -> None:
        self._team = team
        self._forge = forge
        self._marks = marks
        self._may_write: dict[str, bool] = {}

    def writing_member(self, account: Account | None) -> Actor | None:
        """The member behind an account that may write to the repository; None for everyone else.

        Raises `ForgeFault` when the forge does not say: then nothing is decided, and it is asked again.
        """
        actor = self.listed_member(account)
        if account is None or actor is None:
            return None
        if account.id not in self._may_write:
            self._may_write[account.id] = self._forge.may_write(account)
        return actor if self._may_write[account.id] else None

    def listed_member(self, account: Account | None) -> Actor | None:
        """The member whose account it is, whatever it is called now."""
        if account is None or not account.id:
            return None
        for member in self._team.members:
            if any(self._is_listed(name, account) for name in member.accounts):
                return self._team.actor(member.name)
        return None

    def _is_listed(self, name: str, account: Account) -> bool:
        """Looks up the id that a listed login had when it was first seen, and notes it whenever it is used, to be kept."""
        key = f"account {name.casefold()}"
        found = is_listed_account(name, account, self._marks.get(key))
        if found and name != account.id:
            self._marks.put(key, account.id)
        return found


def comment_text(told: str) -> str:
    """An answer as it is left there."""
    return f"{REMAND_MARK}.\n\n{told}"


RunTextCommand = Callable[[Actor, str, str], str]
"""Carries out what a member says in a comment, under a key; returns what to answer."""


class ReviewImportResult(NamedTuple):
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

    def plus(self, other: ReviewImportResult) -> ReviewImportResult:
        """Both together."""
        return ReviewImportResult(
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


class ReviewImporter:
    """Takes in what a forge tells of one task's pull request."""

    def __init__(
        self,
        ledger: Ledger,
        accounts: Accounts,
        marks: PollMarks,
        *,
        kind: str,
        home: str,
        run_command: RunTextCommand,
        reply: Callable[[int, str], None] = lambda *_: None,
    ) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._marks = marks
        self._kind = kind
        self._home = home
        self._run_command = run_command
        self._reply = reply

    def import_pull_request(self, task: Task, pull: PullRequest) -> ReviewImportResult:
        """Takes in rejections first, then approvals, comments, the merge, and what members ask for in comments."""
        taken = ReviewImportResult()
        for review in counted_reviews(task, pull):
            taken = taken.plus(self._import_review(task.id, pull, review))
        taken = taken.plus(self._import_comments(task.id, pull))
        if pull.state is PullState.MERGED:
            taken = taken.plus(self._import_merge(task.id, pull))
        if pull.state is PullState.CLOSED and not task.is_terminal:
            text = f"pull request #{pull.number} to be opened again: it was closed without a merge"
            taken = taken.plus(ReviewImportResult(waits_for=text))
        return taken.plus(self._run_comment_commands(pull))

    def _import_review(self, task_id: str, pull: PullRequest, review: ForgeReview) -> ReviewImportResult:
        task = self._task(task_id)
        if task is None or is_known_review(task, self._kind, review):
            return ReviewImportResult()
        seen = self._review_facts(task, pull, review)
        return self._record_review(seen, judge_review(seen))

    def _review_facts(self, task: Task, pull: PullRequest, review: ForgeReview) -> ReviewReading:
        """Reads what has to be known of a review: whose it is, and what the repository knows of its commits."""
        may_write = self._accounts.writing_member(review.author) is not None
        return ReviewReading(
            task=task,
            pull=pull,
            review=review,
            kind=self._kind,
            home=self._home,
            member=self._accounts.listed_member(review.author),
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
        commits = {review.commit for review in pull.reviews if self._is_of_reviewer(review.author)} - {""}
        return {commit: self._tree(commit, task) for commit in commits}

    def _import_comments(self, task_id: str, pull: PullRequest) -> ReviewImportResult:
        """Adds what reviewers said of rejected work to its rejection, each comment once."""
        task = self._task(task_id)
        if task is None or not task.standing_rounds:
            return ReviewImportResult()
        reading = PullRequestReading(
            task=task, pull=pull, kind=self._kind, home=self._home, trees=self._trees(pull, task)
        )
        found = find_new_comments(reading)
        accounts = {said.author.id: said.author for _, said in found if self._is_of_reviewer(said.author)}
        members = {
            name: actor
            for name, account in accounts.items()
            if (actor := self._accounts.writing_member(account)) is not None
        }
        count = 0
        for member, ask in comment_commands(found, members, reading):
            answer = self._ledger.ask_as(member, ask, known_by=KnownBy.FORGE)
            if not isinstance(answer, Refused) and answer.events:
                count += len(ask.findings)
        return ReviewImportResult(comments=count)

    def _is_of_reviewer(self, account: Account | None) -> bool:
        """True for an account of a member that reviews; whether it may write now only the forge says."""
        member = self._accounts.listed_member(account)
        return member is not None and member.has(*REVIEWERS)

    def _record_review(self, seen: ReviewReading, judgement: ReviewOutcome) -> ReviewImportResult:
        """Asks for what follows from a review; what the rules refuse is judged once more."""
        taken = ReviewImportResult(
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
                return ReviewImportResult()
            noted = (event for event in answer.events if isinstance(event, ReviewNoted))
            return ReviewImportResult(noted=1, not_counted=tuple(map(uncounted_review, noted)))
        answer = self._ledger.ask_as(member, ask, known_by=KnownBy.FORGE)
        if isinstance(answer, Refused):
            return self._record_review(seen, judge_refusal(seen, answer))
        if not answer.events:
            return ReviewImportResult()
        return (
            ReviewImportResult(approvals=1)
            if isinstance(ask, c.ApproveReview)
            else ReviewImportResult(rejections=1)
        )

    def _import_merge(self, task_id: str, pull: PullRequest) -> ReviewImportResult:
        """Asks for what a merge stands for. When the rules refuse that, it went past them, and the user is told."""
        task, source = self._task(task_id), merge_source(self._kind, pull)
        if task is None or not is_new_merge(task, source):
            return ReviewImportResult()
        member = self._accounts.writing_member(pull.merged_by)
        ask = judge_merge(task, pull, member, source)
        if isinstance(ask, c.ApproveReview) and member is not None:
            answer = self._ledger.ask_as(member, ask, known_by=KnownBy.FORGE)
            if not isinstance(answer, Refused):
                return ReviewImportResult(approvals=1)
            ask = make_unapproved_merge(task, pull, member, source, answer.message)
        self._ledger.ask_as(THE_COORDINATOR, ask)
        return ReviewImportResult(noted=1)

    def _run_comment_commands(self, pull: PullRequest) -> ReviewImportResult:
        """What members ask for in comments, once."""
        count, now = 0, self._ledger.clock.now()
        for remark in pull.remarks:
            key = f"{self._kind}-comment-{remark.id}"
            is_members = (
                may_command(remark, pull, now) and self._accounts.listed_member(remark.author) is not None
            )
            if not is_members or self._marks.get(key):
                continue
            lines = parse_comment_commands(remark.text, self._home)
            actor = self._accounts.writing_member(remark.author) if lines else None
            if actor is None:
                continue
            told = [self._run_command(actor, line, f"{key}-{number}") for number, line in enumerate(lines)]
            self._marks.put(key, "taken")
            self._reply(pull.number, comment_text("\n\n".join(told)))
            count += len(told)
        return ReviewImportResult(commands=count)

    def _task(self, task_id: str) -> Task | None:
        return self._ledger.task_of(c.TaskCommand(task_id=task_id))
