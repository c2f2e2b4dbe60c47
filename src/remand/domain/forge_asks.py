"""What is asked about acts on a forge, by the coordinator alone."""

from __future__ import annotations

from remand.domain.acts import Act
from remand.domain.ask import TaskAsk


class IntendAct(TaskAsk, kw_only=True):
    """Begin an act. Asked again for an act that is begun, it says whether that may still be done."""

    act: Act
    about: str = ""
    """The commit that is meant; nothing else is pushed, shown or merged."""
    base: str = ""
    """The branch that work is merged into."""
    is_again: bool = False
    """Also when it was given up: the user wants it tried again."""


class NoteAct(TaskAsk, kw_only=True):
    """Note that an act has happened."""

    act: Act
    about: str = ""
    pr: int = 0
    url: str = ""
    is_found: bool = False


class NoteActFailure(TaskAsk, kw_only=True):
    """Note that an act could not be done."""

    act: Act
    about: str = ""
    why: str
    is_final: bool = False
    """Trying again would change nothing."""
