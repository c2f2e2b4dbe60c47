"""Rules on the parts of every rejection: account, attempts, blocking factor, alternative, evidence."""

from __future__ import annotations

import re
from itertools import combinations

from remand.domain.reasons import RejectionReason
from remand.domain.text.words import set_similarity
from remand.domain.validation.assessment import Issue, issue
from remand.domain.validation.lexicon import (
    GENERIC_STEMS,
    HEDGES,
    IDLE,
    WORD_LISTS,
    clauses,
    gives_reason,
    is_own_view,
)
from remand.domain.validation.parsed_rejection import (
    ParsedEvidence,
    ParsedRejection,
    bare_name,
    days_before,
    names_in,
    tracker_keys_in,
)
from remand.domain.validation.tokens import (
    Text,
    checkable_marks,
    named_thing_count,
    new_thing_count,
    shared_word_count,
    specific_word_count,
    tokenise_text,
)

DETAILED_WORDS = 5
"""The least number of own words in a text that is worded differently from the rest of the record."""


def check_missing_summary(reading: ParsedRejection) -> Issue | None:
    """The summary is missing or only a filler."""
    return None if reading.summary.raw else issue("summary_missing")


def check_missing_detail(reading: ParsedRejection) -> Issue | None:
    """The detail is missing, only a filler, or unrelated to the rest of the record."""
    detail = reading.detail
    others = (
        reading.summary,
        reading.factor,
        reading.alternative,
        *reading.attempts,
        *reading.evidence_and_sources,
        *reading.task,
    )
    is_of_record = (
        checkable_marks(detail)
        or detail.acronyms
        or shared_word_count(detail, *others)
        or specific_word_count(detail.telling) >= DETAILED_WORDS
    )
    return None if detail.raw and is_of_record else issue("detail_missing")


ACCOUNT_RULES = (check_missing_summary, check_missing_detail)


MIN_ATTEMPTS = 2
ATTEMPT_WORDS = 4
FINDING_WORDS = 3
COPIED_ATTEMPT = 0.8


def check_too_few_attempts(reading: ParsedRejection) -> Issue | None:
    return issue("effort_too_few") if len(reading.attempts) < MIN_ATTEMPTS else None


def check_vague_attempts(reading: ParsedRejection) -> Issue | None:
    """Fewer than two attempts are concrete."""
    concrete = [attempt for attempt in reading.attempts if is_concrete(attempt)]
    return issue("effort_vague") if len(concrete) < MIN_ATTEMPTS else None


def check_repeated_attempts(reading: ParsedRejection) -> Issue | None:
    """The attempts repeat one another, so that fewer than two are left."""
    kept: list[Text] = []
    for attempt in reading.attempts:
        if not any(_is_copy(attempt, other) for other in kept):
            kept.append(attempt)
    return issue("effort_repeated") if len(reading.attempts) >= MIN_ATTEMPTS > len(kept) else None


def is_concrete(attempt: Text) -> bool:
    """True for an attempt that others could check or repeat: it is concrete and reports a result."""
    count = named_thing_count(attempt)
    if checkable_marks(attempt) > 0:
        return count >= MIN_ATTEMPTS or len(attempt.words) >= ATTEMPT_WORDS
    if attempt.has_outcome:
        return count >= MIN_ATTEMPTS
    is_finding = attempt.count("not") > 0 or attempt.count("asked") > 0
    return count >= (FINDING_WORDS if is_finding else ATTEMPT_WORDS)


def attempt_similarity(attempts: tuple[Text, ...]) -> float:
    """The similarity of the two most similar attempts."""
    return max(
        (set_similarity(one.stems, other.stems) for one, other in combinations(attempts[:6], 2)), default=0.0
    )


def _is_copy(one: Text, other: Text) -> bool:
    if one.raw.casefold() == other.raw.casefold():
        return True
    return (
        set_similarity(frozenset(one.words), frozenset(other.words)) >= COPIED_ATTEMPT
        and set(one.figures) == set(other.figures)
        and one.codes == other.codes
    )


EFFORT_RULES = (check_too_few_attempts, check_vague_attempts, check_repeated_attempts)


