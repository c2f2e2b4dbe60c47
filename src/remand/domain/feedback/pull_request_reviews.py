"""Which reviews and merges on a forge count for which commit, and to which rejection each comment belongs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from remand.domain import commands as c
from remand.domain.access.team import REVIEWERS, Actor
from remand.domain.feedback.comments import (
    CommentPlace,
    PullComment,
    countable_comments,
    findings_from_comments,
    findings_from_review,
    is_own_review,
    is_rejecting_review,
    select_findings,
)
from remand.domain.forge import (
    ForgeReview,
    PullRequest,
    ReviewState,
    account_name,
    is_same_account,
)
from remand.domain.instant import BEGINNING, add_seconds
from remand.domain.preconditions import MAX_FINDINGS
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.task import ReviewRound, Status, Submission, Task


def counted_reviews(task: Task, pull: PullRequest) -> list[ForgeReview]:
    """The last opinion of every account, and every comment that blocks one's own work, except Remand's posts.

    Rejections come first, so that an approval of the same poll cannot overtake them.
    """
    latest: dict[str, ForgeReview] = {}
    for review in pull.reviews:
        is_own = is_same_account(review.author, pull.author)
        is_opinion = review.state in (ReviewState.APPROVED, ReviewState.DISMISSED) or is_rejecting_review(
            review, is_own=is_own
        )
        if review.author is not None and is_opinion and not is_own_review(review, task):
            is_comment = review.state is ReviewState.COMMENTED
            latest[review.id if is_comment else review.author.id] = review
    return sorted(latest.values(), key=lambda review: review.state is ReviewState.APPROVED)


def standing_objections(pull: PullRequest) -> list[ForgeReview]:
    """The last opinions of accounts that request changes of this head, however late they came."""
    last = {
        review.author.id: review
        for review in pull.reviews
        if review.author is not None and review.state is not ReviewState.COMMENTED
    }
    return [
        review
        for review in last.values()
        if review.state is ReviewState.CHANGES_REQUESTED and review.commit in ("", pull.head)
    ]


OWN_DISMISSAL = "its reviewer dismissed it on the forge"


def own_dismissals(task: Task, pull: PullRequest, kind: str) -> Iterator[tuple[ForgeReview, c.RetractReview]]:
    """Active rejections dismissed by their own reviewers on the forge, each with the command that retracts it.

    A dismissal by others, or by a push, retracts nothing: branch protection dismisses on every push.
    """
    standing = {given.id for one in task.reviews.rounds for given in one.reviews if not given.is_retracted}
    by_review = {source_review(source): source for source in task.reviews.sources}
    for review in pull.reviews:
        is_own = is_same_account(review.author, review.dismissed_by)
        source = by_review.get(f"{kind}:{review.id}", "")
        name = make_forge_review_id(task.id, source)
        if review.state is ReviewState.DISMISSED and is_own and name in standing:
            yield review, c.RetractReview(task_id=task.id, review_id=name, reason=OWN_DISMISSAL)


PROVISIONAL_MARK = "?"
"""The suffix of a source whose review does not count yet and will be judged again."""


def review_source(kind: str, review: ForgeReview) -> str:
    """The source of a review, including the commit to which the forge binds it."""
    return f"{kind}:{review.id}@{review.commit}"


def provisional_source(kind: str, review: ForgeReview) -> str:
    """The source of a review that does not count yet."""
    return f"{kind}:{review.id}{PROVISIONAL_MARK}"


def source_review(source: str) -> str:
    """The forge and id of a review, without its commit and the provisional mark."""
    return source.partition("@")[0].removesuffix(PROVISIONAL_MARK)


def is_known_review(task: Task, kind: str, review: ForgeReview) -> bool:
    """True if the review was imported before, whatever its text and commit are now."""
    own = f"{kind}:{review.id}"
    return any(source.partition("@")[0] == own for source in task.reviews.sources)


def make_forge_review_id(task_id: str, source: str) -> str:
    """The id of a forge review, the same in every ledger that imports it."""
    return f"V-{sha256(f'{task_id} {source}'.encode()).hexdigest()[:16]}"


MAX_FORGE_CLOCK_LAG = 300.0
"""How many seconds the forge's clock may be behind ours where that could lose a rejection."""


