"""What the fake forge does when it is asked to, with the token's rights, and what it refuses; every dialect words it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from enum import StrEnum

from remand.domain.pull_request.records import PullState
from remand.testing.forge_state import ForgeState, Issue, Person, Pull

COLLABORATORS = ("triage", "write", "maintain", "admin")


class Refusal(StrEnum):
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


class Refused(Exception):  # noqa: N818 - what the forge answers
    """The forge says no."""

    def __init__(self, why: Refusal) -> None:
        super().__init__(why.value)
        self.why = why


class Desk:
    """Does things in a forge's state, for whoever has the token."""

    def __init__(self, state: ForgeState) -> None:
        self.state = state

    def follow(self) -> None:
        """Lets branches, and the pull requests of them, be where they were pushed to."""
        if not self.state.settings.repository:
            return
        told = subprocess.run(
            ["git", "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads"],
            cwd=self.state.settings.repository,
            capture_output=True,
            check=True,
        )
        rows = (line.rpartition(" ") for line in told.stdout.decode().splitlines())
        self.state.tips = {name: tip for name, _, tip in rows}
        for pull in self.state.pulls.values():
            tip = self.state.tips.get(pull.branch, pull.head)
            if pull.state is PullState.OPEN and not pull.is_of_a_fork and tip != pull.head:
                self.state.push(pull, tip)

    def open(self, branch: str, base: str, title: str, text: str, *, is_draft: bool) -> Pull:
        """Opens a pull request of a branch that is there."""
        if is_draft and not self.state.settings.has_drafts:
            raise Refused(Refusal.NO_DRAFTS)
        if branch not in self.state.tips:
            raise Refused(Refusal.NO_BRANCH)
        for pull in self.state.pulls.values():
            if (pull.state, pull.branch, pull.base) == (
                PullState.OPEN,
                branch,
                base,
            ) and not pull.is_of_a_fork:
                raise Refused(Refusal.EXISTS)
        pull = self.state.open(self.state.viewer, head=self.state.tips[branch], branch=branch)
        pull.base, pull.title, pull.text, pull.is_draft = base, title, text, is_draft
        return pull

    def ask(self, pull: Pull, people: Sequence[Person | None]) -> None:
        """Asks people to review: all of them, or none."""
        if any(one is pull.author for one in people):
            raise Refused(Refusal.OWN_WORK)
        if any(one is None or one.permission not in COLLABORATORS for one in people):
            raise Refused(Refusal.NO_COLLABORATOR)
        pull.requested += [one for one in people if one is not None and one not in pull.requested]

    def merge(self, pull: Pull, commit: str, method: str = "merge") -> None:
        """Merges while the commit is the head."""
        for why, is_so in (
            (Refusal.NOT_OPEN, pull.state is not PullState.OPEN),
            (Refusal.DRAFT, pull.is_draft),
            (Refusal.METHOD, method not in self.state.settings.methods),
            (Refusal.CHECKS, self.state.settings.has_failing_check),
            (Refusal.MOVED, commit != pull.head),
        ):
            if is_so:
                raise Refused(why)
        self.state.merges.append((pull.number, commit))
        self.state.merge(pull, self.state.viewer)

    def close(self, issue: Issue, reason: str = "") -> None:
        """Closes an issue."""
        issue.is_open, issue.reason = False, reason
