"""What there is to know before a task is handed to an agent: who said no to it or to its like, and why."""

from __future__ import annotations

from collections.abc import Iterable

from remand.app.patterns.intervals import share
from remand.app.rejection_views import RejectionView, rejections
from remand.app.similar import similar_rejected, was_rejected
from remand.domain import events as e
from remand.domain.record import Record
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.order import place
from remand.ledger.store import Transaction
from remand.ledger.traces import INVALID

MOST = 5
MAX_TEXT = 200
LATEST = 200
"""So many of an agent's latest rejections make its record."""
OFTEN = 0.5
"""What an agent's share of invalid rejections is above, 95 times in a hundred, for a warning."""


class Warned(Record, kw_only=True, omit_defaults=False):
    """One warning. What it is not about stays empty."""

    kind: str
    """`similar_rejected`, `task_rejected`, `agent_rejected_task` or `agent_often_invalid`."""
    message: str
    task_id: str = ""
    title: str = ""
    similarity: float | None = None
    agent: str = ""
    """Who said no."""
    reason: str = ""
    """The reason of a task rejection; REVIEW when a reviewer sent work back."""
    summary: str = ""
    decision: str = ""


class No(Record, kw_only=True):
    """A no that a task has met."""

    agent: str
    reason: str
    summary: str
    decision: str = ""
    at: str = ""

    @property
    def gist(self) -> str:
        """Why, and what was decided, in a few words."""
        why = f"{self.reason}: {self.summary}" if self.summary else self.reason
        return f"{why} (decided {self.decision})" if self.decision else why


def warnings(view: Transaction, task: Task, agent: str) -> list[Warned]:
    """The warnings for a handoff of the task to the agent, those about this very task first."""
    found = [*_about_task(view, task, agent), *_about_agent(view, agent)]
    if len(found) < MOST:
        found += _about_similar(view, task, MOST - len(found))
    return found[:MOST]


def noes(view: Transaction, task_id: str) -> list[No]:
    """Every no that a task has met, the latest first."""
    lines = (line for line in view.events.of_task(task_id) if b"reject" in line)
    events = sorted(map(codec.recall, lines), key=place)
    said = [_said_by_agent(found) for found in rejections(events)]
    said += [_said_in_review(event) for event in events if isinstance(event, e.ReviewRejected)]
    return sorted(said, key=lambda no: no.at, reverse=True)


def _said_by_agent(found: RejectionView) -> No:
    told = found.rejection
    return No(
        agent=found.agent,
        reason=_short(told.get("reason_type")),
        summary=_short(told.get("reason_summary")) or _short(told.get("blocking_factor")),
        decision=_short(found.decision.decision_type) if found.decision else "",
        at=found.at,
    )


def _said_in_review(event: e.ReviewRejected) -> No:
    blocking = next((finding.text for finding in event.findings if finding.is_blocking), "")
    return No(agent=event.reviewer, reason="REVIEW", summary=_short(blocking), at=event.ts)


def _short(value: object) -> str:
    flat = " ".join(value[: 4 * MAX_TEXT].split()) if isinstance(value, str) else ""
    return flat if len(flat) <= MAX_TEXT else f"{flat[: MAX_TEXT - 1]}…"


def _about_task(view: Transaction, task: Task, agent: str) -> Iterable[Warned]:
    """Of each who said no to this very task the last word."""
    if not was_rejected(task):
        return
    heard: set[tuple[str, bool]] = set()
    for no in noes(view, task.id):
        is_own, is_review = no.agent == agent, no.reason == "REVIEW"
        if (no.agent, is_review) in heard:
            continue
        heard.add((no.agent, is_review))
        who = "sent work on this task back" if is_review else "rejected this very task before"
        kind = "agent_rejected_task" if is_own and not is_review else "task_rejected"
        yield _warned(kind, f"{no.agent} {who}: {no.gist}", task, no)


def _about_agent(view: Transaction, agent: str) -> Iterable[Warned]:
    """Says when most of an agent's rejections were invalid, and that is hardly chance."""
    filed = view.traces.of_agent(agent, LATEST)
    invalid = sum(trace.event == INVALID for trace in filed)
    found = share(invalid, len(filed))
    if found.interval and found.interval[0] >= OFTEN:
        message = f"{invalid} of the last {len(filed)} task rejections by {agent} were invalid and overridden"
        yield Warned(kind="agent_often_invalid", message=message, agent=agent)


def _about_similar(view: Transaction, task: Task, most: int) -> Iterable[Warned]:
    for match in similar_rejected(view, task, most):
        no = next(iter(noes(view, match.task.id)), None)
        if no is None:
            continue
        title = _short(match.task.title)
        verb = "sent back by" if no.reason == "REVIEW" else "rejected by"
        message = (
            f"{match.task.id} ({title}) is {match.similarity:.0%} alike and was {verb} {no.agent}: {no.gist}"
        )
        yield _warned("similar_rejected", message, match.task, no, match.similarity)


def _warned(kind: str, message: str, task: Task, no: No, similarity: float | None = None) -> Warned:
    return Warned(
        kind=kind,
        message=message,
        task_id=task.id,
        title=_short(task.title),
        similarity=similarity,
        agent=no.agent,
        reason=no.reason,
        summary=no.summary,
        decision=no.decision,
    )
