"""What is so, in a line and at length: both are given."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import marks, specific, ties

LENGTHY = 5
"""How many words of its own a text has that is told in other words than the rest."""


def summary_missing(reading: Reading) -> Issue | None:
    """No summary, or something that only fills the field."""
    return None if reading.summary.raw else issue("summary_missing")


def detail_missing(reading: Reading) -> Issue | None:
    """No detail, something that only fills the field, or something that has to do with nothing else in the record."""
    detail = reading.detail
    others = (
        reading.summary,
        reading.factor,
        reading.alternative,
        *reading.attempts,
        *reading.shown,
        *reading.task,
    )
    is_of_record = (
        marks(detail) or detail.acronyms or ties(detail, *others) or specific(detail.telling) >= LENGTHY
    )
    return None if detail.raw and is_of_record else issue("detail_missing")


RULES = (summary_missing, detail_missing)
