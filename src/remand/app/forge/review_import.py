"""Imports reviews of a pull request: each becomes its command once, or is kept with the reason why not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from remand.app.forge.ports import Permissions, PollMarks
from remand.app.history.task_history import UncountedReview, uncounted_review
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.access.team import REVIEWERS, THE_COORDINATOR, Actor, Team
from remand.domain.events.event import KnownBy
from remand.domain.events.reviews import ReviewNoted
from remand.domain.feedback.comments import REMAND_MARK, may_command, parse_comment_commands
from remand.domain.feedback.pull_request_reviews import (
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
    own_dismissals,
)
from remand.domain.forge import Account, ForgeReview, PullRequest, PullState, is_listed_account
from remand.domain.refusals import Refused
from remand.domain.task import Task


class Accounts:
    """Finds the member to which an account belongs; in doubt, none."""

    def __init__(self, team: Team, forge: Permissions, marks: PollMarks) -> None:
        self._team = team
        self._forge = forge
        self._marks = marks
        self._may_write: dict[str, bool] = {}

    def writing_member(self, account: Account | None) -> Actor | None:
        """The account's member if it has write access to the repository; None for anybody else.

        Raises `ForgeFault` if the forge does not say: nothing is decided then, and the next poll retries.
        """
        actor = self.listed_member(account)
        if account is None or actor is None:
            return None
        if account.id not in self._may_write:
            self._may_write[account.id] = self._forge.may_write(account)
        return actor if self._may_write[account.id] else None

    def listed_member(self, account: Account | None) -> Actor | None:
        """The account's member, whatever its current login."""
        if account is None or not account.id:
            return None
        for member in self._team.members:
            for name in member.accounts:
                # The id of a listed login when it was first seen; recorded at every use, so that it is kept.
                key = f"account {name.casefold()}"
                if is_listed_account(name, account, self._marks.get(key)):
                    if name != account.id:
                        self._marks.put(key, account.id)
                    return self._team.actor(member.name)
        return None


RunTextCommand = Callable[[Actor, str, str], str]
"""Runs the command in a member's comment under an idempotency key and returns the reply."""
COUNTED = (
    "rejections",
    "approvals",
    "retractions",
    "comments",
    "noted",
    "ignored",
    "commands",
    "not_counted",
)
"""The counts that a poll sums over pull requests."""


