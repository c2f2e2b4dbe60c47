"""A forge and a remote in memory, for use cases that read and write one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from remand.app.forge.ports import CheckState, ForgeFault, ForgeFaultKind, ForgeIssue, OpenPull, Usage
from remand.domain.forge import (
    Account,
    ForgeComment,
    ForgeReview,
    PullRequest,
    PullState,
    ReviewState,
)


def an_account(login: str, number: int = 0) -> Account:
    """An account; by default its id follows from its login."""
    return Account(id=f"github:{number or sum(map(ord, login))}", login=f"github:{login}")


def a_review(
    author: Account | None, commit: str, state: ReviewState = ReviewState.CHANGES_REQUESTED, **fields: object
) -> ForgeReview:
    """A review; by default it requests changes."""
    standard: dict[str, object] = {
        "id": "R1",
        "text": "This has race conditions",
        "submitted_at": "2026-11-15T10:00:00.000000Z",
    }
    return ForgeReview(author=author, commit=commit, state=state, **{**standard, **fields})  # type: ignore[arg-type]


class MemoryForge:
    """Implements `Forge` with pull requests that a test adds."""

    def __init__(self) -> None:
        self.pulls: dict[int, PullRequest] = {}
        self.writers: set[str] = set()
        self.faults: list[ForgeFault] = []
        """Raised one by one by the next questions."""
        self.broken: dict[int, ForgeFault] = {}
        """Raised whenever such a pull request is read."""
        self.refuses: ForgeFault | None = None
        """Raised whenever something is to be left."""
        self.listed: dict[int, ForgeIssue] = {}
        """The issues there are."""
        self.closed: list[tuple[int, str]] = []
        """Which of them were closed, and what was said with it."""
        self.tips: dict[str, str] = {}
        """The commits that branches are at."""
        self.drafts: list[int] = []
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        """Who was asked for a review."""
        self.merges: list[tuple[int, str]] = []
        self.statuses: list[tuple[str, CheckState]] = []
        self.left: list[tuple[int, str, tuple[ForgeComment, ...]]] = []
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """The number of requests so far."""
        return self._usage

    def put(self, number: int, head: str, *reviews: ForgeReview, **fields: object) -> PullRequest:
        """Adds a pull request, or changes it."""
        pull = PullRequest(number=number, head=head, reviews=reviews, **fields)  # type: ignore[arg-type]
        self.pulls[number] = pull
        return pull

    def change(self, number: int, **fields: object) -> None:
        """Changes a pull request."""
        self.pulls[number] = replace(self.pulls[number], **fields)

    def _count_request(self) -> None:
        self._usage = self._usage._replace(requests=self._usage.requests + 1)
        if self.faults:
            raise self.faults.pop(0)

    def _count_write(self) -> None:
        self._count_request()
        if self.refuses is not None:
            raise self.refuses

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """Each pull request's content, as its mark."""
        self._count_request()
        return {number: str(hash(self.pulls[number])) for number in numbers if number in self.pulls}

    def pull_request(self, number: int) -> PullRequest:
        """A pull request."""
        self._count_request()
        if number in self.broken:
            raise self.broken[number]
        return self.pulls[number]

    def may_write(self, account: Account) -> bool:
        """True for the accounts that the test permits."""
        self._count_request()
        return account.id in self.writers

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Stores a status."""
        self._count_write()
        self.statuses.append((commit, state))

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        """Stores a review."""
        self._count_write()
        self.left.append((number, text, tuple(comments)))
        return ReviewState.CHANGES_REQUESTED

    def comment(self, number: int, text: str) -> None:
        """Stores a comment."""
        self._count_write()
        self.left.append((number, text, ()))

    def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch."""
        self._count_request()
        is_of = (
            pull for pull in self.pulls.values() if (pull.branch, pull.state) == (branch, PullState.OPEN)
        )
        return next((self._open_pull(pull) for pull in is_of), None)

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens one, at the given commit of the branch."""
        self._count_write()
        if any((pull.branch, pull.state) == (branch, PullState.OPEN) for pull in self.pulls.values()):
            raise ForgeFault(ForgeFaultKind.REFUSED, "There is one of that branch.")
        number = max(self.pulls, default=0) + 1
        self.drafts.append(number)
        self.left.append((number, text, ()))
        return self._open_pull(self.put(number, self.tips.get(branch, ""), branch=branch))

    def _open_pull(self, pull: PullRequest) -> OpenPull:
        return OpenPull(number=pull.number, head=pull.head, is_draft=pull.number in self.drafts)

    def mark_ready(self, number: int) -> None:
        """Marks a draft as ready."""
        self._count_write()
        self.drafts = [one for one in self.drafts if one != number]

    def request_review(self, number: int, names: Sequence[str]) -> None:
        """Stores the requested reviewers."""
        self._count_write()
        self.asked.append((number, tuple(names)))

    def merge(self, number: int, commit: str) -> None:
        """Merges if the commit is the head."""
        self._count_write()
        if self.pulls[number].head != commit or self.pulls[number].state is not PullState.OPEN:
            raise ForgeFault(ForgeFaultKind.REFUSED, "The head is another commit, or it is not open.")
        self.merges.append((number, commit))
        self.change(number, state=PullState.MERGED)

    def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label."""
        self._count_request()
        return [one for one in self.listed.values() if one.is_open and label in one.labels]

    def issue(self, number: int) -> ForgeIssue:
        """One issue."""
        self._count_request()
        return self.listed[number]

    def close_issue(self, number: int, text: str, *, is_done: bool) -> None:
        """Closes an issue."""
        self._count_write()
        self.closed.append((number, text))
        self.listed[number] = replace(self.listed[number], is_open=False)

    def close(self) -> None:
        """Does nothing."""


class MemoryRemote:
    """Implements `Remote` with branches that a test adds."""

    def __init__(self, tips: dict[str, str], main: str = "main") -> None:
        self.tips, self._main = tips, main
        self.behind: set[tuple[str, str]] = set()
        """Pairs of commits, of which the second comes after the first."""
        self.pushes: list[tuple[str, str, str]] = []
        self.faults: list[ForgeFault] = []
        """Raised one by one by the next questions."""
        self.refuses: ForgeFault | None = None
        """Raised whenever something is pushed."""

    def tip(self, branch: str) -> str:
        """The tip of a branch."""
        if self.faults:
            raise self.faults.pop(0)
        return self.tips.get(branch, "")

    def is_main(self, branch: str) -> bool:
        """True for the branch that the test names."""
        return branch == self._main

    def is_ahead(self, commit: str, tip: str) -> bool:
        """True for the pairs that the test names."""
        return (tip, commit) in self.behind

    def push(self, commit: str, branch: str, over: str) -> None:
        """Moves a branch if it is at the expected commit."""
        if self.refuses is not None:
            raise self.refuses
        if self.tips.get(branch, "") != over:
            raise ForgeFault(ForgeFaultKind.REFUSED, "The branch is elsewhere.")
        self.pushes.append((commit, branch, over))
        self.tips[branch] = commit


class MemoryNotes:
    """Marks that last as long as the test."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def get(self, key: str) -> str:
        """A mark."""
        return self.kept.get(key, "")

    def put(self, key: str, value: str) -> None:
        """Stores a mark."""
        self.kept[key] = value
