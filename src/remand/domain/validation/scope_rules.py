"""Rules on scope creep: the original scope, growth that the figures support, and sub-tasks."""

from __future__ import annotations

from collections.abc import Iterator

from remand.domain.text.words import set_similarity
from remand.domain.validation.assessment import Issue, issue
from remand.domain.validation.lexicon import GENERIC_STEMS
from remand.domain.validation.parsed_rejection import (
    ParsedRejection,
    ParsedSubTask,
    final_hours,
    range_hours_in,
)
from remand.domain.validation.tokens import Text, new_thing_count, overlap_share

TOLERANCE = 0.15
LEAST_SHARE = 0.6
"""How much of the growth the sub-tasks must at least add up to; the rest may be done or be left out."""
SAME_EFFORT = 0.34
"""How far two figures for one effort may differ: a day may be six hours or eight."""
_PLANNED = ("plan", "orig", "budget", "initial", "before", "ursprüng", "previst", "prévu", "alt_")


def task_planned_hours(reading: ParsedRejection) -> float | None:
    """The effort the task itself ends on, as in `Change the header. 2 h.`"""
    return final_hours(reading.scope.raw) or final_hours(reading.title.raw)


def agent_planned_hours(reading: ParsedRejection) -> tuple[float, ...]:
    """The original effort as the agent gives it, in the quoted scope or in evidence."""
    quoted = final_hours(reading.original_scope.raw)
    shown = (hours for item in reading.evidence for key, hours in item.hours if _is_planned(key))
    return tuple(dict.fromkeys((*((quoted,) if quoted else ()), *shown)))


def contradicts_task_plan(reading: ParsedRejection) -> bool:
    """True when the agent gives another original effort than the task does."""
    planned = task_planned_hours(reading)
    if not planned:
        return False
    return any(abs(hours - planned) > SAME_EFFORT * planned for hours in agent_planned_hours(reading))


def is_growth_supported(reading: ParsedRejection) -> bool:
    """True when some stated effort is the factor times the original one, and the sub-tasks add up to it roughly."""
    factor = reading.growth or 0.0
    planned = task_planned_hours(reading)
    given = (planned,) if planned else agent_planned_hours(reading)
    found = given or tuple(sorted(set(_stated_hours(reading))))[:1]
    originals = tuple(hours for hours in found if hours > 0)
    stated = tuple(_revised_hours(reading))
    is_stated = any(
        abs(value / original - factor) <= TOLERANCE * factor for original in originals for value in stated
    )
    return (is_stated or _do_counts_support(reading, factor)) and _do_sub_tasks_add_up(
        reading, originals, factor
    )


def sub_task_hours(reading: ParsedRejection) -> float | None:
    """What the sub-tasks add up to; None unless each has an estimate."""
    hours = [task.hours for task in reading.sub_tasks]
    return sum(value for value in hours if value) if hours and all(hours) else None


def _do_sub_tasks_add_up(reading: ParsedRejection, originals: tuple[float, ...], factor: float) -> bool:
    total = sub_task_hours(reading)
    if total is None or not originals:
        return True
    return any(total / original >= LEAST_SHARE * factor for original in originals)


def _revised_hours(reading: ParsedRejection) -> Iterator[float]:
    """What the new effort may be: stated as such, the parts of an estimate, or what the sub-tasks add."""
    yield from _stated_hours(reading)
    for item in reading.evidence:
        yield sum(hours for key, hours in item.hours if not _is_planned(key))
    total = sub_task_hours(reading)
    if total:
        yield total
        yield total + (task_planned_hours(reading) or 0.0)


def _stated_hours(reading: ParsedRejection) -> Iterator[float]:
    for item in reading.evidence:
        yield from (hours for _, hours in item.hours)
        yield from range_hours_in(item.data.raw)
        yield from range_hours_in(item.source.raw)
    for text in (reading.detail, reading.summary, reading.factor, *reading.attempts):
        yield from range_hours_in(text.raw)


def _do_counts_support(reading: ParsedRejection, factor: float) -> bool:
    """Growth may also be counted in files or calls, when evidence shows the planned count beside the found one."""
    for item in reading.evidence:
        planned = [value for key, value in item.counts if value > 0 and _is_planned(key)]
        others = [value for key, value in item.counts if not _is_planned(key)]
        if any(abs(found / count - factor) <= TOLERANCE * factor for count in planned for found in others):
            return True
    return False


