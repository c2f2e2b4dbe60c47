"""The features measured in a rejection's text: which apply to a reason, and which count against it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property

from remand.domain.reasons import RejectionReason
from remand.domain.validation.parsed_rejection import ParsedEvidence, ParsedRejection, bare_name, hours_in
from remand.domain.validation.record_rules import attempt_similarity
from remand.domain.validation.tokens import (
    Text,
    checkable_marks,
    is_content,
    overlap_share,
    stem,
    tokenise_text,
)


class MeasuredRejection:
    """A parsed rejection with the word sets of its parts, each computed once."""

    def __init__(self, reading: ParsedRejection) -> None:
        self.reading = reading
        self.attempts = reading.attempts
        self.task = (reading.title, reading.scope)

    @cached_property
    def task_stems(self) -> frozenset[str]:
        return self.reading.title.stems | self.reading.scope.stems

    @cached_property
    def attempt_stems(self) -> frozenset[str]:
        return frozenset[str]().union(*(text.stems for text in self.attempts))

    @cached_property
    def evidence_texts(self) -> tuple[Text, ...]:
        return tuple(item.data for item in self.reading.evidence)

    @cached_property
    def evidence_stems(self) -> frozenset[str]:
        return frozenset[str]().union(*(text.stems for text in self.evidence_texts))

    @cached_property
    def statements(self) -> tuple[Text, ...]:
        """The texts of the agent besides evidence and alternative."""
        return (self.reading.summary, self.reading.detail, self.reading.factor, *self.attempts)

    @staticmethod
    def mean(values: Iterable[float]) -> float:
        """The mean of values; 0 if there are none."""
        found = list(values)
        return sum(found) / len(found) if found else 0.0


def attempt_outcomes(view: MeasuredRejection) -> float:
    """The share of the attempts that report a result."""
    return view.mean(text.has_outcome for text in view.attempts)


def attempt_protocol(view: MeasuredRejection) -> float:
    """How much the attempts mention the protocol instead of the work."""
    return min(view.mean(text.share("protocol") for text in view.attempts), 0.5)


def attempt_echo(view: MeasuredRejection) -> float:
    """The share of the attempts' words that are in the task."""
    return overlap_share(view.attempt_stems, view.task_stems)


def attempt_alike(view: MeasuredRejection) -> float:
    """The similarity of the two most similar attempts."""
    return attempt_similarity(view.attempts)


def attempt_theme(view: MeasuredRejection) -> float:
    """The share of the attempts that have the most frequent word."""
    counted = Counter(stem for text in view.attempts for stem in text.stems)
    return (max(counted.values(), default=0) - 1) / len(view.attempts) if view.attempts else 0.0


def attempt_telling(view: MeasuredRejection) -> float:
    """How many different specific words the attempts have that the task lacks."""
    new_words = frozenset[str]().union(*(text.telling for text in view.attempts)) - view.task_stems
    return min(len(new_words), 12) / 12


def attempt_fails(view: MeasuredRejection) -> float:
    """The number of observed failures for each attempt."""
    return min(sum(text.count("fails") for text in view.attempts), 3) / 3


def attempt_asked(view: MeasuredRejection) -> float:
    """Whether someone was asked."""
    return float(any(text.count("asked") for text in view.attempts))


def factor_marks(view: MeasuredRejection) -> float:
    """Checkable things in the blocking factor, up to two."""
    return (
        min(checkable_marks(view.reading.factor, *view.task) + len(view.reading.factor.acronyms) / 2, 2) / 2
    )


def factor_telling(view: MeasuredRejection) -> float:
    """How many specific words the blocking factor has, up to six."""
    return min(len(view.reading.factor.telling), 6) / 6


def factor_protocol(view: MeasuredRejection) -> float:
    """How much the blocking factor mentions the protocol."""
    return min(view.reading.factor.share("protocol"), 0.5)


def factor_seen(view: MeasuredRejection) -> float:
    """The share of the blocking factor that evidence and attempts mention."""
    return overlap_share(view.reading.factor.stems, view.attempt_stems | view.evidence_stems)


def factor_in_task(view: MeasuredRejection) -> float:
    """The share of the blocking factor that is in the task."""
    return overlap_share(view.reading.factor.stems, view.task_stems)


def detail_marks(view: MeasuredRejection) -> float:
    """Checkable things in the detail, up to four."""
    return min(checkable_marks(view.reading.detail, *view.task), 4) / 4


def detail_protocol(view: MeasuredRejection) -> float:
    """How much the detail mentions the protocol."""
    return min(view.reading.detail.share("protocol"), 0.4)


