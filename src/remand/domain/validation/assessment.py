"""What the validator knows of the ledger and the repository, and what it finds."""

from __future__ import annotations

from typing import Self

from remand.domain.record import Record


class Issue(Record, kw_only=True):
    """One thing that keeps a rejection from being valid. As text it is its message."""

    code: str
    field: str
    message: str

    def __str__(self) -> str:
        return self.message


class IssueText(str):
    """An issue as the validator reports it: its message, which knows its code and field."""

    __slots__ = ("code", "field", "message")

    def __new__(cls, issue: Issue) -> Self:
        text = super().__new__(cls, issue.message)
        text.code, text.field, text.message = issue.code, issue.field, issue.message
        return text

    code: str
    field: str
    message: str


class Feature(Record, kw_only=True):
    """Something measured in the text, and how much it weighed: above zero speaks for the rejection."""

    name: str
    field: str
    value: float
    weight: float
    note: str = ""

    @property
    def contribution(self) -> float:
        return self.value * self.weight


class Assessment(Record, kw_only=True):
    """The judgement of one rejection: valid when there is no issue."""

    issues: tuple[Issue, ...] = ()
    features: tuple[Feature, ...] = ()
    score: float = 0.0

    @property
    def is_valid(self) -> bool:
        """True when nothing speaks against it."""
        return not self.issues


class NamedTask(Record, kw_only=True):
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
    """It was split from the rejected task, or waits for it."""
    is_open: bool = False


class EvidenceGrade(Record, kw_only=True):
    """How far one piece of evidence, or one attempt, was checked."""

    index: int
    grade: str
    detail: str = ""


class ValidationFacts(Record, kw_only=True):
    """Facts measured before judging. A validator without a ledger has none, and believes that named ids exist."""

    named: tuple[NamedTask, ...] = ()
    graded: tuple[EvidenceGrade, ...] = ()
    attempts: tuple[EvidenceGrade, ...] = ()
    """How the attempts fare against the journal of what the agent ran: shown to the director, and no more."""
    merged: tuple[str, ...] = ()
    """The commits named that are part of the base branch."""
    has_repository: bool = False
    """True when commits and files could be looked up."""

    def find_task(self, text: str) -> NamedTask | None:
        """What is known of a name."""
        return next((item for item in self.named if item.name == text), None)
