"""Which reviews and merges on a forge count, for which commit, and which rejection each comment belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from remand.domain import commands as c
from remand.domain.access.team import REVIEWERS, Actor
from remand.domain.events.reviews import Finding
from remand.domain.instant import BEGINNING, add_seconds
from remand.domain.preconditions import MAX_FINDINGS
from remand.domain.pull_request.comments import (
    CommentPlace,
    PullComment,
    countable_comments,
    findings_from_comments,
    findings_from_review,
    is_own_review,
    is_rejecting_review,
    select_findings,
)
from remand.domain.pull_request.records import (
    ForgeReview,
    PullRequest,
    ReviewState,
    account_name,
    is_same_account,
)
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.task import ReviewRound, Status, Submission, Task


def counted_reviews(task: Task, pull: PullRequest) -> list[ForgeReview]:
    """Of every account its last opinion, and every comment that blocks one's own work; nothing that we left there.

    Those that say no come first: an approval of the same poll cannot overtake them.
    """
    latest: dict[str, ForgeReview] = {}
    for review in pull.reviews:
        is_own = is_same_account(review.author, pull.author)
        if (
            review.author is None
            or is_own_review(review, task)
            or not _counts_as_opinion(review, is_own=is_own)
        ):
            continue
        is_comment = review.state is ReviewState.COMMENTED
        latest[review.id if is_comment else review.author.id] = review
    return sorted(latest.values(), key=lambda review: review.state is ReviewState.APPROVED)


def _counts_as_opinion(review: ForgeReview, *, is_own: bool) -> bool:
    settled = (ReviewState.APPROVED, ReviewState.DISMISSED)
    return review.state in settled or is_rejecting_review(review, is_own=is_own)


def standing_objections(pull: PullRequest) -> list[ForgeReview]:
    """The reviews by which an account's last word on this very head is that it needs changes, however late it came."""
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


PROVISIONAL_MARK = "?"
"""Ends what a review is known by that is kept and judged again."""


def review_source(kind: str, review: ForgeReview) -> str:
    """Where a review was given, with the commit that it is bound to."""
    return f"{kind}:{review.id}@{review.commit}"


def provisional_source(kind: str, review: ForgeReview) -> str:
    """What a review is known by while it does not count and may count later."""
    return f"{kind}:{review.id}{PROVISIONAL_MARK}"


def source_review(source: str) -> str:
    """The forge and the id of a review, whichever commit it was bound to and whether it may count later."""
    return source.partition("@")[0].removesuffix(PROVISIONAL_MARK)


def is_known_review(task: Task, kind: str, review: ForgeReview) -> bool:
    """True when the review was taken in before, whatever it says and whatever commit the forge binds it to now."""
    own = f"{kind}:{review.id}"
    return any(source.partition("@")[0] == own for source in task.reviews.sources)


def make_forge_review_id(task_id: str, source: str) -> str:
    """The id of a review that was given elsewhere: the same in every ledger that takes it in."""
    return f"V-{sha256(f'{task_id} {source}'.encode()).hexdigest()[:16]}"


MAX_FORGE_CLOCK_LAG = 300.0
"""So many seconds the forge's clock may be behind ours, where that could swallow a no."""


class PullRequestReading(Record, kw_only=True):
    """A task's pull request as it was read, with what the repository knows of the commits it names."""

    task: Task
    pull: PullRequest
    kind: str
    """Of the forge."""
    home: str = ""
    """The repository's address there."""
    trees: dict[str, str] = {}  # noqa: RUF012 - a frozen record's default
    """The code trees of commits that reviews name, as far as they are known here."""

    def countable_comments(self) -> list[PullComment]:
        """What was said there, without what Remand reported and what the account said that opened it.

        Agents may share that account: what it says is theirs as much as anybody's.
        """
        known = [given.id for one in self.task.reviews.rounds for given in one.reviews]
        found = countable_comments(self.pull, self.kind, known, self.home)
        return [said for said in found if not is_same_account(said.author, self.pull.author)]


def is_about_submission(review: ForgeReview, submission: Submission, tree: str) -> bool:
    """True when a review is about the work that was handed in. One that names no commit is, when it came after it."""
    if not review.commit:
        return review.submitted_at >= submission.at
    return review.commit == submission.commit or (bool(tree) and tree == submission.tree)


