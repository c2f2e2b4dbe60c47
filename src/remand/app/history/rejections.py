"""Rejections of a task by agents, with findings, advice and decisions; and its lockouts. All read from its events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from remand.app.events.task_folds import task_events
from remand.app.tasks.lookup import Lineage, People, lockout_facts
from remand.domain import rejection as rejection_records
from remand.domain import reviewer
from remand.domain.access.team import Team
from remand.domain.decisions import rejections as rejection_decisions
from remand.domain.events import tasks
from remand.domain.events.event import Event
from remand.domain.events.reviews import LockoutCleared, ReviewRejected
from remand.domain.evidence.probes import Grade
from remand.domain.instant import Instant
from remand.domain.preconditions import find_lockout
from remand.domain.reasons import DecisionType
from remand.domain.record import Record
from remand.domain.task import Status, Task
from remand.domain.text.words import single_line
from remand.domain.validation.assessment import EvidenceGrade, Issue
from remand.ledger.store import Transaction


class RejectionView(Record, kw_only=True, omit_defaults=False):
    rejection_id: str
    task_id: str
    handoff_id: str
    agent: str
    at: str
    is_valid: bool
    is_imported: bool = False
    """Whether a GoT tool wrote it: it was not judged here and cannot be answered here."""
    rejection: dict[str, Any]
    score: float = 0.0
    issues: tuple[Issue, ...] = ()
    graded: tuple[EvidenceGrade, ...] = ()
    attempts: tuple[EvidenceGrade, ...] = ()
    opinion: str = ""
    appeal: str = ""
    """Why the agent appeals to a director after the rules overrode it."""
    decision: tasks.Decision | None = None
    decided_by: str = ""
    decided_at: str = ""


def task_rejections(events: list[Event]) -> list[RejectionView]:
    """All rejections of a task in order, each with its effective answer: the first that is not an override."""
    found: dict[str, RejectionView] = {}
    for event in events:
        match event:
            case tasks.HandoffRejected() | tasks.HandoffRejectionInvalid() if event.rejection_id:
                found[event.rejection_id] = _rejection_view(event)
            case tasks.RejectionAnswered() if _is_open(found.get(event.rejection_id)):
                found[event.rejection_id] = _with_decision(found[event.rejection_id], event)
            case tasks.RejectionAppealed() if event.rejection_id in found:
                found[event.rejection_id] = msgspec.structs.replace(
                    found[event.rejection_id],
                    appeal=event.reason,
                    decision=None,
                    decided_by="",
                    decided_at="",
                )
            case tasks.OpinionGiven() if event.rejection_id in found:
                found[event.rejection_id] = msgspec.structs.replace(
                    found[event.rejection_id], opinion=event.opinion
                )
            case _:
                pass
    return list(found.values())


def imported_rejections(events: list[Event]) -> list[RejectionView]:
    """All rejections written by GoT tools, each with the answer to the last one of its handoff.

    They are only displayed; `task_rejections` excludes them.
    """
    found: dict[str, RejectionView] = {}
    last: dict[str, str] = {}
    for event in events:
        if not event.is_legacy:
            continue
        match event:
            case tasks.HandoffRejected() | tasks.HandoffRejectionInvalid():
                found[event.meta.id] = msgspec.structs.replace(
                    _rejection_view(event), rejection_id=event.meta.id
                )
                last[event.handoff_id] = event.meta.id
            case tasks.RejectionAnswered() if _is_open(found.get(last.get(event.handoff_id, ""))):
                name = last[event.handoff_id]
                found[name] = _with_decision(found[name], event)
            case _:
                pass
    return list(found.values())


def rejection_of_handoff(events: list[Event], handoff_id: str) -> RejectionView | None:
    """The last rejection of a handoff; an imported one only if the handoff is imported as well."""
    is_native = any(
        isinstance(event, tasks.HandoffInitiated | tasks.TaskClaimed)
        and event.handoff_id == handoff_id
        and not event.is_legacy
        for event in events
    )
    views = task_rejections(events) if is_native else imported_rejections(events)
    return next((one for one in reversed(views) if one.handoff_id == handoff_id), None)


def _with_decision(view: RejectionView, event: tasks.RejectionAnswered) -> RejectionView:
    return msgspec.structs.replace(
        view,
        decision=event.decision,
        decided_by=event.director or event.meta.actor,
        decided_at=event.ts,
    )


def _is_open(view: RejectionView | None) -> bool:
    """True if a rejection may be answered: it is unanswered, or was overridden."""
    return view is not None and (view.decision is None or view.decision.decision_type == "OVERRIDE")


def _rejection_view(event: tasks.HandoffRejected | tasks.HandoffRejectionInvalid) -> RejectionView:
    issues: tuple[Issue, ...] = ()
    if isinstance(event, tasks.HandoffRejectionInvalid):
        # The issues of an imported rejection are plain texts without codes.
        issues = event.issues or tuple(
            Issue(code="imported", field="", message=message) for message in event.validation_issues
        )
    return RejectionView(
        rejection_id=event.rejection_id,
        task_id=event.task_id,
        handoff_id=event.handoff_id,
        agent=event.agent,
        at=event.ts,
        is_valid=isinstance(event, tasks.HandoffRejected),
        is_imported=event.is_legacy,
        rejection=tasks.record_of(event),
        score=event.score,
        issues=issues,
        graded=event.graded,
        attempts=event.attempts,
    )


class CheckedAttempt(Record, kw_only=True, omit_defaults=False):
    """An attempt as stated by the agent, and the result of checking it."""

    text: str
    grade: str
    detail: str = ""
    """What the check found."""


class CheckedEvidence(Record, kw_only=True, omit_defaults=False):
    type: str
    data: Any
    source: str
    grade: str
    detail: str = ""

    @property
    def text(self) -> str:
        """The evidence in words: its type, data and source."""
        stated = ": ".join(part for part in (self.type, value_text(self.data)) if part)
        return f"{stated} ({self.source})" if self.source else stated


class ProposedTask(Record, kw_only=True, omit_defaults=False):
    """A task that the agent proposes instead."""

    title: str
    scope: str
    dependencies: str
    estimate: str


class RejectionFacts(Record, kw_only=True, omit_defaults=False):
    """What a director decides from: the whole record of a rejection, with the results of the checks."""

    blocking_factor: str = ""
    attempts: tuple[CheckedAttempt, ...] = ()
    evidence: tuple[CheckedEvidence, ...] = ()
    suggested_alternative: str = ""
    alternative_tasks: tuple[ProposedTask, ...] = ()
    task_original_scope: str = ""
    scope_growth_factor: Any = None
    issues: tuple[Issue, ...] = ()


def rejection_facts(view: RejectionView) -> RejectionFacts:
    """The facts of a rejection. Its record may contain anything, as invalid ones are kept, too."""
    record = rejection_records.TaskRejection.from_dict(view.rejection)
    return RejectionFacts(
        blocking_factor=value_text(record.blocking_factor),
        attempts=tuple(
            CheckedAttempt(text=value_text(item), **grade)
            for item, grade in _with_grades(_as_list(record.what_attempted), view.attempts)
        ),
        evidence=tuple(
            CheckedEvidence(
                type=value_text(item.get("type")) if isinstance(item, Mapping) else "",
                data=item.get("data") if isinstance(item, Mapping) else item,
                source=value_text(item.get("source")) if isinstance(item, Mapping) else "",
                **grade,
            )
            for item, grade in _with_grades(_as_list(record.evidence), view.graded)
        ),
        suggested_alternative=value_text(record.suggested_alternative),
        alternative_tasks=tuple(map(_proposed_task, _as_list(record.alternative_tasks))),
        task_original_scope=value_text(record.task_original_scope),
        scope_growth_factor=record.scope_growth_factor,
        issues=view.issues,
    )


def value_text(value: Any) -> str:
    """A value of a record as text: `key: value` for a flat mapping, JSON for nested ones."""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Mapping) and not any(isinstance(item, Mapping | list) for item in value.values()):
        return ", ".join(f"{key}: {value_text(item)}" for key, item in value.items())
    return json.dumps(value, ensure_ascii=False)


def _with_grades(
    listed: list[Any], graded: tuple[EvidenceGrade, ...]
) -> Iterator[tuple[Any, dict[str, str]]]:
    """Each part of a record with the result of its check; unchecked parts count as reported."""
    grades = {grade.index: grade for grade in graded}
    for place, item in enumerate(listed):
        evidence_grade = grades.get(place)
        yield (
            item,
            {
                "grade": evidence_grade.grade if evidence_grade else Grade.REPORTED.value,
                "detail": evidence_grade.detail if evidence_grade else "",
            },
        )


def _proposed_task(item: Any) -> ProposedTask:
    fields = item if isinstance(item, Mapping) else {"title": item}
    return ProposedTask(**{name: value_text(fields.get(name)) for name in ProposedTask.__struct_fields__})


def _as_list(value: Any) -> list[Any]:
    """The items of a list; any other value becomes a list of one."""
    return value if isinstance(value, list) else [] if value in (None, "") else [value]


def director_brief(task: Task | None, events: Sequence[Event], handoff_id: str) -> dict[str, Any]:
    """A director's input: the task, the last rejection of a handoff with its grades, and earlier ones."""
    views = task_rejections(list(events))
    latest = [view for view in views if view.handoff_id == handoff_id][-1:]
    return {
        "task": rejection_decisions.task_context(task) if task else {},
        "rejection": msgspec.to_builtins(latest[0]) if latest else None,
        "earlier": [msgspec.to_builtins(view) for view in views if view not in latest],
        "decisions": list(DecisionType.__members__),
        "answer": list(reviewer.DirectorAnswer.__struct_fields__),
    }


