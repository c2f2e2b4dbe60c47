"""What the validator finds: issues that say what would satisfy them, and the features that counted."""

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
        """The message of an issue."""
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
        """What it added to the score."""
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