class PullRequestReading(Record, kw_only=True):
    """A task's pull request as read, with what the repository knows of its commits."""

    task: Task
    pull: PullRequest
    kind: str
    """The kind of forge."""
    home: str = ""
    """The repository's URL there."""
    trees: dict[str, str] = {}  # noqa: RUF012 - a frozen record's default
    """The code trees of commits named in reviews, if known here."""

    def countable_comments(self) -> list[PullComment]:
        """The comments there, without Remand's own and those of the account that opened it, which agents may share."""
        known = [review.id for one in self.task.reviews.rounds for review in one.reviews]
        comments = countable_comments(self.pull, self.kind, known, self.home)
        return [comment for comment in comments if not is_same_account(comment.author, self.pull.author)]


def is_about_submission(review: ForgeReview, submission: Submission, tree: str) -> bool:
    """True if a review is about the submission; one without a commit is if it came later."""
    if not review.commit:
        return review.submitted_at >= submission.at
    return review.commit == submission.commit or (bool(tree) and tree == submission.tree)


def is_about_later_push(review: ForgeReview, task: Task, submission: Submission) -> bool:
    """True if a review came while the work was under review, and is about a head pushed on top of it.

    A reviewer can only review the head, so a push after the submission must not invalidate a rejection. A late review
    of an earlier submission belongs to that submission.
    """
    if task.status != Status.PROVISIONAL:
        return False
    earlier = {one.commit for one in task.reviews.rounds}
    given = add_seconds(review.submitted_at or BEGINNING, MAX_FORGE_CLOCK_LAG)
    return given >= submission.at and review.commit not in earlier


def comments_by_reviewer(
    reading: PullRequestReading, review: ForgeReview, submission: Submission
) -> list[PullComment]:
    """All comments by a review's author on the work under review, inside and outside that review.

    Comments already passed on with a rejection of other work are excluded.
    """
    imported = {
        name
        for one in reading.task.standing_rounds
        if (one.handoff_id, one.tree) != (submission.handoff_id, submission.tree)
        for name in one.comments
    }
    every = reading.countable_comments()
    by_id = {comment.id: comment for comment in every}

    def is_about_work(comment: PullComment) -> bool:
        if _is_after_submission(comment, submission):
            return True
        review = by_id.get(comment.reply_to, comment).review
        if review is None:
            return False
        tree = reading.trees.get(review.commit, "")
        return is_about_submission(review, submission, tree) or is_about_later_push(
            review, reading.task, submission
        )

    return [
        comment
        for comment in every
        if is_same_account(comment.author, review.author)
        and comment.id not in imported
        and ((comment.review is not None and comment.review.id == review.id) or is_about_work(comment))
    ]


def _is_after_submission(comment: PullComment, submission: Submission) -> bool:
    """True for a reply or discussion comment (which name no commit) made since the submission."""
    is_timed = comment.place is CommentPlace.DISCUSSION or bool(comment.reply_to)
    return is_timed and bool(comment.at) and comment.at >= submission.at


def find_new_comments(reading: PullRequestReading) -> list[tuple[ReviewRound, PullComment]]:
    """Comments of active rejections that were not passed on yet, each with its rejection."""
    task = reading.task
    if task.is_terminal or not task.standing_rounds:
        return []
    imported = {name for one in task.standing_rounds for name in one.comments}
    every = reading.countable_comments()
    by_id = {comment.id: comment for comment in every}
    return [
        (found, comment)
        for comment in every
        if comment.id not in imported and (found := _find_round(comment, by_id, reading)) is not None
    ]


def _find_round(
    comment: PullComment, by_id: Mapping[str, PullComment], reading: PullRequestReading
) -> ReviewRound | None:
    """The rejection of a comment: that of its commit, or of the last submission before it."""
    task, submission = reading.task, reading.task.submission
    review = by_id.get(comment.reply_to, comment).review
    if submission is not None:
        names_no_commit = review is not None and not review.commit
        is_later = names_no_commit and review is not None and review.submitted_at >= submission.at
        if is_later or _is_after_submission(comment, submission):
            return task.find_rejected_round(submission.handoff_id, submission.tree)
    if review is None or not review.commit:
        return None
    commit, tree = review.commit, reading.trees.get(review.commit, "")
    on_commit = {
        make_forge_review_id(task.id, review_source(reading.kind, one))
        for one in reading.pull.reviews
        if one.commit == commit
    }
    for review_round in reversed(task.standing_rounds):
        is_same_code = commit == review_round.commit or (tree and tree == review_round.tree)
        if is_same_code or on_commit & {given.id for given in review_round.reviews}:
            return review_round
    return None


