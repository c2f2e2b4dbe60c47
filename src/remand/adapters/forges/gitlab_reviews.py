"""GitLab's JSON as records, and reviews assembled from its notes, threads, approvals and reviewers' states."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import inf
from typing import NamedTuple

from remand.adapters.forges.client import parse_time
from remand.domain.forge import Account, ForgeComment, ForgeReview, PullState, ReviewState
from remand.domain.instant import Instant, seconds_between
from remand.domain.record import Record

KIND = "gitlab"
GHOST = "ghost"
"""The author of everything that deleted accounts wrote."""
BOT = re.compile(r"(project|group)_\d+_bot(_[0-9a-z]+)?")
"""The accounts of project and group tokens."""
DEVELOPER = 30
"""The lowest access level with push access."""
STATES = {"merged": PullState.MERGED, "closed": PullState.CLOSED}


class GitLabUser(Record, kw_only=True):
    id: int
    username: str = ""
    bot: bool | None = None


class DiffRefs(Record, kw_only=True):
    """The commits that a diff compares."""

    base_sha: str | None = None
    start_sha: str | None = None
    head_sha: str | None = None


class MergeRequest(Record, kw_only=True):
    """A merge request, in a list or alone."""

    iid: int
    state: str
    sha: str | None = None
    diff_refs: DiffRefs | None = None
    source_branch: str | None = None
    author: GitLabUser | None = None
    merge_user: GitLabUser | None = None
    merged_by: GitLabUser | None = None
    merged_at: str | None = None
    updated_at: str | None = None
    user_notes_count: int | None = None
    detailed_merge_status: str | None = None
    blocking_discussions_resolved: bool | None = None
    web_url: str | None = None

    @property
    def head(self) -> str:
        refs = self.diff_refs or DiffRefs()
        return self.sha or refs.head_sha or ""

    @property
    def change_mark(self) -> str:
        """A mark that changes with every push and every note, including system notes."""
        counts = f"{self.user_notes_count} {self.blocking_discussions_resolved}"
        return f"{self.updated_at} {self.head} {self.state} {counts} {self.detailed_merge_status}"


class Version(Record, kw_only=True):
    """The diff of a merge request after a push."""

    id: int
    head_commit_sha: str | None = None
    created_at: str | None = None


class Position(Record, kw_only=True):
    """The position of a note in a diff."""

    new_path: str | None = None
    old_path: str | None = None
    new_line: int | None = None
    old_line: int | None = None


class GitLabNote(Record, kw_only=True):
    """A note by a person or, if `system`, by GitLab about an action."""

    id: int
    created_at: str
    body: str | None = None
    author: GitLabUser | None = None
    updated_at: str | None = None
    system: bool = False
    position: Position | None = None


class Discussion(Record, kw_only=True):
    """Notes that belong together. An individual note is not a thread and cannot be resolved."""

    id: str
    notes: tuple[GitLabNote, ...]
    individual_note: bool = False


class Reviewer(Record, kw_only=True):
    """A requested reviewer and the state of the review."""

    state: str
    user: GitLabUser | None = None
    created_at: str | None = None
    """When the review was requested, not when its state changed."""


class Approval(Record, kw_only=True):
    """An approval in force."""

    user: GitLabUser | None = None
    approved_at: str | None = None
    """Missing on older servers."""


class Approvals(Record, kw_only=True):
    approved_by: tuple[Approval, ...]


class GitLabMember(Record, kw_only=True):
    """A member's access to a project, directly or through a parent group."""

    id: int
    username: str
    access_level: int
    state: str = "active"

    def is_writer(self, account: Account) -> bool:
        """True if this is the account, under its current username, and it has push access."""
        is_same = account.id == f"{KIND}:{self.id}" and account.login == f"{KIND}:{self.username}"
        return is_same and self.state == "active" and self.access_level >= DEVELOPER


def account(user: GitLabUser | None) -> Account | None:
    """The account of a user; None if it was deleted."""
    if user is None or user.username == GHOST:
        return None
    is_bot = bool(user.bot) or BOT.fullmatch(user.username) is not None
    return Account(id=f"{KIND}:{user.id}", login=f"{KIND}:{user.username}", is_bot=is_bot)