class ReviewImportResult(msgspec.Struct, kw_only=True):
    """The result of importing one pull request, or those of a poll."""

    rejections: int = 0
    approvals: int = 0
    retractions: int = 0
    """Rejections that their reviewers dismissed on the forge."""
    comments: int = 0
    """Comments added to rejections."""
    noted: int = 0
    ignored: int = 0
    """Reviews by accounts of non-members or without write access."""
    commands: int = 0
    not_counted: tuple[UncountedReview, ...] = ()
    is_unsettled: bool = False
    """Whether something must be checked again even without a change on the forge."""
    waits_for: str = ""

    def add(self, other: ReviewImportResult) -> None:
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class ReviewImporter:
    """Imports the reviews, comments and the merge of one task's pull request."""

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
        self._ledger, self._accounts, self._marks = ledger, accounts, marks
        self._kind, self._home = kind, home
        self._run_command, self._reply = run_command, reply

    def import_pull_request(self, task: Task, pull: PullRequest) -> ReviewImportResult:
        """Imports rejections first, then approvals, comments, the merge, and the commands in members' comments."""
        result = ReviewImportResult()
        self._retract_dismissed(task, pull, result)
        for review in counted_reviews(task, pull):
            current = self._task(task.id)
            if current is not None and not is_known_review(current, self._kind, review):
                reading = self._review_facts(current, pull, review)
                self._record_review(reading, judge_review(reading), result)
        self._import_comments(task.id, pull, result)
        if pull.state is PullState.MERGED:
            self._import_merge(task.id, pull, result)
        if pull.state is PullState.CLOSED and not task.is_terminal:
            text = f"pull request #{pull.number} to be opened again: it was closed without a merge"
            result.waits_for = result.waits_for or text
        self._run_comment_commands(pull, result)
        return result

    def _retract_dismissed(self, task: Task, pull: PullRequest, result: ReviewImportResult) -> None:
        """Retracts rejections dismissed by their own reviewers on the forge, after which an approval may count."""
        for review, command in own_dismissals(task, pull, self._kind):
            member = self._accounts.writing_member(review.author)
            if member is not None:
                answer = self._ledger.ask_as(member, command, known_by=KnownBy.FORGE)
                result.retractions += not isinstance(answer, Refused)

    def _review_facts(self, task: Task, pull: PullRequest, review: ForgeReview) -> ReviewReading:
        """The facts for judging a review: its author, and what the repository knows of its commits."""
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
        """The code tree of a commit that may be the submitted one."""
        submission = task.submission
        if submission is None or commit == submission.commit:
            return submission.tree if submission is not None else ""
        found = self._ledger.repository.commit(commit) if commit else None
        return found.tree if found is not None else ""

    def _trees(self, pull: PullRequest, task: Task) -> dict[str, str]:
        """The code trees of the commits named in members' reviews."""
        commits = {review.commit for review in pull.reviews if self._is_reviewer_account(review.author)} - {
            ""
        }
        return {commit: self._tree(commit, task) for commit in commits}

    def _import_comments(self, task_id: str, pull: PullRequest, result: ReviewImportResult) -> None:
        """Adds reviewers' comments on rejected work to its rejection, each comment once."""
        task = self._task(task_id)
        if task is None or not task.standing_rounds:
            return
        reading = PullRequestReading(
            task=task, pull=pull, kind=self._kind, home=self._home, trees=self._trees(pull, task)
        )
        found = find_new_comments(reading)
        authors = {comment.author.id: comment.author for _, comment in found}
        members = {
            name: actor
            for name, account in authors.items()
            if self._is_reviewer_account(account)
            and (actor := self._accounts.writing_member(account)) is not None
        }
        for member, command in comment_commands(found, members, reading):
            answer = self._ledger.ask_as(member, command, known_by=KnownBy.FORGE)
            if not isinstance(answer, Refused) and answer.events:
                result.comments += len(command.findings)

    def _is_reviewer_account(self, account: Account | None) -> bool:
        """True for an account of a reviewing member; only the forge knows whether it has write access now."""
        member = self._accounts.listed_member(account)
        return member is not None and member.has(*REVIEWERS)

    def _record_review(
        self, reading: ReviewReading, outcome: ReviewOutcome, result: ReviewImportResult
    ) -> None:
        """Runs the command of a review; a refused one is judged once more."""
        command, member = outcome.ask, reading.member
        if command is None or member is None:
            result.ignored += outcome.is_ignored
            result.is_unsettled |= outcome.is_unsettled
            result.waits_for = result.waits_for or outcome.waits_for
            return
        if isinstance(command, c.NoteReview):
            answer = self._ledger.ask_as(THE_COORDINATOR, command)
            if not isinstance(answer, Refused) and answer.events:
                result.noted += 1
                noted = (event for event in answer.events if isinstance(event, ReviewNoted))
                result.not_counted += tuple(map(uncounted_review, noted))
            return
        answer = self._ledger.ask_as(member, command, known_by=KnownBy.FORGE)
        if isinstance(answer, Refused):
            self._record_review(reading, judge_refusal(reading, answer), result)
        elif answer.events and isinstance(command, c.ApproveReview):
            result.approvals += 1
        elif answer.events:
            result.rejections += 1

    def _import_merge(self, task_id: str, pull: PullRequest, result: ReviewImportResult) -> None:
        """Runs the command of a merge. If the rules refuse it, the merge bypassed them, and the user is asked."""
        task, source = self._task(task_id), merge_source(self._kind, pull)
        if task is None or not is_new_merge(task, source):
            return
        member = self._accounts.writing_member(pull.merged_by)
        command = judge_merge(task, pull, member, source)
        if isinstance(command, c.ApproveReview) and member is not None:
            answer = self._ledger.ask_as(member, command, known_by=KnownBy.FORGE)
            if not isinstance(answer, Refused):
                result.approvals += 1
                return
            command = make_unapproved_merge(task, pull, member, source, answer.message)
        self._ledger.ask_as(THE_COORDINATOR, command)
        result.noted += 1

    def _run_comment_commands(self, pull: PullRequest, result: ReviewImportResult) -> None:
        """Runs the commands in members' comments, each once."""
        now = self._ledger.clock.now()
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
            replies = [self._run_command(actor, line, f"{key}-{number}") for number, line in enumerate(lines)]
            self._marks.put(key, "taken")
            self._reply(pull.number, "\n\n".join([f"{REMAND_MARK}.", *replies]))
            result.commands += len(replies)

    def _task(self, task_id: str) -> Task | None:
        return self._ledger.task_of(c.TaskCommand(task_id=task_id))
