"""Measures of the blocking factor."""

from __future__ import annotations

from remand.domain.validation.features.view import View
from remand.domain.validation.substance import marks, overlap


def factor_marks(view: View) -> float:
    """Checkable things in the blocking factor, up to two."""
    return min(marks(view.reading.factor, *view.task) + len(view.reading.factor.acronyms) / 2, 2) / 2


def factor_telling(view: View) -> float:
    """How many telling words the blocking factor has, up to six."""
    return min(len(view.reading.factor.telling), 6) / 6


def factor_protocol(view: View) -> float:
    """How much the blocking factor speaks of the protocol."""
    return min(view.reading.factor.share("protocol"), 0.5)


def factor_seen(view: View) -> float:
    """How much of the blocking factor comes back in evidence and attempts."""
    return overlap(view.reading.factor.stems, view.attempt_stems | view.evidence_stems)


def factor_in_task(view: View) -> float:
    """How much of the blocking factor the task supplied."""
    return overlap(view.reading.factor.stems, view.task_stems)


FOR = (factor_marks, factor_telling, factor_seen)
AGAINST = (factor_protocol, factor_in_task)