OPINIONS = {
    "requested changes": ReviewState.CHANGES_REQUESTED,
    "approved this merge request": ReviewState.APPROVED,
}
TOGETHER = 5.0
"""The most seconds between a review's text and the system note about it; either may come first."""
BATCH = 60.0
"""The most seconds between threads that were started together."""
Thread = tuple[GitLabNote, ...]
"""The notes that people wrote in one discussion."""
LAST: Instant = "9999-12-31T23:59:59.999999Z"


class Opinion(NamedTuple):
    """A system note that somebody approved or requested changes."""

    author: GitLabUser
    state: ReviewState
    note: int
    time: Instant


class GitLabReviews:
    """The reviews of one merge request."""

    def __init__(
        self,
        *,
        discussions: Sequence[Discussion],
        versions: Sequence[Version],
        reviewers: Sequence[Reviewer],
        approvals: Sequence[Approval],
    ) -> None:
        self._versions = versions
        self._reviewers, self._approvals = reviewers, approvals
        self._opinions = sorted(_opinions(discussions), key=lambda opinion: (opinion.time, opinion.note))
        plain = [note for one in discussions for note in one.notes if one.individual_note and not note.system]
        self._plain = sorted(plain, key=lambda note: note.id)
        self._texts = {opinion.note: note for opinion in self._opinions for note in self._notes_with(opinion)}
        """The note that was written along with each opinion, keyed by the opinion's note."""
        self._threads: dict[int, list[Thread]] = defaultdict(list)
        """Threads keyed by the opinion that followed them; under 0 those without one."""
        for discussion in discussions:
            thread = tuple(note for note in discussion.notes if not note.system)
            if thread and not discussion.individual_note:
                self._threads[self._opinion_after(thread[0])].append(thread)

    def reviews(self) -> tuple[ForgeReview, ...]:
        """Every review, oldest first. Of those without a known time, approvals come first and rejections last."""
        reviews = (
            *map(self._review, self._opinions),
            *self._comment_reviews(),
            *self._reviews_without_notes(),
        )

        def order(review: ForgeReview) -> Instant:
            is_rejection = review.state is ReviewState.CHANGES_REQUESTED
            return review.submitted_at or (LAST if is_rejection else "")

        return tuple(sorted(reviews, key=order))

    def remarks(self) -> tuple[ForgeComment, ...]:
        """Comments outside of reviews and threads."""
        used = {note.id for note in self._texts.values()}
        return tuple(_comment(note) for note in self._plain if note.id not in used)

    def _notes_with(self, opinion: Opinion) -> list[GitLabNote]:
        """The note that its author wrote next to an opinion, if there is exactly one."""

        def distance(note: GitLabNote) -> float:
            return _seconds_between(opinion.time, parse_time(note.created_at))

        own = [note for note in self._plain if note.author and note.author.id == opinion.author.id]
        return [note for note in sorted(own, key=distance)[:1] if distance(note) <= TOGETHER]

    def _opinion_after(self, note: GitLabNote) -> int:
        """The first opinion that the author gave after a note, unless it is about another commit."""
        time = parse_time(note.created_at)
        opinion = next((one for one in self._opinions_of(note.author) if one.time >= time), None)
        if opinion is None:
            return 0
        heads = {head_at(self._versions, time), head_at(self._versions, opinion.time)} - {""}
        return opinion.note if len(heads) < 2 else 0

    def _opinions_of(self, author: GitLabUser | None) -> Iterator[Opinion]:
        return (one for one in self._opinions if author is not None and one.author.id == author.id)

    def _review(self, opinion: Opinion) -> ForgeReview:
        text = self._texts.get(opinion.note)
        return ForgeReview(
            id=f"{opinion.state}-{opinion.author.id}-{opinion.note}",
            state=opinion.state if self._is_in_force(opinion) else ReviewState.DISMISSED,
            author=account(opinion.author),
            text=text.body or "" if text is not None else "",
            commit=head_at(self._versions, opinion.time),
            submitted_at=opinion.time,
            comments=self._comments(self._threads.get(opinion.note, ())),
        )

    def _is_in_force(self, opinion: Opinion) -> bool:
        """False for an approval that was revoked or reset, by its author or by a push."""
        if opinion.state is not ReviewState.APPROVED:
            return True
        approving = {one.user.id for one in self._approvals if one.user is not None}
        last = [one for one in self._opinions_of(opinion.author) if one.state is opinion.state][-1]
        return opinion.author.id in approving and opinion is last

    def _comment_reviews(self) -> Iterator[ForgeReview]:
        """Threads that no opinion has followed yet: those that one person started together form a comment review."""
        batches: dict[tuple[int, str], list[list[Thread]]] = {}
        for thread in self._threads.get(0, ()):
            author, time = thread[0].author, parse_time(thread[0].created_at)
            key = (author.id if author is not None else 0, head_at(self._versions, time))
            batch = batches.setdefault(key, [[]])
            if batch[-1] and _seconds_between(parse_time(batch[-1][-1][0].created_at), time) > BATCH:
                batch.append([])
            batch[-1].append(thread)
        for (author_id, head), found in batches.items():
            for threads in found:
                first = threads[0][0]
                yield ForgeReview(
                    id=f"{ReviewState.COMMENTED}-{author_id}-{first.id}",
                    state=ReviewState.COMMENTED,
                    author=account(first.author),
                    commit=head,
                    submitted_at=parse_time(first.created_at),
                    comments=self._comments(threads),
                )

    def _reviews_without_notes(self) -> Iterator[ForgeReview]:
        """Reviews known only from reviewers' states and approvals. Only an approval may have a time."""
        noted = {(one.author.id, one.state) for one in self._opinions}
        for reviewer in self._reviewers:
            if reviewer.user is None or reviewer.state != "requested_changes":
                continue
            if (reviewer.user.id, ReviewState.CHANGES_REQUESTED) not in noted:
                mark = parse_time(reviewer.created_at)
                yield self._review_at(reviewer.user, ReviewState.CHANGES_REQUESTED, mark, "")
        for approval in self._approvals:
            if approval.user is not None and (approval.user.id, ReviewState.APPROVED) not in noted:
                time = parse_time(approval.approved_at)
                yield self._review_at(approval.user, ReviewState.APPROVED, time, time)

    def _review_at(self, author: GitLabUser, state: ReviewState, mark: str, time: Instant) -> ForgeReview:
        return ForgeReview(
            id=f"{state}-{author.id}-{mark}",
            state=state,
            author=account(author),
            commit=head_at(self._versions, time),
            submitted_at=time,
        )

    def _comments(self, threads: Iterable[Thread]) -> tuple[ForgeComment, ...]:
        return tuple(
            _comment(note, reply_to=str(thread[0].id) if note is not thread[0] else "")
            for thread in threads
            for note in thread
        )


