"""Which work a comment on a pull request is about, and which rejection it therefore belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from remand.domain import commands as c
from remand.domain.instant import BEGINNING, plus
from remand.domain.pulls.accounts import is_same
from remand.domain.pulls.findings import Place, PullComment, comments_of, findings_from
from remand.domain.pulls.shapes import PullRequest, Review
from remand.domain.pulls.sources import review_source
from remand.domain.record import Record
from remand.domain.reviews import forge_review_id
from remand.domain.roles import REVIEWERS, Actor
from remand.domain.rules import MAX_FINDINGS
from remand.domain.task import Round, Status, Submission, Task

CLOCKS_APART = 300.0
"""So many seconds the forge's clock may be behind ours, where that could swallow a no."""


class Reading(Record, kw_only=True):
    """A task's pull request as it was read, with what the repository knows of the commits it names."""

    task: Task
    pull: PullRequest
    kind: str
    """Of the forge."""
    home: str = ""
    """The repository's address there."""
    trees: dict[str, str] = {}  # noqa: RUF012 - a frozen record's default
    """The code trees of commits that reviews name, as far as they are known here."""

    def comments(self) -> list[PullComment]:
        """What was said there, without what Remand reported and what the account said that opened it.

        Agents may share that account: what it says is theirs as much as anybody's.
        """
        known = [given.id for one in self.task.rounds for given in one.reviews]
        found = comments_of(self.pull, self.kind, known, self.home)
        return [said for said in found if not is_same(said.author, self.pull.author)]


def is_about(review: Review, submission: Submission, tree: str) -> bool:
    """True when a review is about the work that was handed in. One that names no commit is, when it came after it."""
    if not review.commit:
        return review.submitted_at >= submission.at
    return review.commit == submission.commit or (bool(tree) and tree == submission.tree)


def is_of_what_followed(review: Review, task: Task, submission: Submission) -> bool:
    """True when a review came while the work was under review, of a head that was pushed on top of it.

    A reviewer can only review the head, so a push after handing in takes nothing away from a no. One of work that
    was handed in earlier, given late, is about that.
    """
    if task.status != Status.PROVISIONAL:
        return False
    earlier = {one.commit for one in task.rounds}
    given = plus(review.submitted_at or BEGINNING, CLOCKS_APART)
    return given >= submission.at and review.commit not in earlier


def of_reviewer(reading: Reading, review: Review, submission: Submission) -> list[PullComment]:
    """All that the giver of a review said of the work under review, with that review and besides it.

    What was handed on with a rejection of other work is left out.
    """
    told = {
        name
        for one in reading.task.standing_rounds
        if (one.handoff_id, one.tree) != (submission.handoff_id, submission.tree)
        for name in one.comments
    }
    every = reading.comments()
    begun = {said.id: said for said in every}
    return [
        said
        for said in every
        if is_same(said.author, review.author)
        and said.id not in told
        and (_is_part_of(said, review) or _is_of_work(said, begun, reading, submission))
    ]


def _is_part_of(said: PullComment, review: Review) -> bool:
    return said.review is not None and said.review.id == review.id


def _is_of_work(
    said: PullComment, begun: Mapping[str, PullComment], reading: Reading, submission: Submission
) -> bool:
    """True for a comment on the work under review; in the discussion and as a reply, for one made since it was handed in."""
    if _is_since(said, submission):
        return True
    review = begun.get(said.reply_to, said).review
    if review is None:
        return False
    tree = reading.trees.get(review.commit, "")
    return is_about(review, submission, tree) or is_of_what_followed(review, reading.task, submission)


def _is_since(said: PullComment, submission: Submission) -> bool:
    is_timed = said.place is Place.DISCUSSION or bool(said.reply_to)
    return is_timed and bool(said.at) and said.at >= submission.at


def additions(reading: Reading) -> list[tuple[Round, PullComment]]:
    """The comments that belong to a rejection that stands and were not handed on with any, each with its rejection."""
    task = reading.task
    if task.is_terminal or not task.standing_rounds:
        return []
    told = {name for one in task.standing_rounds for name in one.comments}
    every = reading.comments()
    begun = {said.id: said for said in every}
    fresh = ((said, _round_of(said, begun, reading)) for said in every if said.id not in told)
    return [(found, said) for said, found in fresh if found is not None]


def _round_of(said: PullComment, begun: Mapping[str, PullComment], reading: Reading) -> Round | None:
    """The rejection that a comment belongs to: of the commit it is on, or of what was handed in before it was made."""
    task, submission = reading.task, reading.task.submission
    current = task.sent_back(submission.handoff_id, submission.tree) if submission else None
    review = begun.get(said.reply_to, said).review
    if submission is not None and (_is_since(said, submission) or _names_none_since(review, submission)):
        return current
    if review is None or not review.commit:
        return None
    tree = reading.trees.get(review.commit, "")
    rounds = reversed(task.standing_rounds)
    return next((one for one in rounds if _has_commit(one, review.commit, tree, reading)), None)


def _names_none_since(review: Review | None, submission: Submission) -> bool:
    return review is not None and not review.commit and review.submitted_at >= submission.at


def _has_commit(one: Round, commit: str, tree: str, reading: Reading) -> bool:
    """True when a rejection is of that commit, of the same code, or was given on the forge on that commit."""
    if commit == one.commit or (tree and tree == one.tree):
        return True
    given = {review.id for review in one.reviews}
    return any(
        review.commit == commit
        and forge_review_id(reading.task.id, review_source(reading.kind, review)) in given
        for review in reading.pull.reviews
    )


def asks(
    found: Sequence[tuple[Round, PullComment]], members: Mapping[str, Actor], reading: Reading
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
        member, sent_back = members[account], reading.task.sent_back(handoff_id, tree)
        has_rejected = sent_back is not None and sent_back.is_rejected_by(member.name)
        findings = findings_from(comments, reading.home, has_rejected=has_rejected)
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
