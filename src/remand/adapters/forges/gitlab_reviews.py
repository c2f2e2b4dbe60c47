"""Makes reviews of what GitLab keeps apart: notes of the system, threads, approvals and the reviewers' states.

GitLab has no reviews with an id and a commit. It leaves a note of the system when somebody requests changes or
approves, which has an id and a time; the versions of the diff tell which commit was the head then. A review whose
time cannot be told has the commit "" and counts for no submission, unless its time is after it.

Requested changes stay what they are until the same person approves. A review that is asked for again resets the
reviewer's state, and the author may ask for it: it takes nothing back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import inf
from typing import NamedTuple

from remand.adapters.forges.gitlab_shapes import (
    Approval,
    Discussion,
    MergeRequest,
    Note,
    Position,
    Reviewer,
    User,
    Version,
    account,
    at,
)
from remand.domain.instant import Instant, moment
from remand.domain.pulls.shapes import Comment, Review, ReviewState

OPINIONS = {
    "requested changes": ReviewState.CHANGES_REQUESTED,
    "approved this merge request": ReviewState.APPROVED,
}
TOGETHER = 5.0
"""Seconds at most between a review's own text and the note of the system about it; either may come first."""
BATCH = 60.0
"""Seconds at most between threads that were begun together."""
LAST: Instant = "9999-12-31T23:59:59.999999Z"


class Material(NamedTuple):
    """What was asked of GitLab about one merge request."""

    request: MergeRequest
    discussions: Sequence[Discussion]
    versions: Sequence[Version]
    reviewers: Sequence[Reviewer]
    approvals: Sequence[Approval]


class Opinion(NamedTuple):
    """A note of the system that says what somebody thinks of the work."""

    author: User
    state: ReviewState
    note: int
    time: Instant


class Thread(NamedTuple):
    """What people said in a discussion that was begun by the first of them."""

    notes: tuple[Note, ...]

    @property
    def first(self) -> Note:
        """What it begins with."""
        return self.notes[0]

    @property
    def is_resolved(self) -> bool:
        """True when everything in it that can be settled is."""
        settled = [bool(note.resolved) for note in self.notes if note.resolvable]
        return bool(settled) and all(settled)


