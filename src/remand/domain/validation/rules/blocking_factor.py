"""What is said to stand in the way: given, and such that another can check it."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.mentions import names_in, tracker_keys_in
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import marks, named, ties

TELLING_WORDS = 2


def missing(reading: Reading) -> Issue | None:
    """No blocking factor."""
    return None if reading.factor.raw else issue("blocking_factor_missing")


def vague(reading: Reading) -> Issue | None:
    """A blocking factor that names no thing."""
    factor = reading.factor
    if not factor.raw or names_in(factor.raw) or tracker_keys_in(factor.raw):
        return None
    return issue("blocking_factor_vague") if named(factor) < TELLING_WORDS else None


def unfounded(reading: Reading) -> Issue | None:
    """A blocking factor that nothing else speaks of."""
    others = (
        reading.summary,
        reading.detail,
        reading.alternative,
        *reading.task,
        *reading.attempts,
        *reading.shown,
    )
    factor = reading.factor
    if vague(reading) or not factor.raw or marks(factor) or factor.acronyms or ties(factor, *others):
        return None
    return issue("blocking_factor_unfounded")


RULES = (missing, vague, unfounded)
