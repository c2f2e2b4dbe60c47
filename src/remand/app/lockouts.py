"""Who is locked out of what, and why, told from the task's own events."""

from __future__ import annotations

from collections.abc import Sequence

from remand.app.escalations import line
from remand.app.family import Family
from remand.app.people import People, may_be_locked_out
from remand.app.rebuild import story
from remand.domain import events as e
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.roles import Team
from remand.domain.task import Lockout, Status, Task
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


class Explained(Record, kw_only=True, omit_defaults=False):
    """How it stands between an agent and a task, in one sentence or two."""

    task_id: str
    agent: str
    is_locked_out: bool
    why: str


def lockouts(view: Transaction, task_id: str = "", agent: str = "") -> list[LockoutRow]:
    """Every lockout that holds, the oldest first; with a task or an agent, only its own."""
    one = view.tasks.get(task_id) if task_id else None
    tasks = [one] if one else [] if task_id else view.tasks.every()
    rows = [
        LockoutRow(
            task_id=task.id,
            agent=lockout.agent,
            reviewer=lockout.by,
            reason=line(lockout.reason),
            since=lockout.since,
            label=task.label,
        )
        for task in tasks
        for lockout in task.active_lockouts
        if agent in ("", lockout.agent)
    ]
    return sorted(rows, key=lambda row: (row.since, row.task_id, row.agent))


def explained(view: Transaction, team: Team, agent: str, task_id: str = "") -> list[Explained]:
    """Why an agent may not work on a task, or on each task that it is locked out of, whatever it was called then."""
    own = People(view, team).name(agent)
    rows = () if task_id else lockouts(view)
    names = [task_id] if task_id else [row.task_id for row in rows if team.actor(row.agent).name == own]
    tasks = [task for task in map(view.tasks.get, names) if task is not None]
    return [_explained(view, task, team.as_known(Family(view).names(task)), own) for task in tasks]


def _explained(view: Transaction, task: Task, team: Team, name: str) -> Explained:
    agent = team.actor(name).name
    above = dict(Family(view).inherited(task)).get(agent, "") if task.parent else ""
    is_own = any(lockout.agent == agent for lockout in task.active_lockouts)
    is_inherited = bool(above) and agent not in task.unlocked
    text = why(task, story(view, task.id), agent)
    if is_inherited and not is_own:
        text = f"{agent} is locked out of task {above}, which {task.label} was cut from."
    former = dict(may_be_locked_out(view, team, task)).get(agent, "") if not task.is_terminal else ""
    if former:
        text = (
            f"{agent} may be {former}, who is locked out for {task.label} and not on the team any more. "
            "`aliases` or `former` in remand.toml says which it is."
        )
    is_locked_out = is_own or is_inherited or bool(former)
    return Explained(task_id=task.id, agent=agent, is_locked_out=is_locked_out, why=text)


def why(task: Task, events: Sequence[e.Event], agent: str) -> str:
    """Why an agent is locked out of a task, or that it is not, and since when or through whom."""
    lockout = next((one for one in task.active_lockouts if one.agent == agent), None)
    if lockout is None:
        return _free(task, events, agent)
    if lockout.inherited_from:
        return (
            f"{agent} was locked out for {task.label}, since it was cut from task {lockout.inherited_from}."
        )
    review = _review(events, lockout.review_id) if lockout.review_id else None
    if review is None:
        return f"{agent} was locked out for {task.label} by {lockout.by}: {_sentence(lockout.reason)}"
    return (
        f"{agent} was locked out for {task.label} after {review.reviewer} rejected {_work(task, review)} "
        f"due to {_sentence(_reason(review, lockout))}"
    )


def rejected(task: Task, events: Sequence[e.Event]) -> str:
    """Why the work on a task was rejected: its rejections that stand, one a line."""
    standing = {review.id for one in task.rounds for review in one.reviews if not review.is_retracted}
    authors = {review.id: one.agent for one in task.rounds for review in one.reviews}
    rows = [
        f"{event.reviewer} rejected {_work(task, event)} of {authors[name]} due to {_sentence(_blocking(event))}"
        for event in events
        if isinstance(event, e.ReviewRejected) and (name := event.review_id or event.meta.origin) in standing
    ]
    return "\n".join(rows) or f"No rejection of {task.label} stands; it is {task.status}."


def _review(events: Sequence[e.Event], review_id: str) -> e.ReviewRejected | None:
    found = (event for event in events if isinstance(event, e.ReviewRejected))
    return next((event for event in found if review_id in (event.review_id, event.meta.origin)), None)


def _work(task: Task, review: e.ReviewRejected) -> str:
    return f"PR #{task.pr}" if task.pr else f"commit {review.commit[:12]}"


def _reason(review: e.ReviewRejected, lockout: Lockout) -> str:
    return _blocking(review) or lockout.reason


def _blocking(review: e.ReviewRejected) -> str:
    """The first blocking finding, with its place, and how many there are besides."""
    blocking = [finding for finding in review.findings if finding.is_blocking]
    if not blocking:
        return ""
    first, more = blocking[0], len(blocking) - 1
    place = f"{first.path}:{first.line}" if first.line else first.path
    text = f"{line(first.text).rstrip('.')}{f' ({line(place)})' if place else ''}"
    return f"{text}, and {more} more finding{'s' if more > 1 else ''}" if more else text


def _sentence(text: str) -> str:
    return f"{line(text).rstrip('.') or 'no reason given'}."


def _free(task: Task, events: Sequence[e.Event], agent: str) -> str:
    """That an agent is not locked out, what ended its lockout if it had one, and who works on the task instead."""
    rows = [f"{agent} is not locked out for {task.label}."]
    cleared = [event for event in events if isinstance(event, e.LockoutCleared) and event.agent == agent]
    if task.status == Status.DONE:
        rows.append("The task is done.")
    elif cleared:
        rows.append(f"{cleared[-1].meta.actor} unlocked it: {_sentence(cleared[-1].reason)}")
    if task.claim is not None and task.claim.agent != agent:
        rows.append(f"{task.claim.agent} holds the task.")
    return " ".join(rows)