def is_about_later_push(review: ForgeReview, task: Task, submission: Submission) -> bool:
    """True when a review came while the work was under review, of a head that was pushed on top of it.

    A reviewer can only review the head, so a push after handing in takes nothing away from a no. One of work that
    was handed in earlier, given late, is about that.
    """
    if task.status != Status.PROVISIONAL:
        return False
    earlier = {one.commit for one in task.reviews.rounds}
    given = add_seconds(review.submitted_at or BEGINNING, MAX_FORGE_CLOCK_LAG)
    return given >= submission.at and review.commit not in earlier


def comments_by_reviewer(
    reading: PullRequestReading, review: ForgeReview, submission: Submission
) -> list[PullComment]:
    """All that the giver of a review said of the work under review, with that review and besides it.

    What was handed on with a rejection of other work is left out.
    """
    told = {
        name
        for one in reading.task.standing_rounds
        if (one.handoff_id, one.tree) != (submission.handoff_id, submission.tree)
        for name in one.comments
    }
    every = reading.countable_comments()
    begun = {said.id: said for said in every}
    return [
        said
        for said in every
        if is_same_account(said.author, review.author)
        and said.id not in told
        and (_is_part_of(said, review) or _is_about_work(said, begun, reading, submission))
    ]


def _is_part_of(said: PullComment, review: ForgeReview) -> bool:
    return said.review is not None and said.review.id == review.id


def _is_about_work(
    said: PullComment, begun: Mapping[str, PullComment], reading: PullRequestReading, submission: Submission
) -> bool:
    """True for a comment on the work under review; in the discussion and as a reply, for one made since it was handed in."""
    if _is_after_submission(said, submission):
        return True
    review = begun.get(said.reply_to, said).review
    if review is None:
        return False
    tree = reading.trees.get(review.commit, "")
    return is_about_submission(review, submission, tree) or is_about_later_push(
        review, reading.task, submission
    )


def _is_after_submission(said: PullComment, submission: Submission) -> bool:
    is_timed = said.place is CommentPlace.DISCUSSION or bool(said.reply_to)
    return is_timed and bool(said.at) and said.at >= submission.at


def find_new_comments(reading: PullRequestReading) -> list[tuple[ReviewRound, PullComment]]:
    """The comments that belong to a rejection that stands and were not handed on with any, each with its rejection."""
    task = reading.task
    if task.is_terminal or not task.standing_rounds:
        return []
    told = {name for one in task.standing_rounds for name in one.comments}
    every = reading.countable_comments()
    begun = {said.id: said for said in every}
    fresh = ((said, _find_round(said, begun, reading)) for said in every if said.id not in told)
    return [(found, said) for said, found in fresh if found is not None]


def _find_round(
    said: PullComment, begun: Mapping[str, PullComment], reading: PullRequestReading
) -> ReviewRound | None:
    """The rejection that a comment belongs to: of the commit it is on, or of what was handed in before it was made."""
    task, submission = reading.task, reading.task.submission
    current = task.find_rejected_round(submission.handoff_id, submission.tree) if submission else None
    review = begun.get(said.reply_to, said).review
    if submission is not None and (
        _is_after_submission(said, submission) or _is_later_without_commit(review, submission)
    ):
        return current
    if review is None or not review.commit:
        return None
    tree = reading.trees.get(review.commit, "")
    rounds = reversed(task.standing_rounds)
    return next((one for one in rounds if _has_commit(one, review.commit, tree, reading)), None)


def _is_later_without_commit(review: ForgeReview | None, submission: Submission) -> bool:
    return review is not None and not review.commit and review.submitted_at >= submission.at


def _has_commit(one: ReviewRound, commit: str, tree: str, reading: PullRequestReading) -> bool:
    """True when a rejection is of that commit, of the same code, or was given on the forge on that commit."""
    if commit == one.commit or (tree and tree == one.tree):
        return True
    given = {review.id for review in one.reviews}
    return any(
        review.commit == commit
        and make_forge_review_id(reading.task.id, review_source(reading.kind, review)) in given
        for review in reading.pull.reviews
    )