FACTOR_WORDS = 2


def check_missing_factor(reading: ParsedRejection) -> Issue | None:
    return None if reading.factor.raw else issue("blocking_factor_missing")


def check_vague_factor(reading: ParsedRejection) -> Issue | None:
    """The blocking factor names no checkable thing."""
    factor = reading.factor
    if not factor.raw or names_in(factor.raw) or tracker_keys_in(factor.raw):
        return None
    return issue("blocking_factor_vague") if named_thing_count(factor) < FACTOR_WORDS else None


def check_unfounded_factor(reading: ParsedRejection) -> Issue | None:
    """Nothing else in the record or the task mentions the blocking factor."""
    others = (
        reading.summary,
        reading.detail,
        reading.alternative,
        *reading.task,
        *reading.attempts,
        *reading.evidence_and_sources,
    )
    factor = reading.factor
    if (
        check_vague_factor(reading)
        or not factor.raw
        or checkable_marks(factor)
        or factor.acronyms
        or shared_word_count(factor, *others)
    ):
        return None
    return issue("blocking_factor_unfounded")


FACTOR_RULES = (check_missing_factor, check_vague_factor, check_unfounded_factor)


ALTERNATIVE_WORDS = 2
SUB_TASKS = 2
MIN_STEMS = 3
DETAILED_ALTERNATIVE_WORDS = 5
"""The least number of own words in an alternative that adds something."""
RESTATED_SHARE = 0.85
REFORMULATED = 3
"""The least number of new words in a reformulation without a figure, a path or a name."""


def check_missing_alternative(reading: ParsedRejection) -> Issue | None:
    return None if reading.alternative.raw else issue("alternative_missing")


def check_generic_alternative(reading: ParsedRejection) -> Issue | None:
    """The alternative would fit any task: it names little, or nothing from the rest of the record."""
    text = reading.alternative
    if not text.raw or len(reading.sub_tasks) >= SUB_TASKS:
        return None
    others = (*reading.claim, *reading.attempts, *reading.evidence_and_sources, *reading.task)
    is_of_record = (
        checkable_marks(text)
        or shared_word_count(text, *others) >= ALTERNATIVE_WORDS
        or specific_word_count(text.telling) >= DETAILED_ALTERNATIVE_WORDS
    )
    return (
        None
        if is_of_record and named_thing_count(text) >= ALTERNATIVE_WORDS
        else issue("alternative_generic")
    )


def check_restated_alternative(reading: ParsedRejection) -> Issue | None:
    """The alternative only repeats the task."""
    text = reading.alternative
    known = reading.title.stems | reading.scope.stems
    if len(text.stems) < MIN_STEMS or len(text.stems & known) < RESTATED_SHARE * len(text.stems):
        return None
    return issue("alternative_restates") if new_thing_count(text, *reading.task) < ALTERNATIVE_WORDS else None


def check_idle_alternative(reading: ParsedRejection) -> Issue | None:
    """The alternative only waits, drops the task, or leaves it to someone else."""
    ways = [way for clause in clauses(reading.alternative.raw) if (way := _inaction_kind(clause, reading))]
    if not ways or _suggested_thing_count(_acts(reading), reading) >= ALTERNATIVE_WORDS:
        return None
    if reading.reason is RejectionReason.INFEASIBLE:
        return issue("reformulation_missing")
    if "waits" in ways:
        return issue("alternative_waits")
    if "drops" in ways:
        return issue("alternative_drops")
    return issue("alternative_delegates")


def not_reformulated(reading: ParsedRejection) -> Issue | None:
    """The reformulation names nothing checkable and hardly anything new."""
    acts = _acts(reading)
    if not reading.alternative.raw or len(reading.sub_tasks) >= SUB_TASKS:
        return None
    own = tokenise_text(bare_name(reading.task_id))
    if (
        checkable_marks(acts, own)
        or new_thing_count(acts, *reading.task, *reading.claim) + len(acts.acronyms) >= REFORMULATED
    ):
        return None
    return issue("reformulation_missing")