def detail_prefers(view: MeasuredRejection) -> float:
    """Words of preference in the detail and the blocking factor."""
    return min(view.reading.detail.count("prefers") + view.reading.factor.count("prefers"), 3) / 3


def repetition(view: MeasuredRejection) -> float:
    """How often words are repeated in all texts of the agent."""
    texts = (*view.statements, *view.evidence_texts, view.reading.alternative)
    counted = Counter(stem(word) for text in texts for word in text.words if is_content(word))
    total = sum(counted.values())
    return sum(count - 1 for count in counted.values()) / total if total else 1.0


def volume(view: MeasuredRejection) -> float:
    """The length of all texts of the agent: the longer, the more of it must be substance."""
    texts = (*view.statements, *view.evidence_texts, view.reading.alternative)
    return min(sum(len(text.words) for text in texts), 300) / 300


_ALL_OF = re.compile(r"(?<![\d.,])(\d[\d,.]{0,11})\s?(?:/|of|von|de|sur|di|z|из|中)\s?\1(?![\d])")


def evidence_telling(view: MeasuredRejection) -> float:
    """Specific words in the data that the task lacks, up to ten."""
    new_words = frozenset[str]().union(*(text.telling for text in view.evidence_texts)) - view.task_stems
    return min(len(new_words), 10) / 10


def evidence_protocol(view: MeasuredRejection) -> float:
    """How much data and sources mention the protocol."""
    texts = (*view.evidence_texts, *(item.source for item in view.reading.evidence))
    return min(view.mean(text.share("protocol") for text in texts), 0.4)


def evidence_sources(view: MeasuredRejection) -> float:
    """Whether sources are places, runs or commands rather than notions."""
    return view.mean(
        min(checkable_marks(item.source) + len(item.source.acronyms) / 2 + len(item.source.words) / 6, 1.5)
        / 1.5
        for item in view.reading.evidence
    )


def evidence_tied(view: MeasuredRejection) -> float:
    """The share of the evidence's figures and identifiers that attempts and detail also have."""
    stated = {mark for text in view.statements for mark in (*text.figures, *text.codes)}
    marks = {mark for text in view.evidence_texts for mark in (*text.figures, *text.codes)}
    return len(stated & marks) / len(marks) if marks else 0.0


def succeeded(view: MeasuredRejection) -> float:
    """Whether the last attempt or piece of evidence reports a success."""
    last = (*view.attempts[-1:], *view.evidence_texts[-1:])
    return view.mean(is_success(text) for text in last)


def is_success(text: Text) -> bool:
    """True for a text that reports a success, or all of a number, and no failure."""
    if text.count("fails") or text.count("not"):
        return False
    return bool(text.count("works") or text.count("done")) or _ALL_OF.search(text.raw) is not None


def evidence_all(view: MeasuredRejection) -> float:
    """Whether evidence counts only successes: all of a number, and no failure."""
    return float(any(_is_all(item) for item in view.reading.evidence))


def _is_all(item: ParsedEvidence) -> bool:
    if item.data.count("fails") or item.data.count("not"):
        return False
    counts = [value for _, value in item.counts if value >= 2]
    return len(set(counts)) < len(counts) or _ALL_OF.search(item.data.raw) is not None


_CLAUSE = re.compile(r"[.;:。；](?:\s|$)|[。；]")


def alternative_marks(view: MeasuredRejection) -> float:
    """Checkable things in the alternative, up to three."""
    return min(checkable_marks(view.reading.alternative, *view.task), 3) / 3


def alternative_chooses(view: MeasuredRejection) -> float:
    """Whether it offers a choice or a condition."""
    return min(view.reading.alternative.count("chooses"), 2) / 2


def alternative_ready(view: MeasuredRejection) -> float:
    """Whether something is ready."""
    return min(view.reading.alternative.count("ready"), 2) / 2


def alternative_waits(view: MeasuredRejection) -> float:
    """How much the alternative is about waiting, if it offers no choice."""
    if view.reading.alternative.count("chooses"):
        return 0.0
    return min(view.reading.alternative.share("waits"), 0.4)


def alternative_protocol(view: MeasuredRejection) -> float:
    """How much the alternative mentions the protocol."""
    return min(view.reading.alternative.share("protocol"), 0.4)


def alternative_new(view: MeasuredRejection) -> float:
    """Specific words in the alternative that neither task nor blocking factor have, up to eight."""
    known = view.task_stems | view.reading.factor.stems
    return min(len(view.reading.alternative.telling - known), 8) / 8


def alternative_echo(view: MeasuredRejection) -> float:
    """The share of the alternative that repeats task and blocking factor."""
    return overlap_share(view.reading.alternative.stems, view.task_stems | view.reading.factor.stems)