def comment_commands(
    found: Sequence[tuple[ReviewRound, PullComment]],
    members: Mapping[str, Actor],
    reading: PullRequestReading,
) -> Iterator[tuple[Actor, c.AddComments]]:
    """What is to be added to rejections, by the reviewer who said it: members by the ids of their accounts.

    What others say is nobody's word.
    """
    groups: dict[tuple[str, str, str], list[PullComment]] = {}
    for one, said in found:
        member = members.get(said.author.id)
        if member is not None and member.has(*REVIEWERS):
            groups.setdefault((one.handoff_id, one.tree, said.author.id), []).append(said)
    for (handoff_id, tree, account), comments in groups.items():
        member, sent_back = members[account], reading.task.find_rejected_round(handoff_id, tree)
        has_rejected = sent_back is not None and sent_back.is_rejected_by(member.name)
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
"""Refusals that no later poll would take back: the review is kept as one that does not count."""
PROVISIONAL_REFUSALS = ("bad_value", "out_of_scope", "head_moved", "control_changed")
"""Refusals that a further comment, or another branch, may take back: the review is kept, and judged again when read."""
NOT_BLOCKING = "it has no blocking finding; a comment that begins with BLOCKING: makes it a rejection"
OWN_ACCOUNT = "it comes from the account that opened the pull request, which agents may share"
MAX_WHY = 500
_UNSUBMITTED_STATUSES = (Status.CLAIMED, Status.INCOMING, Status.NEEDS_CONTINUATION, Status.REJECTED)


class ReviewReading(PullRequestReading, kw_only=True):
    """A review as it was read, with all that has to be known to judge it."""

    review: ForgeReview
    member: Actor | None = None
    """Whose account wrote it; None when it is no member's."""
    may_write: bool = False
    """By the forge's word, just now."""
    tree: str = ""
    """The code tree of the commit the review names; empty when it is not known here."""
    head_tree: str = ""
    """The code tree of the pull request's head, likewise."""

    @property
    def source(self) -> str:
        """Where the review was given, with the commit that it was bound to when it was seen."""
        return review_source(self.kind, self.review)

    @property
    def provisional_source(self) -> str:
        """What the review is known by while it is kept and may count later."""
        return provisional_source(self.kind, self.review)


class ReviewOutcome(Record, kw_only=True):
    """What follows from a review: one ask, or what it waits for."""

    ask: c.ApproveReview | c.RejectReview | c.NoteReview | None = None
    waits_for: str = ""
    is_ignored: bool = False
    """It is nobody's word."""
    is_unsettled: bool = False
    """It has to be looked at again though nothing changes on the forge."""


def judge_review(seen: ReviewReading) -> ReviewOutcome:
    """What a review that was not taken in before counts for."""
    if seen.member is None:
        return ReviewOutcome(is_ignored=True)
    if not seen.may_write:
        who = account_name(seen.review.author)
        return ReviewOutcome(
            is_ignored=True, is_unsettled=True, waits_for=f"{who} to be allowed to write on the forge"
        )
    match seen.review.state:
        case ReviewState.DISMISSED:
            return make_uncounted(seen, "it was dismissed before Remand saw it")
        case ReviewState.APPROVED:
            return _judge_approval(seen)
        case _:
            return _judge_rejection(seen)


def judge_refusal(seen: ReviewReading, answer: Refused) -> ReviewOutcome:
    """What follows when the rules refused what a review asks for: it is kept, unless a later poll may bring it in."""
    if answer.code in FINAL_REFUSALS:
        return make_uncounted(seen, answer.message)
    if answer.code in PROVISIONAL_REFUSALS:
        return make_uncounted(seen, answer.message, is_for_now=True)
    return ReviewOutcome(is_unsettled=True, waits_for=f"{seen.task.id}: {answer.message}")


def make_uncounted(seen: ReviewReading, why: str, *, is_for_now: bool = False) -> ReviewOutcome:
    """A review that does not count, kept with the reason; `is_for_now`: it is judged again when it is read again."""
    return ReviewOutcome(
        ask=c.NoteReview(
            task_id=seen.task.id,
            reviewer=seen.member.name if seen.member else "",
            source=seen.provisional_source if is_for_now else seen.source,
            why=why[:MAX_WHY],
            commit=seen.review.commit,
            findings=findings_from_review(seen.review, seen.kind, seen.home),
        )
    )