def _acts(reading: ParsedRejection) -> Text:
    """The clauses of an alternative that suggest something."""
    found = clauses(reading.alternative.raw)
    return tokenise_text(
        "\n".join(
            clause for clause in found if not gives_reason(clause) and not _inaction_kind(clause, reading)
        )
    )


def _suggested_thing_count(acts: Text, reading: ParsedRejection) -> float:
    """How many new things the suggestion names. Doing the dependency, or asking the questions, counts."""
    is_asking = any(mark in reading.alternative.raw for mark in "?？")
    if reading.reason is RejectionReason.UNCLEAR_REQUIREMENTS and is_asking:
        return ALTERNATIVE_WORDS
    known = () if reading.reason is RejectionReason.MISSING_DEPENDENCY else (reading.factor,)
    return new_thing_count(acts, *reading.task, *known) + len(acts.acronyms)


def _inaction_kind(clause: str, reading: ParsedRejection) -> str:
    """Why a clause suggests nothing; empty if it suggests something."""
    for way, pattern in IDLE.items():
        if pattern.search(clause):
            rest = tokenise_text(pattern.sub(" ", clause))
            return "" if way == "delegates" and _is_specific_request(rest, reading) else way
    return ""


def _is_specific_request(text: Text, reading: ParsedRejection) -> bool:
    """True if someone is asked for something specific other than doing the task."""
    others = (*reading.claim, *reading.attempts, *reading.evidence_and_sources)
    is_of_record = checkable_marks(text) or shared_word_count(text, *others)
    return bool(is_of_record) and new_thing_count(text, *reading.task) >= ALTERNATIVE_WORDS


ALTERNATIVE_RULES = (check_missing_alternative, check_restated_alternative)
"""For every reason."""
CONCRETE_ALTERNATIVE_RULES = (check_generic_alternative, check_idle_alternative)
"""For every reason except OBSOLETE, for which cancelling is enough."""
REFORMULATION_RULES = (*CONCRETE_ALTERNATIVE_RULES, not_reformulated)
"""For infeasibility."""


_HTTP_ERROR = re.compile(r"(?<![\w.,/-])[45][0-9]{2}(?![\w,/-]|\.[0-9])")
_SUCCESS = re.compile(r"(?<![\w.,/-])20[0-6](?![\w,/-]|\.[0-9])|\b[1-9][0-9]+ (?:tests? )?passed\b")
MIN_PROOFS = 2
SHARED = 2
FEW = 5
"""How many things evidence must have in common with the rest of the record, unless it contains only few."""
_LINE = re.compile(r":[0-9][0-9:,-]*$")
_ANY_FAILURE = frozenset(word[:6] for word in f"{WORD_LISTS['fails']} {WORD_LISTS['not']}".split())
"""Words that may occur in any error text."""
FRESH = 7


def evidence_with_data(reading: ParsedRejection) -> tuple[ParsedEvidence, ...]:
    """The distinct pieces of evidence with data."""
    return tuple(
        {(item.data.raw, item.source.raw): item for item in reading.evidence if item.data.raw}.values()
    )


def observed_evidence(reading: ParsedRejection) -> tuple[ParsedEvidence, ...]:
    """The pieces of evidence that show an observation instead of the agent's opinion."""
    return tuple(item for item in evidence_with_data(reading) if not is_opinion(item, reading))


def is_opinion(item: ParsedEvidence, reading: ParsedRejection) -> bool:
    """True for an opinion: hedged without an observation, or with the agent itself as its only source."""
    if checkable_marks(item.source) or item.source.acronyms:
        return False
    if is_own_view(item.source.raw):
        return True
    is_view = HEDGES.search(item.data.raw) is not None or is_own_view(item.kind)
    return is_view and checkable_marks(item.data, *reading.claim, *reading.task) < 1


def check_missing_evidence(reading: ParsedRejection) -> Issue | None:
    if reading.evidence or reading.reason is None:
        return None
    return issue("evidence_missing", reason=reading.reason.name)


def check_uncounted_evidence(reading: ParsedRejection) -> Issue | None:
    """There is no evidence of growth, and no counts of it in at least two attempts."""
    counted = sum(bool(attempt.figures) for attempt in reading.attempts)
    return None if counted >= MIN_PROOFS else check_missing_evidence(reading)


