"""What supports the claim: there where the reason asks for it, and holding data."""

from __future__ import annotations

from remand.domain.reasons import RejectionReason
from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.dates import days_before
from remand.domain.validation.reading import Evidence, Reading
from remand.domain.validation.tokens import Text

PROVEN_BY_TWO = 2
FRESH = 7


def holding(reading: Reading) -> tuple[Evidence, ...]:
    """The pieces of evidence that hold data."""
    return tuple(item for item in reading.evidence if item.data.raw)


def missing(reading: Reading) -> Issue | None:
    """No evidence where the reason cannot do without."""
    if reading.evidence or reading.reason is None:
        return None
    return issue("evidence_missing", reason=reading.reason.name)


def empty(reading: Reading) -> Issue | None:
    """Evidence, none of which holds data."""
    return issue("evidence_empty") if reading.evidence and not holding(reading) else None


def too_few(reading: Reading) -> Issue | None:
    """Infeasibility with fewer than two pieces of evidence."""
    if reading.reason is not RejectionReason.INFEASIBLE:
        return None
    return issue("evidence_too_few") if len(holding(reading)) < PROVEN_BY_TWO else None


def stale(reading: Reading) -> Issue | None:
    """A blocker whose evidence is dated, and nothing of it or of the attempts newer than a week."""
    shown = [past for item in reading.evidence for past in _days(reading, item.data, item.source)]
    days = [*shown, *_days(reading, *reading.attempts)]
    return issue("evidence_stale") if shown and min(days) > FRESH else None


def _days(reading: Reading, *texts: Text) -> list[int]:
    """How many days before the rejection the dates in texts lie that tell something seen."""
    if reading.rejected_on is None:
        return []
    telling = (text for text in texts if text.figures or text.codes)
    return [past for text in telling for past in days_before(text.raw, reading.rejected_on)]


FOR_ALL = (empty,)
"""For every reason: what is given must hold something."""
RULES = (missing,)
"""For the reasons that always need evidence."""
BLOCKER_RULES = (missing, stale)
"""For what is said to stand in the way today."""
PROOF_RULES = (too_few,)
"""For infeasibility."""
