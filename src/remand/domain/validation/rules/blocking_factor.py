"""What is said to stand in the way: given, and such that another can check it."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.mentions import names_in, tracker_keys_in
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import marks

TELLING_WORDS = 2


def missing(reading: Reading) -> Issue | None:
    """No blocking factor."""
    return None if reading.factor.raw else issue("blocking_factor_missing")


def vague(reading: Reading) -> Issue | None:
    """A blocking factor that names no thing."""
    factor = reading.factor
    if not factor.raw or names_in(factor.raw) or tracker_keys_in(factor.raw):
        return None
    named = len(factor.telling) + marks(factor) + factor.acronyms
    return issue("blocking_factor_vague") if named < TELLING_WORDS else None


def unfounded(reading: Reading) -> Issue | None:
    """A blocking factor that nothing else speaks of."""
    told = (
        reading.summary,
        reading.detail,
        reading.title,
        reading.scope,
        reading.alternative,
        *reading.attempts,
    )
    shown = (text for item in reading.evidence for text in (item.data, item.source))
    known = frozenset[str]().union(*(text.stems for text in (*told, *shown)))
    stems = reading.factor.stems
    if vague(reading) or len(stems) < TELLING_WORDS or stems & known or marks(reading.factor):
        return None
    return issue("blocking_factor_unfounded")


RULES = (missing, vague, unfounded)
