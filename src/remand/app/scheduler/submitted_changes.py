"""What a submission changes, for its reviewer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from remand.app.errors import EnvironmentFault
from remand.app.ledger import Ledger
from remand.domain.reviewer import RenderedChange, SubmittedChange
from remand.domain.task import Submission, Task

MAX_ROUNDS = 5
"""Of how many rejected commits it is said what has changed since."""


class Patches(Protocol):
    """What differs between commits, by the repository's own word."""

    def fork_point(self, base: str, commit: str) -> str:
        """Where a commit left a base; empty when they have no common history."""

    def changed_paths(self, one: str, other: str) -> tuple[str, ...] | None:
        """The files that differ; None when a commit is not here."""

    def read_patch(
        self, since: str, commit: str, paths: Sequence[str], longest: int, *, control: Sequence[str]
    ) -> RenderedChange:
        """The change as a reviewer reads it, no longer than that."""


class SubmittedChanges:
    """What submissions change, by the ledger's own repository."""

    def __init__(self, ledger: Ledger, patches: Patches, base_tip: Callable[[], str], longest: int) -> None:
        self._ledger = ledger
        self._patches = patches
        self._base_tip = base_tip
        self._longest = longest

    def submission_change(
        self, task: Task, submission: Submission, paths: Sequence[str] = ()
    ) -> SubmittedChange:
        """What a submission changes; of the given files alone, where some are given."""
        found = self._ledger.difference(task, submission.commit)
        if found is None:
            raise EnvironmentFault(
                f"Remand cannot tell what {submission.commit[:12]} changes: it and the base branch have no common history."
            )
        since = self._patches.fork_point(self._base_tip(), submission.commit)
        if not since or since == submission.commit:
            since = self._patches.fork_point(submission.base, submission.commit)
        control = self._ledger.control.find_change(task, submission.commit)
        shown = self._patches.read_patch(
            since, submission.commit, paths, self._longest, control=control.paths
        )
        control_paths = (
            path.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for path in control.paths
        )
        forbidden = self._ledger.control.forbidden_changes_under_review(task, submission.commit)
        return SubmittedChange(
            commit=submission.commit,
            since=since,
            paths=tuple(dict.fromkeys((*found.paths, *control_paths))),
            text=shown.text,
            unshown=shown.unshown,
            event_files=control.event_files,
            control="; ".join(f"in {change.commit[:12]} {change.text}" for change in forbidden),
        )

    def since(self, task: Task, commit: str) -> dict[str, tuple[str, ...]]:
        """Of each commit of a task that was rejected, the files that are different now; of the last few alone."""
        rejected = [review.commit for review in task.standing_rounds[-MAX_ROUNDS:]]
        found = {before: self._patches.changed_paths(before, commit) for before in rejected}
        return {before: paths for before, paths in found.items() if paths is not None}