def comment_commands(
    found: Sequence[tuple[ReviewRound, PullComment]],
    members: Mapping[str, Actor],
    reading: PullRequestReading,
) -> Iterator[tuple[Actor, c.AddComments]]:
    """The commands that add comments to rejections, each with its reviewer; `members` are keyed by account id.

    Comments of others do not count.
    """
    groups: dict[tuple[str, str, str], list[PullComment]] = {}
    for review_round, comment in found:
        member = members.get(comment.author.id)
        if member is not None and member.has(*REVIEWERS):
            groups.setdefault((review_round.handoff_id, review_round.tree, comment.author.id), []).append(
                comment
            )
    for (handoff_id, tree, account), comments in groups.items():
        member, rejected = members[account], reading.task.find_rejected_round(handoff_id, tree)
        has_rejected = rejected is not None and rejected.is_rejected_by(member.name)
        findings = findings_from_comments(comments, reading.home, has_rejected=has_rejected)
        for first in range(0, len(findings), MAX_FINDINGS):
            yield (
                member,
                c.AddComments(
                    task_id=reading.task.id,
                    handoff_id=handoff_id,
                    tree=tree,
                    findings=findings[first : first + MAX_FINDINGS],
                    source=f"{reading.kind}:",
                ),
            )


FINAL_REFUSALS = ("nothing_to_review", "not_authorised", "own_work", "stale_review", "too_late")
"""Refusals that no later poll would change: the review is recorded as uncounted."""
PROVISIONAL_REFUSALS = ("bad_value", "out_of_scope", "head_moved", "control_changed")
"""Refusals that a further comment or another branch may change: the review is recorded and judged again when read."""
NOT_BLOCKING = "it has no blocking finding; a comment that begins with BLOCKING: makes it a rejection"
OWN_ACCOUNT = "it comes from the account that opened the pull request, which agents may share"
MAX_WHY = 500
_UNSUBMITTED_STATUSES = (Status.CLAIMED, Status.INCOMING, Status.NEEDS_CONTINUATION, Status.REJECTED)


class ReviewReading(PullRequestReading, kw_only=True):
    """A review with everything needed to judge it."""

    review: ForgeReview
    member: Actor | None = None
    """The member who wrote it; None if the account is not a member's."""
    may_write: bool = False
    """Whether the author has write access now."""
    tree: str = ""
    """The code tree of the review's commit; empty if unknown here."""
    head_tree: str = ""
    """The code tree of the pull request's head, likewise."""

    @property
    def source(self) -> str:
        return review_source(self.kind, self.review)

    @property
    def provisional_source(self) -> str:
        return provisional_source(self.kind, self.review)


class ReviewOutcome(Record, kw_only=True):
    """The result of a review: a command, or what it waits for."""

    ask: c.ApproveReview | c.RejectReview | c.NoteReview | None = None
    waits_for: str = ""
    is_ignored: bool = False
    """Whether its author is not a member, or has no write access."""
    is_unsettled: bool = False
    """Whether it must be judged again even without a change on the forge."""


def judge_review(reading: ReviewReading) -> ReviewOutcome:
    """The result of a new review."""
    if reading.member is None:
        return ReviewOutcome(is_ignored=True)
    if not reading.may_write:
        who = account_name(reading.review.author)
        return ReviewOutcome(
            is_ignored=True, is_unsettled=True, waits_for=f"{who} to be allowed to write on the forge"
        )
    match reading.review.state:
        case ReviewState.DISMISSED:
            return make_uncounted(reading, "it was dismissed before Remand saw it")
        case ReviewState.APPROVED:
            return _judge_approval(reading)
        case _:
            return _judge_rejection(reading)


def judge_refusal(reading: ReviewReading, answer: Refused) -> ReviewOutcome:
    """The result of a review whose command was refused: it is recorded unless a later poll may import it."""
    if answer.code in FINAL_REFUSALS:
        return make_uncounted(reading, answer.message)
    if answer.code in PROVISIONAL_REFUSALS:
        return make_uncounted(reading, answer.message, is_for_now=True)
    return ReviewOutcome(is_unsettled=True, waits_for=f"{reading.task.id}: {answer.message}")


def make_uncounted(reading: ReviewReading, why: str, *, is_for_now: bool = False) -> ReviewOutcome:
    """Records a review as uncounted with the reason; with `is_for_now` it is judged again when read again."""
    return ReviewOutcome(
        ask=c.NoteReview(
            task_id=reading.task.id,
            reviewer=reading.member.name if reading.member else "",
            source=reading.provisional_source if is_for_now else reading.source,
            why=why[:MAX_WHY],
            commit=reading.review.commit,
            findings=findings_from_review(reading.review, reading.kind, reading.home),
        )
    )


