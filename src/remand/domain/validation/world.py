"""What the ledger and the repository know of the things a rejection names."""

from __future__ import annotations

from remand.domain.record import Record


class Named(Record, kw_only=True):
    """A task that the text names, as the ledger knows it."""

    name: str
    """As it is written in the text: an id with or without prefix, or an alias such as `#42`."""
    task_id: str = ""
    """Its id; empty when the ledger knows no such task."""
    title: str = ""
    status: str = ""
    created_by: str = ""
    is_related: bool = True
    """Its words and those of the rejected task have something in common."""
    is_self: bool = False
    is_descendant: bool = False
    """It was cut from the rejected task, or waits for it."""
    is_open: bool = False


class Graded(Record, kw_only=True):
    """How far one piece of evidence, or one attempt, was checked."""

    index: int
    grade: str
    detail: str = ""


class World(Record, kw_only=True):
    """Facts measured before judging. A validator without a ledger has none, and believes that named ids exist."""

    named: tuple[Named, ...] = ()
    graded: tuple[Graded, ...] = ()
    attempts: tuple[Graded, ...] = ()
    """How the attempts fare against the journal of what the agent ran: shown to the director, and no more."""
    merged: tuple[str, ...] = ()
    """The commits named that are part of the base branch."""
    has_repository: bool = False
    """True when commits and files could be looked up."""

    def named_as(self, text: str) -> Named | None:
        """What is known of a name."""
        return next((item for item in self.named if item.name == text), None)
