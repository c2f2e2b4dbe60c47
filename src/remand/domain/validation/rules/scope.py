"""Scope creep: the original scope as the task has it, growth that the figures give, and sub-tasks."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.growth import is_misplanned, is_supported
from remand.domain.validation.lexicon import GENERIC_STEMS
from remand.domain.validation.reading import Reading, SubTask
from remand.domain.validation.substance import brings, likeness, overlap
from remand.domain.validation.tokens import Text

GROWN = 2.0
SUB_TASKS = 2
MAX_SUB_TASKS = 50
QUOTED = 0.5
EXPLAINED = 2
SAME_SCOPE = 0.8
SAME_TITLE = 0.6


def original_missing(reading: Reading) -> Issue | None:
    """No original scope."""
    return None if reading.original_scope.raw else issue("scope_original_missing")


def misquoted(reading: Reading) -> Issue | None:
    """An original scope that the task's title and scope do not hold."""
    quoted = reading.original_scope.stems
    known = reading.title.stems | reading.scope.stems
    if not quoted or not known:
        return None
    return issue("scope_misquoted") if overlap(quoted, known) < QUOTED or is_misplanned(reading) else None


def growth_missing(reading: Reading) -> Issue | None:
    """No growth, or less than twice."""
    if reading.growth is None:
        return issue("scope_growth_invalid" if reading.has_growth else "scope_growth_missing")
    if reading.growth <= 0:
        return issue("scope_growth_invalid")
    return issue("scope_growth_missing") if reading.growth < GROWN else None


def growth_unsupported(reading: Reading) -> Issue | None:
    """A growth that the figures given do not yield."""
    if reading.growth is None or reading.growth < GROWN:
        return None
    return None if is_supported(reading) else issue("scope_growth_unsupported")


def decomposition_too_few(reading: Reading) -> Issue | None:
    """Fewer than two sub-tasks with a title."""
    titled = {task.title.raw.casefold() for task in reading.sub_tasks if task.title.raw}
    return issue("decomposition_too_few") if len(titled) < SUB_TASKS else None


def growth_unexplained(reading: Reading) -> Issue | None:
    """A detail that says that it grew, and not how."""
    if not reading.detail.raw or brings(reading.detail, *reading.task) >= EXPLAINED:
        return None
    return issue("scope_growth_unexplained")


def decomposition_repeats(reading: Reading) -> Issue | None:
    """Sub-tasks that are one thing under two titles, or nothing but the task again."""
    titled = [task for task in reading.sub_tasks if task.title.raw]
    kept: list[SubTask] = []
    for task in titled:
        if not any(_is_same(task, other) for other in kept):
            kept.append(task)
    if len(titled) < SUB_TASKS:
        return None
    is_new = any(brings(text, *reading.task) >= 1 for task in kept for text in (task.title, task.scope))
    return issue("decomposition_repeats") if len(kept) < SUB_TASKS or not is_new else None


def _is_same(one: SubTask, other: SubTask) -> bool:
    """True when two sub-tasks differ in nothing but how they are put."""
    if set(one.title.figures) != set(other.title.figures) or set(one.scope.figures) != set(
        other.scope.figures
    ):
        return False
    has_scopes = bool(one.scope.stems and other.scope.stems)
    is_same_scope = has_scopes and likeness(one.scope.stems, other.scope.stems) >= SAME_SCOPE
    titles = likeness(_matter(one.title), _matter(other.title))
    return is_same_scope or (titles >= SAME_TITLE and not has_scopes)


def _matter(text: Text) -> frozenset[str]:
    """What a title is about, without the words of doing it."""
    return (text.stems - GENERIC_STEMS) or text.stems


def decomposition_too_many(reading: Reading) -> Issue | None:
    """More sub-tasks than anyone could oversee."""
    return issue("decomposition_too_many") if reading.sub_task_count > MAX_SUB_TASKS else None


RULES = (
    original_missing,
    misquoted,
    growth_missing,
    growth_unsupported,
    growth_unexplained,
    decomposition_too_few,
    decomposition_repeats,
    decomposition_too_many,
)