def check_opinion_evidence(reading: ParsedRejection) -> Issue | None:
    """The evidence is only the agent's opinion."""
    return (
        issue("evidence_opinion") if evidence_with_data(reading) and not observed_evidence(reading) else None
    )


def check_unrelated_evidence(reading: ParsedRejection) -> Issue | None:
    """The evidence has nothing in common with the claim, the attempts or the task."""
    statements = (*reading.claim, *reading.attempts, *reading.task, reading.alternative)
    shown = _subject_things(
        *(text for item in evidence_with_data(reading) for text in (item.data, item.source))
    )
    shared = shown & _subject_things(*statements)
    is_named = shared & _subject_things(reading.summary, reading.factor, reading.title)
    is_estimate = reading.reason is RejectionReason.SCOPE_CREEP and any(
        item.hours for item in reading.evidence
    )
    is_shared = len(shared) >= (SHARED if len(shown) > FEW else 1)
    if not shown or is_named or is_shared or is_estimate or any(not thing.isalpha() for thing in shared):
        return None
    return issue("evidence_unrelated")


def _subject_things(*texts: Text) -> frozenset[str]:
    """The subjects of texts: their specific words, identifiers without line numbers, and longer figures."""
    found = set[str]()
    for text in texts:
        found |= text.stems - GENERIC_STEMS - _ANY_FAILURE
        found.update(_LINE.sub("", code) for code in text.codes)
        found.update(figure.replace(",", "") for figure in text.figures if len(figure) > 1)
    return frozenset(found)


def check_empty_evidence(reading: ParsedRejection) -> Issue | None:
    """No piece of the evidence has data."""
    return issue("evidence_empty") if reading.evidence and not evidence_with_data(reading) else None


def check_too_little_evidence(reading: ParsedRejection) -> Issue | None:
    """Infeasibility is claimed with fewer than two pieces of evidence."""
    if reading.reason is not RejectionReason.INFEASIBLE:
        return None
    return issue("evidence_too_few") if len(observed_evidence(reading)) < MIN_PROOFS else None


def check_stale_evidence(reading: ParsedRejection) -> Issue | None:
    """All dates in the evidence and the attempts of a blocker are older than a week."""
    ages = [past for item in reading.evidence for past in _evidence_ages(reading, item.data, item.source)]
    days = [*ages, *_evidence_ages(reading, *reading.attempts)]
    return issue("evidence_stale") if ages and min(days) > FRESH else None


def _evidence_ages(reading: ParsedRejection, *texts: Text) -> list[int]:
    """How many days before the rejection the dates of observations in texts are."""
    if reading.rejected_on is None:
        return []
    telling = (text for text in texts if text.figures or text.codes)
    return [past for text in telling for past in days_before(text.raw, reading.rejected_on)]


def check_contradicting_evidence(reading: ParsedRejection) -> Issue | None:
    """An HTTP error is claimed that no observation shows, and a success was observed."""
    claimed = _HTTP_ERROR.findall(f"{reading.summary.raw}\n{reading.factor.raw}")
    shown = "\n".join(text.raw for item in reading.evidence for text in (item.data, item.source))
    seen = "\n".join((shown, *(attempt.raw for attempt in reading.attempts)))
    if not claimed or any(code in seen for code in claimed) or not _SUCCESS.search(shown):
        return None
    return issue("evidence_contradicts", claimed=claimed[0])


GENERAL_EVIDENCE_RULES = (check_empty_evidence,)
"""For every reason: given evidence must have content."""
EVIDENCE_RULES = (check_missing_evidence, check_opinion_evidence, check_unrelated_evidence)
"""For the reasons that always need evidence."""
BLOCKER_EVIDENCE_RULES = (*EVIDENCE_RULES, check_stale_evidence, check_contradicting_evidence)
"""For a present blocker."""
PROOF_EVIDENCE_RULES = (check_too_little_evidence, check_unrelated_evidence)
"""For infeasibility."""
GROWTH_EVIDENCE_RULES = (check_uncounted_evidence, check_unrelated_evidence)
"""For scope creep, where an estimate is always an opinion."""
