"""What the forge does on request, with the token's rights, and what it refuses; each dialect has its own words for that."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from enum import StrEnum

from remand.domain.forge import PullState
from tests.support.forge.state import ForgeState, Person, StoredIssue, StoredPull

COLLABORATORS = ("triage", "write", "maintain", "admin")


class RefusalReason(StrEnum):
    """Why the forge will not do something."""

    EXISTS = "there is one of that branch already"
    NO_BRANCH = "there is no such branch"
    NO_DRAFTS = "it has no drafts"
    OWN_WORK = "the author cannot be asked"
    NO_COLLABORATOR = "only collaborators can be asked"
    MOVED = "the head is another commit"
    DRAFT = "it is a draft"
    NOT_OPEN = "it is not open"
    METHOD = "it is not merged that way here"
    CHECKS = "a check that is required did not pass"


class ForgeRefusal(Exception):  # noqa: N818 - what the forge answers
    """The forge says no."""

    def __init__(self, why: RefusalReason) -> None:
        super().__init__(why.value)
        self.why = why


class RepositoryActions:
    """Does things in a forge's state, for whoever has the token."""

    def __init__(self, state: ForgeState) -> None:
        self.state = state

    def sync_branches(self) -> None:
        """Lets branches, and the pull requests of them, be where they were pushed to."""
        if not self.state.settings.repository:
            return
        refs = subprocess.run(
            ["git", "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads"],
            cwd=self.state.settings.repository,
            capture_output=True,
            check=True,
        )
        rows = (line.rpartition(" ") for line in refs.stdout.decode().splitlines())
        self.state.tips = {name: tip for name, _, tip in rows}
        for pull in self.state.pulls.values():
            tip = self.state.tips.get(pull.branch, pull.head)
            if pull.state is PullState.OPEN and not pull.is_of_a_fork and tip != pull.head:
                self.state.push(pull, tip)

    def open(self, branch: str, base: str, title: str, text: str, *, is_draft: bool) -> StoredPull:
        """Opens a pull request of a branch that is there."""
        if is_draft and not self.state.settings.has_drafts:
            raise ForgeRefusal(RefusalReason.NO_DRAFTS)
        if branch not in self.state.tips:
            raise ForgeRefusal(RefusalReason.NO_BRANCH)
        for pull in self.state.pulls.values():
            if (pull.state, pull.branch, pull.base) == (
                PullState.OPEN,
                branch,
                base,
            ) and not pull.is_of_a_fork:
                raise ForgeRefusal(RefusalReason.EXISTS)
        pull = self.state.open(self.state.viewer, head=self.state.tips[branch], branch=branch)
        pull.base, pull.title, pull.text, pull.is_draft = base, title, text, is_draft
        return pull

    def request_review(self, pull: StoredPull, people: Sequence[Person | None]) -> None:
        """Asks people to review: all of them, or none."""
        if any(one is pull.author for one in people):
            raise ForgeRefusal(RefusalReason.OWN_WORK)
        if any(one is None or one.permission not in COLLABORATORS for one in people):
            raise ForgeRefusal(RefusalReason.NO_COLLABORATOR)
        pull.requested += [one for one in people if one is not None and one not in pull.requested]

    def merge(self, pull: StoredPull, commit: str, method: str = "merge") -> None:
        """Merges while the commit is the head."""
        for why, is_so in (
            (RefusalReason.NOT_OPEN, pull.state is not PullState.OPEN),
            (RefusalReason.DRAFT, pull.is_draft),
            (RefusalReason.METHOD, method not in self.state.settings.methods),
            (RefusalReason.CHECKS, self.state.settings.has_failing_check),
            (RefusalReason.MOVED, commit != pull.head),
        ):
            if is_so:
                raise ForgeRefusal(why)
        self.state.merges.append((pull.number, commit))
        self.state.merge(pull, self.state.viewer)

    def close(self, issue: StoredIssue, reason: str = "") -> None:
        """Closes an issue."""
        issue.is_open, issue.reason = False, reason
