"""What was attempted: at least two attempts, concrete, and not the same thing told twice."""

from __future__ import annotations

from itertools import combinations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import likeness, marks, named
from remand.domain.validation.tokens import Text

LEAST = 2
TELLING_WORDS = 4
FINDING_WORDS = 3
ALIKE = 0.8


def too_few(reading: Reading) -> Issue | None:
    """Fewer than two attempts."""
    return issue("effort_too_few") if len(reading.attempts) < LEAST else None


def vague(reading: Reading) -> Issue | None:
    """Fewer than two attempts that say anything."""
    concrete = [attempt for attempt in reading.attempts if is_concrete(attempt)]
    return issue("effort_vague") if len(concrete) < LEAST else None


def repeated(reading: Reading) -> Issue | None:
    """Attempts that are copies of one another, so that fewer than two are left."""
    kept: list[Text] = []
    for attempt in reading.attempts:
        if not any(_is_copy(attempt, other) for other in kept):
            kept.append(attempt)
    return issue("effort_repeated") if len(reading.attempts) >= LEAST > len(kept) else None


def is_concrete(attempt: Text) -> bool:
    """True for an attempt another could check or repeat: it says something, and tells of a finding."""
    said = named(attempt)
    if marks(attempt) > 0:
        return said >= LEAST or len(attempt.words) >= TELLING_WORDS
    if attempt.has_outcome:
        return said >= LEAST
    is_finding = attempt.count("not") > 0 or attempt.count("asked") > 0
    return said >= (FINDING_WORDS if is_finding else TELLING_WORDS)


def alikeness(attempts: tuple[Text, ...]) -> float:
    """How alike the two most similar attempts are."""
    return max(
        (likeness(one.stems, other.stems) for one, other in combinations(attempts[:6], 2)), default=0.0
    )


def _is_copy(one: Text, other: Text) -> bool:
    if one.raw.casefold() == other.raw.casefold():
        return True
    return (
        likeness(frozenset(one.words), frozenset(other.words)) >= ALIKE
        and set(one.figures) == set(other.figures)
        and one.codes == other.codes
    )


RULES = (too_few, vague, repeated)
