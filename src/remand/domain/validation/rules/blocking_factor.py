"""What is said to stand in the way: given, and such that another can check it."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import marks

TELLING_WORDS = 2


def missing(reading: Reading) -> Issue | None:
    """No blocking factor."""
    return None if reading.factor.raw else issue("blocking_factor_missing")


def vague(reading: Reading) -> Issue | None:
    """A blocking factor that names no thing."""
    factor = reading.factor
    if not factor.raw or reading.dependencies:
        return None
    named = len(factor.telling) + marks(factor) + factor.acronyms
    return issue("blocking_factor_vague") if named < TELLING_WORDS else None


RULES = (missing, vague)
