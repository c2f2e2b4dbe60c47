"""A rejection and its task as the rules see them: taken apart once, whatever the fields hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from remand.domain.reasons import RejectionReason
from remand.domain.record import Record
from remand.domain.rejection import TaskRejection
from remand.domain.validation.durations import counts_of, hours_in, hours_of
from remand.domain.validation.mentions import bare, dependency_names
from remand.domain.validation.phrases import is_readable
from remand.domain.validation.placeholders import is_placeholder
from remand.domain.validation.substance import brings, marks, ties
from remand.domain.validation.text import items, mappings, number, plain, short
from remand.domain.validation.tokens import EMPTY, Text, read


class Evidence(Record, kw_only=True):
    """One piece of evidence."""

    kind: str = ""
    data: Text = EMPTY
    source: Text = EMPTY
    hours: tuple[tuple[str, float], ...] = ()
    counts: tuple[tuple[str, float], ...] = ()


class SubTask(Record, kw_only=True):
    """One sub-task proposed instead."""

    title: Text = EMPTY
    scope: Text = EMPTY
    hours: float | None = None


NEW_THINGS, SHOWN_THINGS = 2, 1
"""How many things a dependency without an id is told by that the task's title does not tell, and how many are shown."""


class Reading(Record, kw_only=True):
    """All that is judged."""

    reason: RejectionReason | None = None
    task_id: str = ""
    agent: str = ""
    summary: Text = EMPTY
    detail: Text = EMPTY
    attempts: tuple[Text, ...] = ()
    factor: Text = EMPTY
    evidence: tuple[Evidence, ...] = ()
    alternative: Text = EMPTY
    sub_tasks: tuple[SubTask, ...] = ()
    sub_task_count: int = 0
    """All of them, also those too far down the list to be read."""
    original_scope: Text = EMPTY
    growth: float | None = None
    has_growth: bool = False
    dependencies: tuple[str, ...] = ()
    """The ids it waits for, as they are written."""
    title: Text = EMPTY
    scope: Text = EMPTY
    rejected_on: date | None = None

    @property
    def claim(self) -> tuple[Text, Text, Text]:
        """What is said to be so: summary, detail and blocking factor."""
        return (self.summary, self.detail, self.factor)

    @property
    def shown(self) -> tuple[Text, ...]:
        """What the evidence holds, and where it is from."""
        return tuple(text for item in self.evidence for text in (item.data, item.source))

    @property
    def task(self) -> tuple[Text, Text]:
        """The task as it is written down."""
        return (self.title, self.scope)

    @property
    def is_readable(self) -> bool:
        """True when it is written in a language whose words the rules know, so that a missing word means something."""
        texts = (*self.claim, *self.attempts, self.alternative)
        return is_readable(tuple(word for text in texts for word in text.words))

    @property
    def names_dependency(self) -> bool:
        """True when the blocking factor says in words what is missing, and attempts or evidence speak of it too."""
        own = brings(self.factor, self.title)
        return own >= NEW_THINGS and ties(self.factor, *self.attempts, *self.shown) >= SHOWN_THINGS

    @property
    def is_self_dependent(self) -> bool:
        """True when it waits for itself and for nothing else."""
        names = {bare(name) for name in self.dependencies}
        return bool(names) and names == {bare(self.task_id)}


def read_rejection(rejection: TaskRejection, context: Any) -> Reading:
    """Takes a rejection and the context of its task apart."""
    task = context if isinstance(context, Mapping) else {}
    return Reading(
        reason=rejection.reason,
        task_id=plain(rejection.task_id),
        agent=plain(rejection.agent_id),
        summary=_read(rejection.reason_summary),
        detail=_read(rejection.reason_detail),
        attempts=tuple(read(text) for text in items(rejection.what_attempted) if not is_placeholder(text)),
        factor=_read(rejection.blocking_factor),
        evidence=tuple(_evidence(item) for item in mappings(rejection.evidence)),
        alternative=_read(rejection.suggested_alternative),
        sub_tasks=tuple(_sub_task(item) for item in mappings(rejection.alternative_tasks)),
        sub_task_count=len(rejection.alternative_tasks)
        if isinstance(rejection.alternative_tasks, list | tuple)
        else 0,
        original_scope=_read(rejection.task_original_scope),
        growth=number(rejection.scope_growth_factor),
        has_growth=rejection.scope_growth_factor is not None,
        dependencies=dependency_names(rejection),
        title=read(plain(task.get("title"))),
        scope=read(_scope(task)),
        rejected_on=rejection.rejected_at.date() if isinstance(rejection.rejected_at, datetime) else None,
    )


def _read(value: Any) -> Text:
    """A field of the record, taken apart; what only fills it is nothing."""
    text = plain(value)
    return EMPTY if is_placeholder(text) else read(text)


def _scope(task: Mapping[Any, Any]) -> str:
    described = (plain(task.get(name)) for name in ("scope", "description", "acceptance", "requirements"))
    return "\n".join(text for text in described if text)


def _evidence(item: Mapping[Any, Any]) -> Evidence:
    data = item.get("data")
    source = read(short(item.get("source")))
    shown = short(data) or short(item.get("probe"))
    return Evidence(
        kind=short(item.get("type")),
        data=EMPTY if is_placeholder(shown) and not marks(source) else read(shown),
        source=source,
        hours=hours_of(data),
        counts=counts_of(data),
    )


def _sub_task(item: Mapping[Any, Any]) -> SubTask:
    estimate = hours_in(short(item.get("estimate")))
    return SubTask(
        title=read(short(item.get("title"))),
        scope=read(short(item.get("scope"))),
        hours=sum(estimate) if estimate else None,
    )