class LockoutRow(Record, kw_only=True, omit_defaults=False):
    """An active lockout."""

    task_id: str
    agent: str
    reviewer: str
    reason: str
    since: Instant
    label: str
    """The task's label."""


class LockoutExplanation(Record, kw_only=True, omit_defaults=False):
    """The relation of an agent to a task, in one or two sentences."""

    task_id: str
    agent: str
    is_locked_out: bool
    why: str


def active_lockouts(view: Transaction, task_id: str = "", agent: str = "") -> list[LockoutRow]:
    """All active lockouts, oldest first, optionally of one task or agent."""
    one = view.tasks.get(task_id) if task_id else None
    tasks = [one] if one else [] if task_id else view.tasks.every()
    rows = [
        LockoutRow(
            task_id=task.id,
            agent=lockout.agent,
            reviewer=lockout.by,
            reason=single_line(lockout.reason),
            since=lockout.since,
            label=task.label,
        )
        for task in tasks
        for lockout in task.active_lockouts
        if agent in ("", lockout.agent)
    ]
    return sorted(rows, key=lambda row: (row.since, row.task_id, row.agent))


def explain_lockouts(
    view: Transaction, team: Team, agent: str, task_id: str = ""
) -> list[LockoutExplanation]:
    """Why an agent may not work on a task, or on each task it is locked out of, under any of its names."""
    own = People(view, team).recorded_name(agent)
    rows = () if task_id else active_lockouts(view)
    names = [task_id] if task_id else [row.task_id for row in rows if team.actor(row.agent).name == own]
    tasks = [task for task in map(view.tasks.get, names) if task is not None]
    return [
        _explain_lockout(view, task, team.with_task_names(Lineage(view).participant_names(task)), own)
        for task in tasks
    ]