def _judge_rejection(reading: ReviewReading) -> ReviewOutcome:
    task, submission = reading.task, reading.task.submission
    if submission is None or not (
        is_about_submission(reading.review, submission, reading.tree)
        or is_about_later_push(reading.review, task, submission)
    ):
        return _judge_other_work(reading)
    if is_same_account(reading.review.author, reading.pull.author):
        # Agents may share this account, so its other comments do not count.
        findings = findings_from_review(reading.review, reading.kind, reading.home)
    else:
        comments = comments_by_reviewer(reading, reading.review, submission)
        findings = select_findings(findings_from_comments(comments, reading.home))
    if not any(finding.is_blocking for finding in findings):
        return make_uncounted(reading, NOT_BLOCKING, is_for_now=True)
    return ReviewOutcome(
        ask=c.RejectReview(
            task_id=task.id, commit=submission.commit, findings=findings, source=reading.source
        )
    )


def _judge_approval(reading: ReviewReading) -> ReviewOutcome:
    task, pull, submission = reading.task, reading.pull, reading.task.submission
    if submission is None or not is_about_submission(reading.review, submission, reading.tree):
        return _judge_other_work(reading)
    if is_same_account(reading.review.author, pull.author):
        return make_uncounted(reading, OWN_ACCOUNT)
    was_rejected = any(
        one.commit == submission.commit or one.tree == submission.tree for one in task.reviews.rounds
    )
    if was_rejected and reading.review.submitted_at < submission.at:
        return make_uncounted(reading, "the same work was rejected after it")
    has_same_code = bool(reading.head_tree) and reading.head_tree == submission.tree
    if pull.head != submission.commit and not has_same_code:
        return make_uncounted(reading, f"the pull request has moved to {pull.head[:12]}")
    return ReviewOutcome(
        ask=c.ApproveReview(task_id=task.id, commit=submission.commit, source=reading.source)
    )


def _judge_other_work(reading: ReviewReading) -> ReviewOutcome:
    """A review of work not submitted yet waits for the submission; one of earlier work is recorded as uncounted."""
    task, review, submission = reading.task, reading.review, reading.task.submission
    is_early = submission is None or review.submitted_at >= submission.at
    if is_early and task.status in _UNSUBMITTED_STATUSES:
        return ReviewOutcome(
            waits_for=f"{task.id} to be submitted at {review.commit[:12]}, which was reviewed"
        )
    if reading.provisional_source in task.reviews.sources:
        return ReviewOutcome()
    return make_uncounted(reading, "it is about a commit other than the submitted one")


def merge_source(kind: str, pull: PullRequest) -> str:
    """The source of an event caused by a merge."""
    return f"{kind}:merge-{pull.number}@{pull.head}"


def is_merge_of(source: str, commit: str) -> bool:
    """True for the source of a merge of that commit."""
    return source.partition(":")[2].startswith("merge-") and source.endswith(f"@{commit}")


def is_new_merge(task: Task, source: str) -> bool:
    """True for a new merge of work that was not approved."""
    return task.status != Status.DONE and source not in task.reviews.sources


def judge_merge(
    task: Task, pull: PullRequest, by: Actor | None, source: str
) -> c.ApproveReview | c.NoteMerge:
    """The command for a merge: by a member with write access, at the submitted commit, it is that member's approval.

    Any other merge bypassed the review. `decide` says whether the member may approve.
    """
    submission = task.submission
    if task.status != Status.PROVISIONAL or submission is None or submission.commit != pull.head:
        return make_unapproved_merge(task, pull, by, source, f"{task.label} is {task.status}, not approved")
    if is_same_account(pull.merged_by, pull.author):
        return make_unapproved_merge(task, pull, by, source, OWN_ACCOUNT)
    if by is None:
        return make_unapproved_merge(task, pull, by, source, "nobody who may approve it did so")
    return c.ApproveReview(task_id=task.id, commit=submission.commit, source=source)


def make_unapproved_merge(
    task: Task, pull: PullRequest, by: Actor | None, source: str, why: str
) -> c.NoteMerge:
    who = by.name if by else account_name(pull.merged_by)
    return c.NoteMerge(task_id=task.id, by=who, commit=pull.head, why=why[:MAX_WHY], source=source)
