"""Events of what is done on a forge: an intent before each act, and its outcome after it."""

from __future__ import annotations

from remand.domain.event import TaskEvent
from remand.domain.instant import Instant


class IssueImported(TaskEvent, tag="forge.import", kw_only=True):
    """The task was made from an issue, with which it will be closed."""

    issue: int
    source: str = ""
    """The issue's place: `github:owner/name#12`."""
    author: str = ""
    """The account that opened it."""


class ActEvent(TaskEvent, tag="", kw_only=True):
    """An event of one act. The act and what it is about are its key: under it the act happens once."""

    act: str
    about: str = ""
    """The commit; empty when it is about the task's issue."""


class ActIntended(ActEvent, tag="forge.intend", kw_only=True):
    """The act is about to be done. Whoever finds this without an outcome looks whether it was."""

    branch: str = ""
    base: str = ""
    pr: int = 0
    issue: int = 0


class ActDone(ActEvent, tag="forge.done", kw_only=True):
    """The forge has done it."""

    pr: int = 0
    url: str = ""
    is_found: bool = False
    """It was so already when we looked."""


class ActFailed(ActEvent, tag="forge.fail", kw_only=True):
    """It could not be done."""

    why: str = ""
    tries: int = 0
    until: Instant = ""
    """Before this it is not tried again."""
    is_final: bool = False
    """It is not tried again at all, unless the user says so."""