def alternative_clauses(view: MeasuredRejection) -> float:
    """How many sentences or clauses the alternative has, up to three."""
    return min(len(_CLAUSE.findall(view.reading.alternative.raw)), 3) / 3


def alternative_share(view: MeasuredRejection) -> float:
    """The share of the record that is about how to continue, so that short records are not penalised."""
    statement_length = sum(len(text.words) + len(text.figures) for text in view.statements)
    own = len(view.reading.alternative.words) + len(view.reading.alternative.figures)
    return min(own / max(statement_length, 20), 0.5) * 2


IN_WORDS = 0.8
_QUESTION = re.compile(r"[^.?!？。！]{2,200}[?？]")


def unclear_scope_marks(view: MeasuredRejection) -> float:
    """How much the scope of a task specifies that is called unclear."""
    return min(checkable_marks(view.reading.scope) + len(view.reading.scope.acronyms) / 2, 3) / 3


def unclear_answered(view: MeasuredRejection) -> float:
    """The share of the questions' words that are in the scope."""
    questions = tokenise_text(" ".join(_QUESTION.findall(view.reading.detail.raw)))
    return overlap_share(view.reading.scope.stems, questions.stems | view.reading.factor.stems)


def unclear_asked(view: MeasuredRejection) -> float:
    """Whether someone was asked before rejecting as unclear."""
    return float(any(text.count("asked") for text in view.attempts))


def infeasible_restricts(view: MeasuredRejection) -> float:
    """How much the scope restricts."""
    return min(view.reading.scope.count("restricts"), 3) / 3


def infeasible_permits(view: MeasuredRejection) -> float:
    """How much the scope leaves open."""
    return min(view.reading.scope.count("permits"), 2) / 2


def infeasible_quotes(view: MeasuredRejection) -> float:
    """The share of the scope that the claim mentions."""
    claim = view.reading.detail.stems | view.reading.factor.stems | view.reading.summary.stems
    return overlap_share(view.reading.scope.stems, claim)


def dependency_numbered(view: MeasuredRejection) -> float:
    """Whether the dependency's id has digits, as real ids do; one described in words counts for less."""
    reading = view.reading
    if not reading.dependencies:
        return IN_WORDS if reading.names_dependency else 0.0
    return float(any(any(char.isdigit() for char in bare_name(name)) for name in reading.dependencies))


def dependency_trivial(view: MeasuredRejection) -> float:
    """Words that call a claimed dependency easy."""
    return min(sum(text.count("trivial") for text in view.statements), 3) / 3


def dependency_failed(view: MeasuredRejection) -> float:
    """Whether evidence shows what fails without the dependency."""
    return float(any(text.count("fails") for text in view.evidence_texts))


def creep_sub_tasks_new(view: MeasuredRejection) -> float:
    """How much the sub-tasks add to the task."""
    said = frozenset[str]().union(
        *(task.title.telling | task.scope.telling for task in view.reading.sub_tasks)
    )
    return min(len(said - view.task_stems), 12) / 12


def creep_estimated(view: MeasuredRejection) -> float:
    """Whether the task itself states the original effort."""
    stated = view.reading.scope.raw or view.reading.original_scope.raw
    return float(bool(hours_in(stated) or hours_in(view.reading.title.raw)))


def creep_sub_task_marks(view: MeasuredRejection) -> float:
    """Checkable things in the sub-tasks."""
    return view.mean(
        min(checkable_marks(task.title) + checkable_marks(task.scope), 2) / 2
        for task in view.reading.sub_tasks
    )


def unclear_questions(view: MeasuredRejection) -> float:
    """How many questions are asked, up to four."""
    return min(len(_QUESTION.findall(view.reading.detail.raw)), 4) / 4


def unclear_zero(view: MeasuredRejection) -> float:
    """Whether the evidence counts nothing, such as no differences."""
    return float(any("0" in text.figures for text in view.evidence_texts))


Measure = Callable[[MeasuredRejection], float]
MeasureGroup = tuple[str, tuple[Measure, ...], tuple[Measure, ...]]
"""For each issue that low values mean: the measures that count for a rejection, and those that count against it."""

