"""How far a task has come on the forge: what was planned, done and given up there."""

from __future__ import annotations

from enum import StrEnum

from remand.domain.instant import Instant
from remand.domain.record import Record


class ForgeAction(StrEnum):
    """Something that is done on the forge, in the order in which it comes."""

    PUSH = "push"
    """The submitted commit goes to the task's branch there."""
    OPEN = "open"
    """A draft pull request of that branch."""
    REQUEST = "request"
    """The pull request is ready, and reviewers are asked."""
    MERGE = "merge"
    CLOSE = "close"
    """The issue that the task was made from."""


class PlannedAction(Record, kw_only=True):
    """An action that is begun, and not known to have happened."""

    act: ForgeAction
    about: str = ""
    """The commit; empty when it is about an issue."""
    tries: int = 0
    """How often it failed."""
    until: Instant = ""
    """Before this it is not tried again."""
    why: str = ""
    """What was wrong the last time."""


class AbandonedAction(Record, kw_only=True):
    """An action that is not tried any more, unless the user has it tried again."""

    act: ForgeAction
    about: str = ""
    why: str = ""


class TaskForgeState(Record, kw_only=True):
    """How far a task has come on the forge, by our own doing."""

    issue: int = 0
    """The number of the issue it was made from."""
    pushed: str = ""
    """The commit that was pushed last."""
    requested: str = ""
    """The commit that reviewers were asked to look at."""
    merged: str = ""
    is_closed: bool = False
    """The issue is."""
    is_branch_agents: bool = False
    """An agent named the branch when it submitted, and nobody before."""
    intent: PlannedAction | None = None
    given_up: tuple[AbandonedAction, ...] = ()

    def find_abandoned(self, act: ForgeAction, about: str) -> AbandonedAction | None:
        """The action, when it is not tried any more."""
        return next((one for one in self.given_up if (one.act, one.about) == (act, about)), None)