def _judge_rejection(seen: ReviewReading) -> ReviewOutcome:
    task, submission = seen.task, seen.task.submission
    if submission is None or not (
        _is_about(seen, submission) or is_about_later_push(seen.review, task, submission)
    ):
        return _judge_other_work(seen)
    findings = _collect_findings(seen, submission)
    if not any(finding.is_blocking for finding in findings):
        return make_uncounted(seen, NOT_BLOCKING, is_for_now=True)
    return ReviewOutcome(
        ask=c.RejectReview(task_id=task.id, commit=submission.commit, findings=findings, source=seen.source)
    )


def _collect_findings(seen: ReviewReading, submission: Submission) -> tuple[Finding, ...]:
    """All that the reviewer said of the work; of the account that opened the pull request, this review alone."""
    if is_same_account(seen.review.author, seen.pull.author):
        return findings_from_review(seen.review, seen.kind, seen.home)
    return select_findings(
        findings_from_comments(comments_by_reviewer(seen, seen.review, submission), seen.home)
    )


def _judge_approval(seen: ReviewReading) -> ReviewOutcome:
    task, pull, submission = seen.task, seen.pull, seen.task.submission
    if submission is None or not _is_about(seen, submission):
        return _judge_other_work(seen)
    if is_same_account(seen.review.author, pull.author):
        return make_uncounted(seen, OWN_ACCOUNT)
    if _is_older_than_a_rejection(seen, submission):
        return make_uncounted(seen, "the same work was rejected after it")
    if pull.head != submission.commit and not _has_tree(seen.head_tree, submission):
        return make_uncounted(seen, f"the pull request has moved to {pull.head[:12]}")
    return ReviewOutcome(ask=c.ApproveReview(task_id=task.id, commit=submission.commit, source=seen.source))


def _judge_other_work(seen: ReviewReading) -> ReviewOutcome:
    """A review of what nobody has handed in yet waits for that; one of earlier work is kept and counts no more."""
    task, review, submission = seen.task, seen.review, seen.task.submission
    is_early = submission is None or review.submitted_at >= submission.at
    if is_early and task.status in _UNSUBMITTED_STATUSES:
        return ReviewOutcome(
            waits_for=f"{task.id} to be submitted at {review.commit[:12]}, which was reviewed"
        )
    if seen.provisional_source in task.reviews.sources:
        return ReviewOutcome()
    return make_uncounted(seen, "it is about a commit other than the submitted one")


def _is_about(seen: ReviewReading, submission: Submission) -> bool:
    return is_about_submission(seen.review, submission, seen.tree)


def _has_tree(tree: str, submission: Submission) -> bool:
    return bool(tree) and tree == submission.tree


def _is_older_than_a_rejection(seen: ReviewReading, submission: Submission) -> bool:
    """True when the same work was sent back before, and the review was given before it was handed in again."""
    rounds = seen.task.reviews.rounds
    was_rejected = any(one.commit == submission.commit or one.tree == submission.tree for one in rounds)
    return was_rejected and seen.review.submitted_at < submission.at


def merge_source(kind: str, pull: PullRequest) -> str:
    """What a merge is known by."""
    return f"{kind}:merge-{pull.number}@{pull.head}"


def is_merge_of(source: str, commit: str) -> bool:
    """True for what a merge of that commit is known by."""
    return source.partition(":")[2].startswith("merge-") and source.endswith(f"@{commit}")


def is_new_merge(task: Task, source: str) -> bool:
    """True for a merge that was not taken in before, of work that had not passed."""
    return task.status != Status.DONE and source not in task.reviews.sources


def judge_merge(
    task: Task, pull: PullRequest, by: Actor | None, source: str
) -> c.ApproveReview | c.NoteMerge:
    """What a merge stands for: by a member who may write, of what was handed in, it is that member's approval.

    Any other went past the rules. Whether the member may approve, the rules say when they are asked.
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
    """A merge that the rules had not let through."""
    who = by.name if by else account_name(pull.merged_by)
    return c.NoteMerge(task_id=task.id, by=who, commit=pull.head, why=why[:MAX_WHY], source=source)
