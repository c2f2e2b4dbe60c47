"""A rejection and its task as the rules see them: parsed once, whatever the fields hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from remand.domain.reasons import RejectionReason
from remand.domain.record import Record
from remand.domain.rejection import TaskRejection
from remand.domain.validation.field_text import (
    bare_name,
    counts_of,
    dependency_names,
    hours_in,
    hours_of,
    mapping_items,
    parse_number,
    plain_text,
    short_text,
    text_items,
)
from remand.domain.validation.lexicon import is_placeholder
from remand.domain.validation.phrases import is_readable
from remand.domain.validation.tokens import (
    EMPTY_TEXT,
    Text,
    checkable_marks,
    new_thing_count,
    shared_word_count,
    tokenise_text,
)


class ParsedEvidence(Record, kw_only=True):
    kind: str = ""
    data: Text = EMPTY_TEXT
    source: Text = EMPTY_TEXT
    hours: tuple[tuple[str, float], ...] = ()
    counts: tuple[tuple[str, float], ...] = ()


class ParsedSubTask(Record, kw_only=True):
    title: Text = EMPTY_TEXT
    scope: Text = EMPTY_TEXT
    hours: float | None = None


NEW_THINGS, SHOWN_THINGS = 2, 1
"""How many things a dependency without an id is told by that the task's title does not tell, and how many are shown."""


class ParsedRejection(Record, kw_only=True):
    """All that is judged."""

    reason: RejectionReason | None = None
    task_id: str = ""
    agent: str = ""
    summary: Text = EMPTY_TEXT
    detail: Text = EMPTY_TEXT
    attempts: tuple[Text, ...] = ()
    factor: Text = EMPTY_TEXT
    evidence: tuple[ParsedEvidence, ...] = ()
    alternative: Text = EMPTY_TEXT
    sub_tasks: tuple[ParsedSubTask, ...] = ()
    sub_task_count: int = 0
    """All of them, also those too far down the list to be read."""
    original_scope: Text = EMPTY_TEXT
    growth: float | None = None
    has_growth: bool = False
    dependencies: tuple[str, ...] = ()
    """The ids it waits for, as they are written."""
    title: Text = EMPTY_TEXT
    scope: Text = EMPTY_TEXT
    rejected_on: date | None = None

    @property
    def claim(self) -> tuple[Text, Text, Text]:
        """What is said to be so: summary, detail and blocking factor."""
        return (self.summary, self.detail, self.factor)

    @property
    def evidence_and_sources(self) -> tuple[Text, ...]:
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
        own = new_thing_count(self.factor, self.title)
        return (
            own >= NEW_THINGS
            and shared_word_count(self.factor, *self.attempts, *self.evidence_and_sources) >= SHOWN_THINGS
        )

    @property
    def is_self_dependent(self) -> bool:
        """True when it waits for itself and for nothing else."""
        names = {bare_name(name) for name in self.dependencies}
        return bool(names) and names == {bare_name(self.task_id)}


def parse_rejection(rejection: TaskRejection, context: Any) -> ParsedRejection:
    """Takes a rejection and the context of its task apart."""
    task = context if isinstance(context, Mapping) else {}
    described = (
        plain_text(task.get(name)) for name in ("scope", "description", "acceptance", "requirements")
    )
    return ParsedRejection(
        reason=rejection.reason,
        task_id=plain_text(rejection.task_id),
        agent=plain_text(rejection.agent_id),
        summary=_parse_field(rejection.reason_summary),
        detail=_parse_field(rejection.reason_detail),
        attempts=tuple(
            tokenise_text(text) for text in text_items(rejection.what_attempted) if not is_placeholder(text)
        ),
        factor=_parse_field(rejection.blocking_factor),
        evidence=tuple(_parse_evidence(item) for item in mapping_items(rejection.evidence)),
        alternative=_parse_field(rejection.suggested_alternative),
        sub_tasks=tuple(_parse_sub_task(item) for item in mapping_items(rejection.alternative_tasks)),
        sub_task_count=len(rejection.alternative_tasks)
        if isinstance(rejection.alternative_tasks, list | tuple)
        else 0,
        original_scope=_parse_field(rejection.task_original_scope),
        growth=parse_number(rejection.scope_growth_factor),
        has_growth=rejection.scope_growth_factor is not None,
        dependencies=dependency_names(rejection),
        title=tokenise_text(plain_text(task.get("title"))),
        scope=tokenise_text("\n".join(text for text in described if text)),
        rejected_on=rejection.rejected_at.date() if isinstance(rejection.rejected_at, datetime) else None,
    )


def _parse_field(value: Any) -> Text:
    """A field of the record, taken apart; what only fills it is nothing."""
    text = plain_text(value)
    return EMPTY_TEXT if is_placeholder(text) else tokenise_text(text)


def _parse_evidence(item: Mapping[Any, Any]) -> ParsedEvidence:
    data = item.get("data")
    source = tokenise_text(short_text(item.get("source")))
    shown = short_text(data) or short_text(item.get("probe"))
    return ParsedEvidence(
        kind=short_text(item.get("type")),
        data=EMPTY_TEXT if is_placeholder(shown) and not checkable_marks(source) else tokenise_text(shown),
        source=source,
        hours=hours_of(data),
        counts=counts_of(data),
    )


def _parse_sub_task(item: Mapping[Any, Any]) -> ParsedSubTask:
    estimate = hours_in(short_text(item.get("estimate")))
    return ParsedSubTask(
        title=tokenise_text(short_text(item.get("title"))),
        scope=tokenise_text(short_text(item.get("scope"))),
        hours=sum(estimate) if estimate else None,
    )