_CLAIM = "claim"
"""A placeholder for an issue that depends on the reason."""
_ALWAYS: tuple[MeasureGroup, ...] = (
    (
        "effort_weak",
        (attempt_outcomes, attempt_telling, attempt_fails, attempt_asked),
        (attempt_protocol, attempt_echo, attempt_alike, attempt_theme),
    ),
    ("blocking_factor_weak", (factor_marks, factor_telling, factor_seen), (factor_protocol, factor_in_task)),
    (_CLAIM, (detail_marks,), (detail_protocol, detail_prefers, repetition, volume)),
    (
        "evidence_weak",
        (evidence_telling, evidence_sources, evidence_tied),
        (evidence_protocol, succeeded, evidence_all),
    ),
)
_ALTERNATIVE: MeasureGroup = (
    "alternative_weak",
    (
        *(alternative_share, alternative_marks, alternative_chooses),
        *(alternative_ready, alternative_new, alternative_clauses),
    ),
    (alternative_waits, alternative_protocol, alternative_echo),
)
_OF_REASON: dict[RejectionReason, tuple[MeasureGroup, ...]] = {
    RejectionReason.UNCLEAR_REQUIREMENTS: (
        ("questions_weak", (unclear_asked, unclear_questions), ()),
        ("questions_answered", (), (unclear_scope_marks, unclear_answered)),
        ("interpretations_weak", (), (unclear_zero,)),
    ),
    RejectionReason.INFEASIBLE: (
        ("infeasible_proof_weak", (infeasible_restricts, infeasible_quotes), (infeasible_permits,)),
    ),
    RejectionReason.MISSING_DEPENDENCY: (
        ("dependency_weak", (dependency_numbered, dependency_failed), ()),
        ("hard_requirement_weak", (), (dependency_trivial,)),
    ),
    RejectionReason.SCOPE_CREEP: (
        ("scope_weak", (creep_estimated,), ()),
        ("decomposition_weak", (creep_sub_task_marks, creep_sub_tasks_new), ()),
    ),
}
_WEAK_CLAIM = {
    RejectionReason.SCOPE_CREEP: "scope_weak",
    RejectionReason.MISSING_DEPENDENCY: "hard_requirement_weak",
    RejectionReason.INFEASIBLE: "infeasible_proof_weak",
    RejectionReason.UNCLEAR_REQUIREMENTS: "questions_weak",
}
_NATURAL_WHEN_OBSOLETE = (
    *(attempt_echo, attempt_theme, factor_in_task, repetition),
    *(succeeded, evidence_all),
)
"""Work that is already done is described in the words of the task, and succeeds."""

_GROUPS = (*_ALWAYS, _ALTERNATIVE, *(group for groups in _OF_REASON.values() for group in groups))
_WEAKNESS = {
    measure.__name__: code for code, pro, contra in _GROUPS if code != _CLAIM for measure in (*pro, *contra)
}
OF_ONE_REASON = frozenset(
    measure.__name__
    for groups in _OF_REASON.values()
    for _, pro, contra in groups
    for measure in (*pro, *contra)
)
NOTES = {
    measure.__name__: (measure.__doc__ or "").strip()
    for _, pro, contra in _GROUPS
    for measure in (*pro, *contra)
}
"""The meaning of each measure in one sentence."""
COUNTS_AGAINST = frozenset(measure.__name__ for _, _, contra in _GROUPS for measure in contra)
"""Each measure may count in one direction only: these against a rejection, all others for it."""


def _measures_for(reason: RejectionReason | None) -> tuple[Measure, ...]:
    """The measures that apply to a reason. If sub-tasks are required, they take the place of the alternative."""
    has_alternative = reason not in {RejectionReason.SCOPE_CREEP, RejectionReason.OBSOLETE}
    groups = (*_ALWAYS, *((_ALTERNATIVE,) if has_alternative else ()))
    if reason is not None:
        groups += _OF_REASON.get(reason, ())
    excluded = _NATURAL_WHEN_OBSOLETE if reason is RejectionReason.OBSOLETE else ()
    return tuple(
        measure for _, pro, contra in groups for measure in (*pro, *contra) if measure not in excluded
    )


_MEASURES_BY_REASON = {reason: _measures_for(reason) for reason in (*RejectionReason, None)}


def measure_rejection(reading: ParsedRejection) -> dict[str, float]:
    """The value of every measure that applies to the reason."""
    view = MeasuredRejection(reading)
    return {measure.__name__: float(measure(view)) for measure in _MEASURES_BY_REASON[reading.reason]}


def weakness_code(name: str, reason: RejectionReason | None) -> str:
    """The code of the issue that a low value of a measure means."""
    if reason is RejectionReason.INFEASIBLE and _WEAKNESS.get(name) == "alternative_weak":
        return "reformulation_weak"
    if name in _WEAKNESS:
        return _WEAKNESS[name]
    return _WEAK_CLAIM.get(reason, "blocking_factor_weak") if reason else "blocking_factor_weak"
