"""A forge in memory, for use cases that read one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from remand.app.forges.ports import (
    Account,
    CheckState,
    Comment,
    ForgeFault,
    PullRequest,
    Review,
    ReviewState,
    Usage,
)


def an_account(login: str, number: int = 0) -> Account:
    """An account; its id follows from its login unless given."""
    return Account(id=f"github:{number or sum(map(ord, login))}", login=f"github:{login}")


def a_review(
    author: Account | None, commit: str, state: ReviewState = ReviewState.CHANGES_REQUESTED, **fields: object
) -> Review:
    """A review that requests changes, unless it says otherwise."""
    standard: dict[str, object] = {
        "id": "R1",
        "text": "This has race conditions",
        "submitted_at": "2026-11-15T10:00:00.000000Z",
    }
    return Review(author=author, commit=commit, state=state, **{**standard, **fields})  # type: ignore[arg-type]


class MemoryForge:
    """Implements `Forge` over pull requests that a test puts there."""

    def __init__(self) -> None:
        self.pulls: dict[int, PullRequest] = {}
        self.writers: set[str] = set()
        self.faults: list[ForgeFault] = []
        """Raised one by one by the next questions."""
        self.broken: dict[int, ForgeFault] = {}
        """Raised whenever such a pull request is read."""
        self.refuses: ForgeFault | None = None
        """Raised whenever something is to be left."""
        self.statuses: list[tuple[str, CheckState]] = []
        self.left: list[tuple[int, str, tuple[Comment, ...]]] = []
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return self._usage

    def put(self, number: int, head: str, *reviews: Review, **fields: object) -> PullRequest:
        """Puts a pull request there, or changes it."""
        pull = PullRequest(number=number, head=head, reviews=reviews, **fields)  # type: ignore[arg-type]
        self.pulls[number] = pull
        return pull

    def change(self, number: int, **fields: object) -> None:
        """Changes a pull request."""
        self.pulls[number] = replace(self.pulls[number], **fields)

    def _asked(self) -> None:
        self._usage = self._usage._replace(requests=self._usage.requests + 1)
        if self.faults:
            raise self.faults.pop(0)

    def _left(self) -> None:
        self._asked()
        if self.refuses is not None:
            raise self.refuses

    def glance(self, numbers: Sequence[int]) -> dict[int, str]:
        """Whatever a pull request holds, as its mark."""
        self._asked()
        return {number: str(hash(self.pulls[number])) for number in numbers if number in self.pulls}

    def pull_request(self, number: int) -> PullRequest:
        """A pull request."""
        self._asked()
        if number in self.broken:
            raise self.broken[number]
        return self.pulls[number]

    def may_write(self, account: Account) -> bool:
        """True for whom the test lets write."""
        self._asked()
        return account.id in self.writers

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Keeps a status."""
        self._left()
        self.statuses.append((commit, state))

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[Comment]
    ) -> ReviewState:
        """Keeps a review."""
        self._left()
        self.left.append((number, text, tuple(comments)))
        return ReviewState.CHANGES_REQUESTED

    def comment(self, number: int, text: str) -> None:
        """Keeps a comment."""
        self._left()
        self.left.append((number, text, ()))

    def close(self) -> None:
        """Nothing is held."""


class MemoryNotes:
    """Marks that last as long as the test."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def get(self, key: str) -> str:
        """What was noted."""
        return self.kept.get(key, "")

    def put(self, key: str, value: str) -> None:
        """Notes it."""
        self.kept[key] = value
