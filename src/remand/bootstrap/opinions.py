"""Reviewers and directors that are agents, for an opened ledger."""

from __future__ import annotations

import secrets

from remand.app.scheduling.books import Books
from remand.app.scheduling.opinions import Opinions
from remand.bootstrap.ledger import Opened
from remand.bootstrap.patches import changed_since, submitted_change
from remand.domain.reviewing.change import Change
from remand.domain.task import Submission, Task

LONGEST_CHANGE = 200_000
"""How many characters of a change a reviewer is shown at once; the rest it looks up."""
MARK_BYTES = 16


def make_opinions(opened: Opened, books: Books) -> Opinions:
    """What is asked of agents in place of people, for one ledger."""
    return Opinions(books, _Changes(opened), lambda: secrets.token_hex(MARK_BYTES))


class _Changes:
    """What submissions change, by the ledger's own repository."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def submitted(self, task: Task, submission: Submission) -> Change:
        """What a submission changes."""
        return submitted_change(self._opened, task, submission, longest=LONGEST_CHANGE)

    def since(self, task: Task, commit: str) -> dict[str, tuple[str, ...]]:
        """The files that are different since earlier rejections."""
        return changed_since(self._opened, task, commit)
