"""What a task's work is compared with, and which commits are not its own."""

from __future__ import annotations

from collections.abc import Callable

from remand.domain.record import NamedTuple


class WorkBase(NamedTuple):
    """The base branch beside a task's claim, as far as git knows both."""

    tip: str
    """Where the base is now; empty when there is none."""
    protected_tip: str
    """The same on the remote, where that has the configuration: whoever works here cannot commit to it."""
    claim_base: str
    """Where the base was at the claim, by the claim's own word."""
    merge_base: Callable[[str, str], str]
    """The last commit that two commits have in common; empty when they have none."""

    def has(self, commit: str) -> bool:
        """True when the base has a commit."""
        return self.merge_base(commit, self.tip) == commit

    @property
    def at_claim(self) -> str:
        """Where the base was when the task was claimed; empty when the base never was there.

        A claim is believed from any file, and an agent that names its own commit there is not compared with that.
        """
        return self.claim_base if self.claim_base and self.tip and self.has(self.claim_base) else ""

    def compared_with(self, commit: str) -> str:
        """Where the work left the base; empty when there is nothing to compare it with.

        A base that anyone here can commit to counts as it was at the claim. Work done on the base itself is compared
        with where the base was then: a commit is not its own base, and brings no rules of its own.
        """
        if not self.tip:
            return ""
        anchor = self.tip if self.protected_tip else self.at_claim or self.tip
        if anchor == self.tip and self.has(commit):
            found = self.at_claim
        else:
            found = self.merge_base(commit, anchor) or anchor
        return found if found != commit else ""

    def rules_commit(self, commit: str) -> str:
        """The commit whose rules hold for work done on the base itself; empty for all else, where the base's rules of now hold."""
        compared = self.compared_with(commit)
        return compared if compared and self.has(commit) else ""

    def may_have_base_rules(self, commit: str) -> bool:
        """True for a commit beside the base, which has moved since: it may have the configuration that the base has now."""
        compared = self.compared_with(commit)
        return bool(compared) and compared != self.tip and not self.has(commit)

    def has_work(self, commit: str, *, is_on_own_branch: bool) -> bool:
        """True when a commit is not one that the base had at the claim, or the remote's base has now.

        A local base may be worked on itself, unless the task has a branch of its own.
        """
        foreign = (self.at_claim, self.protected_tip, self.tip if is_on_own_branch else "")
        return not any(tip and self.merge_base(commit, tip) == commit for tip in foreign)
