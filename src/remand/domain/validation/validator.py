"""Judges a task rejection: the rules first, then the score of the weighted measures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from remand.domain.reasons import RejectionReason
from remand.domain.rejection import TaskRejection
from remand.domain.validation import dependency_rules, record_rules, requirement_rules
from remand.domain.validation.assessment import (
    Assessment,
    Feature,
    Issue,
    IssueText,
    ValidationFacts,
    field_of,
    issue,
)
from remand.domain.validation.dependency_rules import check_against_ledger, confirmed_features
from remand.domain.validation.measures import NOTES, OF_ONE_REASON, measure_rejection, weakness_code
from remand.domain.validation.parsed_rejection import ParsedRejection, parse_rejection
from remand.domain.validation.weights import BIAS, WEIGHTS

UNWEIGHED = 1.0
"""The weights were fitted without records of obsolete tasks, so the score rejects only very poor ones."""
BRIEF = 100
"""The most words and figures of a brief record."""
BENEFIT = 0.8
"""The bonus of a brief record, which gives little to measure; the rules have checked that its parts exist."""
FOREIGN_BENEFIT = 1.6
"""The bonus of a record in a language without word lists."""
WEAKEST = 2
OWN_WEAK = -0.2
"""The contribution below which a measure specific to the reason is named as well."""
ALSO_WEAK = 0.6
"""A part is named beside the weakest one if its contribution is at least this share of that one's."""


def weighted_features(reading: ParsedRejection) -> tuple[Feature, ...]:
    """The measures relative to their means, with their weights, the largest contribution first."""
    features = [
        Feature(
            name=name,
            field=field_of(weakness_code(name, reading.reason)),
            value=value - WEIGHTS[name][0],
            weight=WEIGHTS[name][1],
            note=NOTES[name],
        )
        for name, value in measure_rejection(reading).items()
        if name in WEIGHTS
    ]
    if brevity_benefit(reading):
        note = "The record is brief, or in a language without word lists, so the measures say little."
        features.append(
            Feature(
                name="benefit", field="reason_detail", value=1.0, weight=brevity_benefit(reading), note=note
            )
        )
    return tuple(sorted(features, key=lambda feature: -abs(feature.contribution)))


def total_score(reading: ParsedRejection, features: Iterable[Feature]) -> float:
    """The sum of the contributions; below zero it counts against the rejection."""
    start = BIAS + UNWEIGHED if reading.reason is RejectionReason.OBSOLETE else BIAS
    return start + sum(feature.contribution for feature in features)


def brevity_benefit(reading: ParsedRejection) -> float:
    """The bonus of a record that is brief, or in a language whose words the measures do not know; otherwise 0."""
    shown = (item.data for item in reading.evidence)
    texts = (*reading.claim, *reading.attempts, reading.alternative, *shown)
    is_brief = sum(len(text.words) + len(text.figures) for text in texts) <= BRIEF
    if not reading.is_readable:
        return FOREIGN_BENEFIT
    return BENEFIT if is_brief else 0.0


def weakest_issues(reading: ParsedRejection, features: Iterable[Feature]) -> Iterator[Issue]:
    """The issues of the one or two parts with the lowest contributions, and of measures specific to the reason."""
    pulled: dict[str, float] = defaultdict(float)
    own = set()
    for feature in features:
        if feature.contribution < 0:
            code = weakness_code(feature.name, reading.reason)
            pulled[code] += feature.contribution
            if feature.name in OF_ONE_REASON:
                own.add(code)
    ordered = sorted(pulled, key=lambda code: pulled[code])
    for place, code in enumerate(ordered):
        is_among_weakest = place < WEAKEST and pulled[code] <= ALSO_WEAK * pulled[ordered[0]]
        if is_among_weakest or (code in own and pulled[code] <= OWN_WEAK):
            yield issue(code)


Rule = Callable[[ParsedRejection], Issue | None]

