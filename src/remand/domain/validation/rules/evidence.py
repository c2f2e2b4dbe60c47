"""What supports the claim: there where the reason asks for it, and holding data."""

from __future__ import annotations

import re

from remand.domain.reasons import RejectionReason
from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.dates import days_before
from remand.domain.validation.reading import Evidence, Reading
from remand.domain.validation.tokens import Text

_HTTP_ERROR = re.compile(r"(?<![\w.,/-])[45][0-9]{2}(?![\w,/-]|\.[0-9])")
_SUCCESS = re.compile(r"(?<![\w.,/-])20[0-6](?![\w,/-]|\.[0-9])|\b[1-9][0-9]+ (?:tests? )?passed\b")
PROVEN_BY_TWO = 2
FRESH = 7


def holding(reading: Reading) -> tuple[Evidence, ...]:
    """The pieces of evidence that hold data, each once."""
    return tuple(
        {(item.data.raw, item.source.raw): item for item in reading.evidence if item.data.raw}.values()
    )


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


def contradicts(reading: Reading) -> Issue | None:
    """An HTTP error is claimed that was nowhere seen, and what was seen is a success."""
    claimed = _HTTP_ERROR.findall(f"{reading.summary.raw}\n{reading.factor.raw}")
    shown = "\n".join(text.raw for item in reading.evidence for text in (item.data, item.source))
    seen = "\n".join((shown, *(attempt.raw for attempt in reading.attempts)))
    if not claimed or any(code in seen for code in claimed) or not _SUCCESS.search(shown):
        return None
    return issue("evidence_contradicts", claimed=claimed[0])


FOR_ALL = (empty,)
"""For every reason: what is given must hold something."""
RULES = (missing,)
"""For the reasons that always need evidence."""
BLOCKER_RULES = (missing, stale, contradicts)
"""For what is said to stand in the way today."""
PROOF_RULES = (too_few,)
"""For infeasibility."""
