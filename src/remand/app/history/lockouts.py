"""Who is locked out of what, and why, read from the task's own events."""

from __future__ import annotations

from collections.abc import Sequence

from remand.app.events.task_folds import task_events
from remand.app.tasks.lookup import Lineage, People, lockout_facts
from remand.domain.access.team import Team
from remand.domain.events.event import Event
from remand.domain.events.reviews import LockoutCleared, ReviewRejected
from remand.domain.instant import Instant
from remand.domain.preconditions import find_lockout
from remand.domain.record import Record
from remand.domain.task import Status, Task
from remand.domain.text.words import single_line
from remand.ledger.store import Transaction


class LockoutRow(Record, kw_only=True, omit_defaults=False):
    """A lockout that holds."""

    task_id: str
    agent: str
    reviewer: str
    reason: str
    since: Instant
    label: str
    """What people call the task."""


class LockoutExplanation(Record, kw_only=True, omit_defaults=False):
    """How it stands between an agent and a task, in one sentence or two."""

    task_id: str
    agent: str
    is_locked_out: bool
    why: str


def active_lockouts(view: Transaction, task_id: str = "", agent: str = "") -> list[LockoutRow]:
    """Every lockout that holds, the oldest first; with a task or an agent, only its own."""
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
    """Why an agent may not work on a task, or on each task that it is locked out of, whatever it was called then."""
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
    """Why an agent is locked out of a task, or that it is not, and since when or through whom."""
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
    """Why the work on a task was rejected: its rejections that stand, one a line."""
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
    """That an agent is not locked out, what ended its lockout if it had one, and who works on the task instead."""
    rows = [f"{agent} is not locked out for {task.label}."]
    cleared = [event for event in events if isinstance(event, LockoutCleared) and event.agent == agent]
    if task.status == Status.DONE:
        rows.append("The task is done.")
    elif cleared:
        rows.append(f"{cleared[-1].meta.actor} unlocked it: {_sentence(cleared[-1].reason)}")
    if task.claim is not None and task.claim.agent != agent:
        rows.append(f"{task.claim.agent} holds the task.")
    return " ".join(rows)