class Reviews:
    """The reviews of one merge request."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._opinions = sorted(_opinions(material.discussions), key=lambda one: (one.time, one.note))
        self._plain = sorted(_plain_notes(material.discussions), key=lambda note: note.id)
        self._texts = {one.note: note for one in self._opinions for note in self._said_with(one)}
        """What was said along with each opinion, by its note."""
        self._threads: dict[int, list[Thread]] = {}
        """Threads by the opinion that followed them; by 0 those that none did."""
        for thread in _threads(material.discussions):
            self._threads.setdefault(self._opinion_after(thread.first), []).append(thread)

    def reviews(self) -> tuple[Review, ...]:
        """Every review, oldest first. Of no known time, an approval is the first and a rejection the last word."""
        found = (*map(self._review, self._opinions), *self._loose(), *self._unnoted())
        return tuple(sorted(found, key=_order))

    def remarks(self) -> tuple[Comment, ...]:
        """What was said outside of reviews and threads."""
        used = {note.id for note in self._texts.values()}
        return tuple(_comment(self._material.request, note) for note in self._plain if note.id not in used)

    def _said_with(self, opinion: Opinion) -> list[Note]:
        """The one note that its author wrote next to an opinion, if any."""
        by_author = [note for note in self._plain if _is_by(note, opinion)]
        nearest = sorted(by_author, key=lambda note: _apart(opinion.time, at(note.created_at)))[:1]
        return [note for note in nearest if _apart(opinion.time, at(note.created_at)) <= TOGETHER]

    def _opinion_after(self, note: Note) -> int:
        """The first opinion that its author gave after a note, unless that is about another commit."""
        time, versions = at(note.created_at), self._material.versions
        found = next((one for one in self._opinions_of(note.author) if one.time >= time), None)
        if found is None:
            return 0
        heads = {head_at(versions, time), head_at(versions, found.time)} - {""}
        return found.note if len(heads) < 2 else 0

    def _opinions_of(self, author: User | None) -> Iterator[Opinion]:
        return (one for one in self._opinions if author is not None and one.author.id == author.id)

    def _review(self, opinion: Opinion) -> Review:
        text, url = self._texts.get(opinion.note), self._material.request.web_url
        return Review(
            id=f"{opinion.state}-{opinion.author.id}-{opinion.note}",
            state=opinion.state if self._is_standing(opinion) else ReviewState.DISMISSED,
            author=account(opinion.author),
            text=text.body or "" if text is not None else "",
            commit=head_at(self._material.versions, opinion.time),
            submitted_at=opinion.time,
            updated_at=max(opinion.time, at(text.updated_at) if text is not None else ""),
            comments=self._comments(self._threads.get(opinion.note, ())),
            url=f"{url}#note_{opinion.note}" if url else "",
        )

    def _is_standing(self, opinion: Opinion) -> bool:
        """False for an approval that was taken back or reset, by its giver or by a push."""
        if opinion.state is not ReviewState.APPROVED:
            return True
        approving = {one.user.id for one in self._material.approvals if one.user is not None}
        last = [one for one in self._opinions_of(opinion.author) if one.state is opinion.state][-1]
        return opinion.author.id in approving and opinion is last

    def _loose(self) -> Iterator[Review]:
        """Threads that no opinion followed yet: those that one person began together are a review of comments."""
        batches: dict[tuple[int, str], list[list[Thread]]] = {}
        for thread in self._threads.get(0, ()):
            author, time = thread.first.author, at(thread.first.created_at)
            key = (author.id if author is not None else 0, head_at(self._material.versions, time))
            batch = batches.setdefault(key, [[]])
            if batch[-1] and _apart(at(batch[-1][-1].first.created_at), time) > BATCH:
                batch.append([])
            batch[-1].append(thread)
        for (author_id, head), found in batches.items():
            yield from (self._commented(author_id, head, threads) for threads in found)

    def _commented(self, author_id: int, head: str, threads: Sequence[Thread]) -> Review:
        first = threads[0].first
        return Review(
            id=f"{ReviewState.COMMENTED}-{author_id}-{first.id}",
            state=ReviewState.COMMENTED,
            author=account(first.author),
            commit=head,
            submitted_at=at(first.created_at),
            updated_at=at(first.created_at),
            comments=self._comments(threads),
        )

    def _unnoted(self) -> Iterator[Review]:
        """What reviewers' states and approvals say and no note does. Only an approval's time may be known."""
        noted = {(one.author.id, one.state) for one in self._opinions}
        for one in self._material.reviewers:
            if one.user is None or one.state != "requested_changes":
                continue
            if (one.user.id, ReviewState.CHANGES_REQUESTED) not in noted:
                yield self._undated(one.user, ReviewState.CHANGES_REQUESTED, at(one.created_at), "")
        for approval in self._material.approvals:
            if approval.user is not None and (approval.user.id, ReviewState.APPROVED) not in noted:
                time = at(approval.approved_at)
                yield self._undated(approval.user, ReviewState.APPROVED, time, time)

    def _undated(self, author: User, state: ReviewState, mark: str, time: Instant) -> Review:
        return Review(
            id=f"{state}-{author.id}-{mark}",
            state=state,
            author=account(author),
            commit=head_at(self._material.versions, time),
            submitted_at=time,
            updated_at=time,
        )

    def _comments(self, threads: Iterable[Thread]) -> tuple[Comment, ...]:
        return tuple(
            _comment(
                self._material.request,
                note,
                is_resolved=thread.is_resolved,
                reply_to=str(thread.first.id) if note is not thread.first else "",
            )
            for thread in threads
            for note in thread.notes
        )


def _order(review: Review) -> Instant:
    is_rejection = review.state is ReviewState.CHANGES_REQUESTED
    return review.submitted_at or (LAST if is_rejection else "")


def head_at(versions: Iterable[Version], time: Instant) -> str:
    """The commit that was the head at a time; empty when that cannot be told for certain."""
    dated = sorted((at(one.created_at), one.id, one.head_commit_sha or "") for one in versions)
    if not time or any(not when or when == time for when, _, _ in dated):
        return ""
    return next((head for when, _, head in reversed(dated) if when < time), "")


def _opinions(discussions: Iterable[Discussion]) -> Iterator[Opinion]:
    for note in chain.from_iterable(one.notes for one in discussions):
        state, time = OPINIONS.get((note.body or "").strip()), at(note.created_at)
        if note.system and note.author is not None and state is not None and time:
            yield Opinion(note.author, state, note.id, time)


def _is_by(note: Note, opinion: Opinion) -> bool:
    return note.author is not None and note.author.id == opinion.author.id


def _apart(one: Instant, other: Instant) -> float:
    """Seconds between two times; more than any when one is not known."""
    return abs((moment(one) - moment(other)).total_seconds()) if one and other else inf


def _plain_notes(discussions: Iterable[Discussion]) -> Iterator[Note]:
    for one in discussions:
        yield from (note for note in one.notes if one.individual_note and not note.system)


def _threads(discussions: Iterable[Discussion]) -> Iterator[Thread]:
    for one in discussions:
        said = tuple(note for note in one.notes if not note.system)
        if said and not one.individual_note:
            yield Thread(said)


def _comment(request: MergeRequest, note: Note, *, is_resolved: bool = False, reply_to: str = "") -> Comment:
    place = note.position or Position()
    is_outdated = place.head_sha is not None and bool(request.head) and place.head_sha != request.head
    return Comment(
        id=str(note.id),
        text=note.body or "",
        author=account(note.author),
        path=place.new_path or place.old_path or "",
        line=place.new_line or place.old_line or 0,
        created_at=at(note.created_at),
        updated_at=at(note.updated_at),
        is_edited=_apart(at(note.created_at), at(note.updated_at)) > 1,
        is_resolved=is_resolved,
        is_outdated=is_outdated,
        reply_to=reply_to,
        url=f"{request.web_url}#note_{note.id}" if request.web_url else "",
    )
