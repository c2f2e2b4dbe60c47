"""Scope creep: the original scope as the task has it, growth that the figures give, and sub-tasks."""

from __future__ import annotations

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.growth import is_misplanned, is_supported
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import overlap

GROWN = 2.0
SUB_TASKS = 2
MAX_SUB_TASKS = 50
QUOTED = 0.5


def original_missing(reading: Reading) -> Issue | None:
    """No original scope."""
    return None if reading.original_scope.raw else issue("scope_original_missing")


def misquoted(reading: Reading) -> Issue | None:
    """An original scope that the task's title and scope do not hold."""
    quoted = reading.original_scope.stems
    known = reading.title.stems | reading.scope.stems
    if not quoted or not reading.scope.stems:
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


def decomposition_too_many(reading: Reading) -> Issue | None:
    """More sub-tasks than anyone could oversee."""
    return issue("decomposition_too_many") if reading.sub_task_count > MAX_SUB_TASKS else None


RULES = (
    original_missing,
    misquoted,
    growth_missing,
    growth_unsupported,
    decomposition_too_few,
    decomposition_too_many,
)
