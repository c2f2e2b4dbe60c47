"""Measures that bear on one reason only; for any other reason they are 0."""

from __future__ import annotations

import re
from collections.abc import Callable

from remand.domain.reasons import RejectionReason
from remand.domain.validation.durations import hours_in
from remand.domain.validation.features.view import View
from remand.domain.validation.mentions import bare
from remand.domain.validation.substance import marks, overlap
from remand.domain.validation.tokens import read

IN_WORDS = 0.8
_QUESTION = re.compile(r"[^.?!？。！]{2,200}[?？]")


def unclear_scope_marks(view: View) -> float:
    """How much the task's scope pins down although it is called unclear."""
    return min(marks(view.reading.scope) + len(view.reading.scope.acronyms) / 2, 3) / 3


def unclear_answered(view: View) -> float:
    """How much of the questions' words stands in the scope."""
    questions = read(" ".join(_QUESTION.findall(view.reading.detail.raw)))
    return overlap(view.reading.scope.stems, questions.stems | view.reading.factor.stems)


def unclear_asked(view: View) -> float:
    """Whether someone was asked before rejecting as unclear."""
    return float(any(text.count("asked") for text in view.attempts))


def infeasible_restricts(view: View) -> float:
    """How much the scope restricts."""
    return min(view.reading.scope.count("restricts"), 3) / 3


def infeasible_permits(view: View) -> float:
    """How much the scope leaves open."""
    return min(view.reading.scope.count("permits"), 2) / 2


def infeasible_quotes(view: View) -> float:
    """How much of the scope comes back in the claim."""
    claim = view.reading.detail.stems | view.reading.factor.stems | view.reading.summary.stems
    return overlap(view.reading.scope.stems, claim)


def dependency_numbered(view: View) -> float:
    """Whether the dependency's id has digits, as ids that were given out do; one told in words counts for less."""
    reading = view.reading
    if not reading.dependencies:
        return IN_WORDS if reading.names_dependency else 0.0
    return float(any(any(char.isdigit() for char in bare(name)) for name in reading.dependencies))


def dependency_trivial(view: View) -> float:
    """Words of ease where a dependency is claimed."""
    return min(sum(text.count("trivial") for text in view.told), 3) / 3


def dependency_failed(view: View) -> float:
    """Whether evidence shows what fails without the dependency."""
    return float(any(text.count("fails") for text in view.evidence_texts))


def creep_sub_tasks_new(view: View) -> float:
    """How much the sub-tasks say that the task did not."""
    said = frozenset[str]().union(
        *(task.title.telling | task.scope.telling for task in view.reading.sub_tasks)
    )
    return min(len(said - view.task_stems), 12) / 12


def creep_estimated(view: View) -> float:
    """Whether the task itself states the effort that is said to have grown."""
    stated = view.reading.scope.raw or view.reading.original_scope.raw
    return float(bool(hours_in(stated) or hours_in(view.reading.title.raw)))


def creep_sub_task_marks(view: View) -> float:
    """Checkable things in the sub-tasks."""
    return view.mean(min(marks(task.title) + marks(task.scope), 2) / 2 for task in view.reading.sub_tasks)


def unclear_questions(view: View) -> float:
    """How many questions are asked, up to four."""
    return min(len(_QUESTION.findall(view.reading.detail.raw)), 4) / 4


def unclear_zero(view: View) -> float:
    """Whether the evidence counts nothing, such as no differences."""
    return float(any("0" in text.figures for text in view.evidence_texts))


FOR: dict[RejectionReason, tuple[Callable[[View], float], ...]] = {
    RejectionReason.UNCLEAR_REQUIREMENTS: (unclear_asked, unclear_questions),
    RejectionReason.INFEASIBLE: (infeasible_restricts, infeasible_quotes),
    RejectionReason.MISSING_DEPENDENCY: (dependency_numbered, dependency_failed),
    RejectionReason.SCOPE_CREEP: (creep_estimated, creep_sub_task_marks, creep_sub_tasks_new),
}
AGAINST: dict[RejectionReason, tuple[Callable[[View], float], ...]] = {
    RejectionReason.UNCLEAR_REQUIREMENTS: (unclear_scope_marks, unclear_answered, unclear_zero),
    RejectionReason.INFEASIBLE: (infeasible_permits,),
    RejectionReason.MISSING_DEPENDENCY: (dependency_trivial,),
}
WEAKNESS = {
    "unclear_asked": "questions_weak",
    "unclear_questions": "questions_weak",
    "unclear_scope_marks": "questions_answered",
    "unclear_answered": "questions_answered",
    "unclear_zero": "interpretations_weak",
    "infeasible_restricts": "infeasible_proof_weak",
    "infeasible_quotes": "infeasible_proof_weak",
    "infeasible_permits": "infeasible_proof_weak",
    "dependency_numbered": "dependency_weak",
    "dependency_failed": "dependency_weak",
    "dependency_trivial": "hard_requirement_weak",
    "creep_estimated": "scope_weak",
    "creep_sub_task_marks": "decomposition_weak",
    "creep_sub_tasks_new": "decomposition_weak",
}
"""The issue each of these measures stands for."""
