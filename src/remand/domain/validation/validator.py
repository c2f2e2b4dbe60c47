"""Judges a task rejection: the rules first, then the score of what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from remand.domain.reasons import RejectionReason
from remand.domain.rejection import TaskRejection
from remand.domain.validation.assessment import Assessment, Issue, IssueText
from remand.domain.validation.catalogue import issue
from remand.domain.validation.reading import Reading, read_rejection
from remand.domain.validation.rules import (
    account,
    alternative,
    blocking_factor,
    dependency,
    effort,
    evidence,
    infeasible,
    obsolete,
    questions,
    scope,
)
from remand.domain.validation.rules.ledger import against_ledger, confirmed
from remand.domain.validation.score import features_of, score_of, weakest
from remand.domain.validation.world import World

Rule = Callable[[Reading], Issue | None]

_FOR_ALL: tuple[Rule, ...] = (
    *account.RULES,
    *effort.RULES,
    *blocking_factor.RULES,
    *alternative.RULES,
    *evidence.FOR_ALL,
)
_BY_REASON: dict[RejectionReason | None, tuple[Rule, ...]] = {
    None: alternative.CONCRETE_RULES,
    RejectionReason.BLOCKER: (*alternative.CONCRETE_RULES, *evidence.BLOCKER_RULES),
    RejectionReason.SCOPE_CREEP: (*alternative.CONCRETE_RULES, *evidence.GROWTH_RULES, *scope.RULES),
    RejectionReason.MISSING_DEPENDENCY: (*alternative.CONCRETE_RULES, *evidence.RULES, *dependency.RULES),
    RejectionReason.INFEASIBLE: (*alternative.REFORMULATION_RULES, *evidence.PROOF_RULES, *infeasible.RULES),
    RejectionReason.UNCLEAR_REQUIREMENTS: (*alternative.CONCRETE_RULES, *evidence.RULES, *questions.RULES),
    RejectionReason.OBSOLETE: (*evidence.RULES, *obsolete.RULES),
}


def assess(rejection: TaskRejection, context: Mapping[str, Any], world: World | None = None) -> Assessment:
    """Judges a rejection of the task that the context describes, with what the ledger knows if there is one."""
    reading = read_rejection(rejection, context)
    features = (*features_of(reading), *(confirmed(reading, world) if world is not None else ()))
    score = score_of(reading, features)
    issues = list(broken(reading, world))
    if score < 0:
        named = {item.field for item in issues}
        issues += [item for item in weakest(reading, features) if item.field not in named]
    return Assessment(issues=_once(issues), features=features, score=score)


class RejectionValidator:
    """Tells earned rejections from lazy ones. Whatever the record holds, it answers with issues and never fails."""

    def validate(
        self, rejection: TaskRejection, task_context: Mapping[str, Any]
    ) -> tuple[bool, list[IssueText]]:
        """Whether a rejection is valid, and if not what would make it so: messages that know code and field."""
        assessment = self.assess(_record(rejection), task_context)
        return assessment.is_valid, [IssueText(found) for found in assessment.issues]

    def assess(
        self, rejection: TaskRejection, task_context: Mapping[str, Any], world: World | None = None
    ) -> Assessment:
        """The same, with everything that counted."""
        return assess(rejection, task_context, world)


def _record(given: object) -> TaskRejection:
    """The record, also out of its dict; out of anything else an empty one, which has issues enough."""
    if isinstance(given, TaskRejection):
        return given
    return TaskRejection.from_dict(given if isinstance(given, Mapping) else {})


def broken(reading: Reading, world: World | None) -> Iterator[Issue]:
    """The issues of all rules that apply."""
    if reading.reason is None:
        yield issue("reason_unknown")
    for rule in (*_FOR_ALL, *_BY_REASON[reading.reason]):
        found = rule(reading)
        if found:
            yield found
    if world is not None:
        yield from against_ledger(reading, world)


def _once(issues: list[Issue]) -> tuple[Issue, ...]:
    """Each code once, unless its message differs."""
    return tuple({(item.code, item.message): item for item in issues}.values())