def _is_planned(key: str) -> bool:
    return any(name in key for name in _PLANNED)


MIN_GROWTH = 2.0
SUB_TASKS = 2
MAX_SUB_TASKS = 50
QUOTED_SHARE = 0.5
EXPLAINING_WORDS = 2
SAME_SCOPE = 0.8
SAME_TITLE = 0.6


def check_missing_original_scope(reading: ParsedRejection) -> Issue | None:
    return None if reading.original_scope.raw else issue("scope_original_missing")


def check_misquoted_scope(reading: ParsedRejection) -> Issue | None:
    """An original scope that the task's title and scope do not hold."""
    quoted = reading.original_scope.stems
    known = reading.title.stems | reading.scope.stems
    if not quoted or not known:
        return None
    return (
        issue("scope_misquoted")
        if overlap_share(quoted, known) < QUOTED_SHARE or contradicts_task_plan(reading)
        else None
    )


def check_missing_growth(reading: ParsedRejection) -> Issue | None:
    """No growth, or less than twice."""
    if reading.growth is None:
        return issue("scope_growth_invalid" if reading.has_growth else "scope_growth_missing")
    if reading.growth <= 0:
        return issue("scope_growth_invalid")
    return issue("scope_growth_missing") if reading.growth < MIN_GROWTH else None


def check_unsupported_growth(reading: ParsedRejection) -> Issue | None:
    """A growth that the figures given do not yield."""
    if reading.growth is None or reading.growth < MIN_GROWTH:
        return None
    return None if is_growth_supported(reading) else issue("scope_growth_unsupported")


def check_too_few_sub_tasks(reading: ParsedRejection) -> Issue | None:
    """Fewer than two sub-tasks with a title."""
    titled = {task.title.raw.casefold() for task in reading.sub_tasks if task.title.raw}
    return issue("decomposition_too_few") if len(titled) < SUB_TASKS else None


def check_unexplained_growth(reading: ParsedRejection) -> Issue | None:
    """A detail that says that it grew, and not how."""
    if not reading.detail.raw or new_thing_count(reading.detail, *reading.task) >= EXPLAINING_WORDS:
        return None
    return issue("scope_growth_unexplained")


def check_repeated_sub_tasks(reading: ParsedRejection) -> Issue | None:
    """Sub-tasks that are one thing under two titles, or nothing but the task again."""
    titled = [task for task in reading.sub_tasks if task.title.raw]
    kept: list[ParsedSubTask] = []
    for task in titled:
        if not any(_is_same_sub_task(task, other) for other in kept):
            kept.append(task)
    if len(titled) < SUB_TASKS:
        return None
    is_new = any(
        new_thing_count(text, *reading.task) >= 1 for task in kept for text in (task.title, task.scope)
    )
    return issue("decomposition_repeats") if len(kept) < SUB_TASKS or not is_new else None


def _is_same_sub_task(one: ParsedSubTask, other: ParsedSubTask) -> bool:
    """True when two sub-tasks differ in nothing but how they are put."""
    if set(one.title.figures) != set(other.title.figures) or set(one.scope.figures) != set(
        other.scope.figures
    ):
        return False
    has_scopes = bool(one.scope.stems and other.scope.stems)
    is_same_scope = has_scopes and set_similarity(one.scope.stems, other.scope.stems) >= SAME_SCOPE
    titles = set_similarity(_title_subject(one.title), _title_subject(other.title))
    return is_same_scope or (titles >= SAME_TITLE and not has_scopes)


def _title_subject(text: Text) -> frozenset[str]:
    """What a title is about, without the words of doing it."""
    return (text.stems - GENERIC_STEMS) or text.stems


def check_too_many_sub_tasks(reading: ParsedRejection) -> Issue | None:
    """More sub-tasks than anyone could oversee."""
    return issue("decomposition_too_many") if reading.sub_task_count > MAX_SUB_TASKS else None


SCOPE_RULES = (
    check_missing_original_scope,
    check_misquoted_scope,
    check_missing_growth,
    check_unsupported_growth,
    check_unexplained_growth,
    check_too_few_sub_tasks,
    check_repeated_sub_tasks,
    check_too_many_sub_tasks,
)