def _explain_lockout(view: Transaction, task: Task, team: Team, name: str) -> LockoutExplanation:
    agent = team.actor(name).name
    is_over = task.status in (Status.DONE, Status.CANCELLED)
    ground = None if is_over else find_lockout(task, agent, lockout_facts(view, team, task))
    text = lockout_reason(task, task_events(view, task.id), agent)
    if ground is not None and ground.above:
        text = f"{agent} is locked out of task {ground.above}, which {task.label} was split from."
    if ground is not None and ground.former:
        text = (
            f"{agent} may be {ground.former}, who is locked out for {task.label} and is no longer on the team. "
            "`aliases` or `former` in remand.toml says which it is."
        )
    return LockoutExplanation(task_id=task.id, agent=agent, is_locked_out=ground is not None, why=text)


def lockout_reason(task: Task, events: Sequence[Event], agent: str) -> str:
    """Why an agent is or is not locked out of a task, since when, and through whom."""
    lockout = next((one for one in task.active_lockouts if one.agent == agent), None)
    if lockout is None:
        return _not_locked_out_text(task, events, agent)
    if lockout.inherited_from:
        return f"{agent} was locked out for {task.label}, because it was split from task {lockout.inherited_from}."
    found = (event for event in events if isinstance(event, ReviewRejected) and lockout.review_id)
    review = next(
        (event for event in found if lockout.review_id in (event.review_id, event.meta.origin)), None
    )
    if review is None:
        return f"{agent} was locked out for {task.label} by {lockout.by}: {_sentence(lockout.reason)}"
    return (
        f"{agent} was locked out for {task.label} after {review.reviewer} rejected {_work_text(task, review)} "
        f"due to {_sentence(_first_blocking_finding(review) or lockout.reason)}"
    )