def head_at(versions: Iterable[Version], time: Instant) -> str:
    """The commit that was the head at a time; empty if that is uncertain."""
    dated = sorted((parse_time(one.created_at), one.id, one.head_commit_sha or "") for one in versions)
    if not time or any(not when or when == time for when, _, _ in dated):
        return ""
    return next((head for when, _, head in reversed(dated) if when < time), "")


def _opinions(discussions: Iterable[Discussion]) -> Iterator[Opinion]:
    for note in chain.from_iterable(one.notes for one in discussions):
        state, time = OPINIONS.get((note.body or "").strip()), parse_time(note.created_at)
        if note.system and note.author is not None and state is not None and time:
            yield Opinion(note.author, state, note.id, time)


def _seconds_between(one: Instant, other: Instant) -> float:
    """The seconds between two times; infinite if one is unknown."""
    return abs(seconds_between(one, other)) if one and other else inf


def _comment(note: GitLabNote, reply_to: str = "") -> ForgeComment:
    place = note.position or Position()
    return ForgeComment(
        id=str(note.id),
        text=note.body or "",
        author=account(note.author),
        path=place.new_path or place.old_path or "",
        line=place.new_line or place.old_line or 0,
        created_at=parse_time(note.created_at),
        updated_at=parse_time(note.updated_at),
        is_edited=_seconds_between(parse_time(note.created_at), parse_time(note.updated_at)) > 1,
        reply_to=reply_to,
    )
