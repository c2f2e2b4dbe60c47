"""How the work could go on: given, and made for this task."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import marks

TELLING_WORDS = 2
SUB_TASKS = 2
SAID = 3
SAME = 0.85


def missing(reading: Reading) -> Issue | None:
    """No alternative."""
    return None if reading.alternative.raw else issue("alternative_missing")


def generic(reading: Reading) -> Issue | None:
    """An alternative that would fit any task."""
    text = reading.alternative
    if not text.raw or len(reading.sub_tasks) >= SUB_TASKS:
        return None
    named = len(text.telling) + marks(text) + text.acronyms
    return issue("alternative_generic") if named < TELLING_WORDS else None


def restates(reading: Reading) -> Issue | None:
    """An alternative that says nothing but what the task says."""
    text = reading.alternative
    known = reading.title.stems | reading.scope.stems
    if len(text.stems) < SAID or len(text.stems & known) < SAME * len(text.stems):
        return None
    brings = marks(text, reading.title, reading.scope) + len(text.telling - known)
    return issue("alternative_restates") if brings < TELLING_WORDS else None


RULES = (missing, restates)
"""For every reason."""
CONCRETE_RULES = (generic,)
"""For every reason but obsolescence, where cancelling is enough."""
