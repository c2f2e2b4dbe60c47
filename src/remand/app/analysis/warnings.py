"""Warnings before a task is given to an agent: earlier rejections of it or of similar tasks."""

from __future__ import annotations

from collections.abc import Iterable

from remand.app.analysis.statistics import wilson_share
from remand.app.history.rejections import RejectionView, task_rejections
from remand.app.tasks.similarity import similar_rejected, was_rejected
from remand.domain.events.reviews import ReviewRejected, first_blocking
from remand.domain.record import Record
from remand.domain.task import Task
from remand.domain.text.words import shorten
from remand.ledger import codec
from remand.ledger.order import order_key
from remand.ledger.store import Transaction
from remand.ledger.traces import INVALID

MAX_WARNINGS = 5
MAX_TEXT = 200
MAX_TRACES = 200
"""How many of an agent's latest rejections are considered."""
INVALID_SHARE = 0.5
"""The share of invalid rejections that an agent must exceed with 95 % confidence for a warning."""


class HandoffWarning(Record, kw_only=True, omit_defaults=False):
    """One warning. Fields that do not apply are empty."""

    kind: str
    """`similar_rejected`, `task_rejected`, `agent_rejected_task` or `agent_often_invalid`."""
    message: str
    task_id: str = ""
    title: str = ""
    similarity: float | None = None
    agent: str = ""
    """Who rejected."""
    reason: str = ""
    """The reason of a task rejection; REVIEW if a reviewer rejected the work."""
    summary: str = ""
    decision: str = ""


class EarlierRejection(Record, kw_only=True):
    """An earlier rejection of a task."""

    agent: str
    reason: str
    summary: str
    decision: str = ""
    at: str = ""

    @property
    def gist(self) -> str:
        """The reason and the decision in a few words."""
        why = f"{self.reason}: {self.summary}" if self.summary else self.reason
        return f"{why} (decided {self.decision})" if self.decision else why


def handoff_warnings(view: Transaction, task: Task, agent: str) -> list[HandoffWarning]:
    """The warnings for a handoff of the task to the agent, those about this task first."""
    warnings = [*_task_warnings(view, task, agent), *agent_warnings(view, agent)]
    if len(warnings) < MAX_WARNINGS:
        warnings += _similar_task_warnings(view, task, MAX_WARNINGS - len(warnings))
    return warnings[:MAX_WARNINGS]


def earlier_rejections(view: Transaction, task_id: str) -> list[EarlierRejection]:
    """All earlier rejections of a task, latest first."""
    lines = (line for line in view.events.of_task(task_id) if b"reject" in line)
    events = sorted(map(codec.decode_stored_line, lines), key=order_key)
    rejections = [_agent_rejection(rejection_view) for rejection_view in task_rejections(events)]
    rejections += [_review_rejection(event) for event in events if isinstance(event, ReviewRejected)]
    return sorted(rejections, key=lambda no: no.at, reverse=True)


def _agent_rejection(view: RejectionView) -> EarlierRejection:
    record = view.rejection
    return EarlierRejection(
        agent=view.agent,
        reason=_shorten(record.get("reason_type")),
        summary=_shorten(record.get("reason_summary")) or _shorten(record.get("blocking_factor")),
        decision=_shorten(view.decision.decision_type) if view.decision else "",
        at=view.at,
    )


def _review_rejection(event: ReviewRejected) -> EarlierRejection:
    blocking = first_blocking(event.findings)
    summary = _shorten(blocking.text) if blocking else ""
    return EarlierRejection(agent=event.reviewer, reason="REVIEW", summary=summary, at=event.ts)


def _shorten(value: object) -> str:
    flat = " ".join(value[: 4 * MAX_TEXT].split()) if isinstance(value, str) else ""
    return shorten(flat, MAX_TEXT)


def _task_warnings(view: Transaction, task: Task, agent: str) -> Iterable[HandoffWarning]:
    """The last rejection by each person who rejected this task."""
    if not was_rejected(task):
        return
    reported: set[tuple[str, bool]] = set()
    for no in earlier_rejections(view, task.id):
        is_own, is_review = no.agent == agent, no.reason == "REVIEW"
        if (no.agent, is_review) in reported:
            continue
        reported.add((no.agent, is_review))
        who = "sent work on this task back" if is_review else "rejected this task before"
        kind = "agent_rejected_task" if is_own and not is_review else "task_rejected"
        yield _handoff_warning(kind, f"{no.agent} {who}: {no.gist}", task, no)


def agent_warnings(view: Transaction, agent: str) -> Iterable[HandoffWarning]:
    """Warns if most of an agent's rejections were invalid, beyond chance."""
    filed = view.traces.of_agent(agent, MAX_TRACES)
    invalid = sum(trace.event == INVALID for trace in filed)
    share = wilson_share(invalid, len(filed))
    if share.interval and share.interval[0] >= INVALID_SHARE:
        message = f"{invalid} of the last {len(filed)} task rejections by {agent} were invalid and overridden"
        yield HandoffWarning(kind="agent_often_invalid", message=message, agent=agent)


def _similar_task_warnings(view: Transaction, task: Task, most: int) -> Iterable[HandoffWarning]:
    for match in similar_rejected(view, task, most):
        no = next(iter(earlier_rejections(view, match.task.id)), None)
        if no is None:
            continue
        title = _shorten(match.task.title)
        verb = "sent back by" if no.reason == "REVIEW" else "rejected by"
        message = f"{match.task.id} ({title}) is {match.similarity:.0%} similar and was {verb} {no.agent}: {no.gist}"
        yield _handoff_warning("similar_rejected", message, match.task, no, match.similarity)


def _handoff_warning(
    kind: str, message: str, task: Task, no: EarlierRejection, similarity: float | None = None
) -> HandoffWarning:
    return HandoffWarning(
        kind=kind,
        message=message,
        task_id=task.id,
        title=_shorten(task.title),
        similarity=similarity,
        agent=no.agent,
        reason=no.reason,
        summary=no.summary,
        decision=no.decision,
    )
