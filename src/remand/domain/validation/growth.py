"""Whether the growth factor follows from the durations that task and record give."""

from __future__ import annotations

from collections.abc import Iterator

from remand.domain.validation.durations import final_hours, range_in
from remand.domain.validation.reading import Reading

TOLERANCE = 0.15
LEAST_SHARE = 0.6
"""How much of the growth the sub-tasks must at least add up to; the rest may be done or be left out."""
SAME = 0.34
"""How far two figures for one effort may differ: a day may be six hours or eight."""
_PLANNED = ("plan", "orig", "budget", "initial", "before", "ursprüng", "previst", "prévu", "alt_")


def planned_by_task(reading: Reading) -> float | None:
    """The effort the task itself ends on, as in `Change the header. 2 h.`"""
    return final_hours(reading.scope.raw) or final_hours(reading.title.raw)


def planned_by_agent(reading: Reading) -> tuple[float, ...]:
    """The original effort as the agent gives it, in the quoted scope or in evidence."""
    quoted = final_hours(reading.original_scope.raw)
    shown = (hours for item in reading.evidence for key, hours in item.hours if _is_planned(key))
    return tuple(dict.fromkeys((*((quoted,) if quoted else ()), *shown)))


def is_misplanned(reading: Reading) -> bool:
    """True when the agent gives another original effort than the task does."""
    planned = planned_by_task(reading)
    if not planned:
        return False
    return any(abs(hours - planned) > SAME * planned for hours in planned_by_agent(reading))


def is_supported(reading: Reading) -> bool:
    """True when some stated effort is the factor times the original one, and the sub-tasks add up to it roughly."""
    factor = reading.growth or 0.0
    originals = _originals(reading)
    stated = tuple(_revised(reading))
    is_stated = any(
        abs(value / original - factor) <= TOLERANCE * factor for original in originals for value in stated
    )
    return (is_stated or _counts_support(reading, factor)) and _adds_up(reading, originals, factor)


def sub_task_hours(reading: Reading) -> float | None:
    """What the sub-tasks add up to; None unless each has an estimate."""
    hours = [task.hours for task in reading.sub_tasks]
    return sum(value for value in hours if value) if hours and all(hours) else None


def _adds_up(reading: Reading, originals: tuple[float, ...], factor: float) -> bool:
    total = sub_task_hours(reading)
    if total is None or not originals:
        return True
    return any(total / original >= LEAST_SHARE * factor for original in originals)


def _originals(reading: Reading) -> tuple[float, ...]:
    planned = planned_by_task(reading)
    given = (planned,) if planned else planned_by_agent(reading)
    found = given or tuple(sorted(set(_stated(reading))))[:1]
    return tuple(hours for hours in found if hours > 0)


def _revised(reading: Reading) -> Iterator[float]:
    """What the new effort may be: stated as such, the parts of an estimate, or what the sub-tasks add."""
    yield from _stated(reading)
    for item in reading.evidence:
        yield sum(hours for key, hours in item.hours if not _is_planned(key))
    total = sub_task_hours(reading)
    if total:
        yield total
        yield total + (planned_by_task(reading) or 0.0)


def _stated(reading: Reading) -> Iterator[float]:
    for item in reading.evidence:
        yield from (hours for _, hours in item.hours)
        yield from range_in(item.data.raw)
        yield from range_in(item.source.raw)
    for text in (reading.detail, reading.summary, reading.factor, *reading.attempts):
        yield from range_in(text.raw)


def _counts_support(reading: Reading, factor: float) -> bool:
    """Growth may also be counted in files or calls, when evidence shows the planned count beside the found one."""
    for item in reading.evidence:
        planned = [value for key, value in item.counts if value > 0 and _is_planned(key)]
        others = [value for key, value in item.counts if not _is_planned(key)]
        if any(abs(found / count - factor) <= TOLERANCE * factor for count in planned for found in others):
            return True
    return False


def _is_planned(key: str) -> bool:
    return any(name in key for name in _PLANNED)