def rejection_reasons(task: Task, events: Sequence[Event]) -> str:
    """Why the work on a task was rejected: its standing rejections, one per line."""
    standing = {
        review.id
        for review_round in task.reviews.rounds
        for review in review_round.reviews
        if not review.is_retracted
    }
    authors = {
        review.id: review_round.agent
        for review_round in task.reviews.rounds
        for review in review_round.reviews
    }
    rows = [
        f"{event.reviewer} rejected {_work_text(task, event)} of {authors[name]} due to {_sentence(_first_blocking_finding(event))}"
        for event in events
        if isinstance(event, ReviewRejected) and (name := event.review_id or event.meta.origin) in standing
    ]
    return "\n".join(rows) or f"No rejection of {task.label} is in force; it is {task.status}."


def _work_text(task: Task, review: ReviewRejected) -> str:
    return f"PR #{task.pr}" if task.pr else f"commit {review.commit[:12]}"


def _first_blocking_finding(review: ReviewRejected) -> str:
    blocking = [finding for finding in review.findings if finding.is_blocking]
    if not blocking:
        return ""
    first, more = blocking[0], len(blocking) - 1
    place = f"{first.path}:{first.line}" if first.line else first.path
    text = f"{single_line(first.text).rstrip('.')}{f' ({single_line(place)})' if place else ''}"
    return f"{text}, and {more} more finding{'s' if more > 1 else ''}" if more else text


def _sentence(text: str) -> str:
    return f"{single_line(text).rstrip('.') or 'no reason given'}."


def _not_locked_out_text(task: Task, events: Sequence[Event], agent: str) -> str:
    """Says that an agent is not locked out, what ended an earlier lockout, and who works on the task instead."""
    rows = [f"{agent} is not locked out for {task.label}."]
    cleared = [event for event in events if isinstance(event, LockoutCleared) and event.agent == agent]
    if task.status == Status.DONE:
        rows.append("The task is done.")
    elif cleared:
        rows.append(f"{cleared[-1].meta.actor} unlocked it: {_sentence(cleared[-1].reason)}")
    if task.claim is not None and task.claim.agent != agent:
        rows.append(f"{task.claim.agent} holds the task.")
    return " ".join(rows)
