"""What supports the claim: there where the reason asks for it, and holding data."""

from __future__ import annotations

import re

from remand.domain.reasons import RejectionReason
from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.dates import days_before
from remand.domain.validation.lexicon import FAILS, GENERIC_STEMS, NOT
from remand.domain.validation.phrases import HEDGES, is_own_view
from remand.domain.validation.reading import Evidence, Reading
from remand.domain.validation.substance import marks
from remand.domain.validation.tokens import Text

_HTTP_ERROR = re.compile(r"(?<![\w.,/-])[45][0-9]{2}(?![\w,/-]|\.[0-9])")
_SUCCESS = re.compile(r"(?<![\w.,/-])20[0-6](?![\w,/-]|\.[0-9])|\b[1-9][0-9]+ (?:tests? )?passed\b")
PROVEN_BY_TWO = 2
SHARED = 2
FEW = 5
"""How many things evidence has in common with the rest of the record at least, unless it holds but few."""
_LINE = re.compile(r":[0-9][0-9:,-]*$")
_ANY_FAILURE = frozenset(word[:6] for word in (*FAILS.split(), *NOT.split()))
"""What may stand in any error text."""
FRESH = 7


def holding(reading: Reading) -> tuple[Evidence, ...]:
    """The pieces of evidence that hold data, each once."""
    return tuple(
        {(item.data.raw, item.source.raw): item for item in reading.evidence if item.data.raw}.values()
    )


def observed(reading: Reading) -> tuple[Evidence, ...]:
    """The pieces of evidence that show something seen, and not what the agent thinks."""
    return tuple(item for item in holding(reading) if not is_opinion(item, reading))


def is_opinion(item: Evidence, reading: Reading) -> bool:
    """True for a view of one's own: hedged without anything seen, or from no other source than oneself."""
    if marks(item.source) or item.source.acronyms:
        return False
    if is_own_view(item.source.raw):
        return True
    is_view = HEDGES.search(item.data.raw) is not None or is_own_view(item.kind)
    return is_view and marks(item.data, *reading.claim, *reading.task) < 1


def missing(reading: Reading) -> Issue | None:
    """No evidence."""
    if reading.evidence or reading.reason is None:
        return None
    return issue("evidence_missing", reason=reading.reason.name)


def uncounted(reading: Reading) -> Issue | None:
    """No evidence of growth, neither as such nor as counts in at least two attempts."""
    counted = sum(bool(attempt.figures) for attempt in reading.attempts)
    return None if counted >= PROVEN_BY_TWO else missing(reading)


def opinion(reading: Reading) -> Issue | None:
    """Evidence that is nothing but the agent's own view."""
    return issue("evidence_opinion") if holding(reading) and not observed(reading) else None


def unrelated(reading: Reading) -> Issue | None:
    """Evidence that has nothing in common with what is said and tried, nor with the task."""
    told = (*reading.claim, *reading.attempts, *reading.task, reading.alternative)
    shown = _things(*(text for item in holding(reading) for text in (item.data, item.source)))
    shared = shown & _things(*told)
    is_named = shared & _things(reading.summary, reading.factor, reading.title)
    is_estimate = reading.reason is RejectionReason.SCOPE_CREEP and any(
        item.hours for item in reading.evidence
    )
    is_shared = len(shared) >= (SHARED if len(shown) > FEW else 1)
    if not shown or is_named or is_shared or is_estimate or any(not thing.isalpha() for thing in shared):
        return None
    return issue("evidence_unrelated")


def _things(*texts: Text) -> frozenset[str]:
    """What texts are about: their specific words, identifiers without a line, and longer figures."""
    found = set[str]()
    for text in texts:
        found |= text.stems - GENERIC_STEMS - _ANY_FAILURE
        found.update(_LINE.sub("", code) for code in text.codes)
        found.update(figure.replace(",", "") for figure in text.figures if len(figure) > 1)
    return frozenset(found)


def empty(reading: Reading) -> Issue | None:
    """Evidence, none of which holds data."""
    return issue("evidence_empty") if reading.evidence and not holding(reading) else None


def too_few(reading: Reading) -> Issue | None:
    """Infeasibility with fewer than two pieces of evidence."""
    if reading.reason is not RejectionReason.INFEASIBLE:
        return None
    return issue("evidence_too_few") if len(observed(reading)) < PROVEN_BY_TWO else None


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
RULES = (missing, opinion, unrelated)
"""For the reasons that always need evidence."""
BLOCKER_RULES = (*RULES, stale, contradicts)
"""For what is said to stand in the way today."""
PROOF_RULES = (too_few, unrelated)
"""For infeasibility."""
GROWTH_RULES = (uncounted, unrelated)
"""For scope creep, where an estimate is a view of one's own by its nature."""