_FOR_ALL: tuple[Rule, ...] = (
    *record_rules.ACCOUNT_RULES,
    *record_rules.EFFORT_RULES,
    *record_rules.FACTOR_RULES,
    *record_rules.ALTERNATIVE_RULES,
    *record_rules.GENERAL_EVIDENCE_RULES,
)
_BY_REASON: dict[RejectionReason | None, tuple[Rule, ...]] = {
    None: record_rules.CONCRETE_ALTERNATIVE_RULES,
    RejectionReason.BLOCKER: (*record_rules.CONCRETE_ALTERNATIVE_RULES, *record_rules.BLOCKER_EVIDENCE_RULES),
    RejectionReason.SCOPE_CREEP: (
        *record_rules.CONCRETE_ALTERNATIVE_RULES,
        *record_rules.GROWTH_EVIDENCE_RULES,
        *requirement_rules.SCOPE_RULES,
    ),
    RejectionReason.MISSING_DEPENDENCY: (
        *record_rules.CONCRETE_ALTERNATIVE_RULES,
        *record_rules.EVIDENCE_RULES,
        *dependency_rules.DEPENDENCY_RULES,
    ),
    RejectionReason.INFEASIBLE: (
        *record_rules.REFORMULATION_RULES,
        *record_rules.PROOF_EVIDENCE_RULES,
        *requirement_rules.INFEASIBLE_RULES,
    ),
    RejectionReason.UNCLEAR_REQUIREMENTS: (
        *record_rules.CONCRETE_ALTERNATIVE_RULES,
        *record_rules.EVIDENCE_RULES,
        *requirement_rules.QUESTION_RULES,
    ),
    RejectionReason.OBSOLETE: (*record_rules.EVIDENCE_RULES, *dependency_rules.OBSOLETE_RULES),
}


def assess(
    rejection: TaskRejection, context: Mapping[str, Any], facts: ValidationFacts | None = None
) -> Assessment:
    """Judges a rejection of the task that the context describes, with the facts of the ledger if there is one."""
    reading = parse_rejection(rejection, context)
    features = (
        *weighted_features(reading),
        *(confirmed_features(reading, facts) if facts is not None else ()),
    )
    score = total_score(reading, features)
    issues = list(broken_rules(reading, facts))
    if score < 0:
        named = {item.field for item in issues}
        issues += [item for item in weakest_issues(reading, features) if item.field not in named]
    return Assessment(issues=_unique_issues(issues), features=features, score=score)


class RejectionValidator:
    """Distinguishes justified rejections from lazy ones. Whatever the record contains, it returns issues and never fails."""

    def validate(
        self, rejection: TaskRejection, task_context: Mapping[str, Any]
    ) -> tuple[bool, list[IssueText]]:
        """Whether a rejection is valid, and the issues that make it invalid, as messages with code and field."""
        assessment = self.assess(_as_rejection(rejection), task_context)
        return assessment.is_valid, [IssueText(found) for found in assessment.issues]

    def assess(
        self, rejection: TaskRejection, task_context: Mapping[str, Any], facts: ValidationFacts | None = None
    ) -> Assessment:
        """The same, with all features that counted."""
        return assess(rejection, task_context, facts)


def _as_rejection(value: object) -> TaskRejection:
    """The record, also from its dict; an empty record for anything else."""
    if isinstance(value, TaskRejection):
        return value
    return TaskRejection.from_dict(value if isinstance(value, Mapping) else {})


def broken_rules(reading: ParsedRejection, facts: ValidationFacts | None) -> Iterator[Issue]:
    """The issues of all rules that apply."""
    if reading.reason is None:
        yield issue("reason_unknown")
    for rule in (*_FOR_ALL, *_BY_REASON[reading.reason]):
        found = rule(reading)
        if found:
            yield found
    if facts is not None:
        yield from check_against_ledger(reading, facts)


def _unique_issues(issues: list[Issue]) -> tuple[Issue, ...]:
    """Each code once, unless its message differs."""
    return tuple({(item.code, item.message): item for item in issues}.values())
