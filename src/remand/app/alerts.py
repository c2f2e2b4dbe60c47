"""Alerts about claims that the gates keep rejecting, as items of the inbox that inform and force no decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from remand.app.escalations import EventsOf, Question, often, tried, ways
from remand.domain.notices import open_alert, takeover
from remand.domain.roles import Team
from remand.domain.task import Status, Task
from remand.ledger.store import Transaction

KIND = "alert"
CONTINUE = "continue"
"""What happens without an answer: the agent goes on."""


class Alerted(Question, kw_only=True, omit_defaults=False):
    """An alert about one claim; what it is known by names the alert."""

    agent: str
    number: int
    """How often the gates had rejected the claim."""


def alert_questions(
    view: Transaction, team: Team, tasks: Iterable[Task], events_of: EventsOf
) -> Iterator[Alerted]:
    """The alerts among tasks that are claimed, each with what was tried and how to act on it."""
    for task in tasks:
        found = open_alert(task)
        if found is None:
            continue
        label, offered = task.label[:1].upper() + task.label[1:], ways(view, team, task)
        numbered = ", ".join(f"{number}) {option.text}" for number, option in enumerate(offered, start=1))
        why = (
            f"{label}: {alert_words(found.agent, found.number)}, and {found.agent} goes on; "
            f"{takeover(found.escalate_after)}, you are asked to decide."
        )
        yield Alerted(
            escalation_id=found.id,
            task_id=task.id,
            title=task.title,
            kind=KIND,
            question=f"{why} Options: {numbered}.",
            options=offered,
            deadline="",
            default=CONTINUE,
            tried=tried(task, events_of(task.id)),
            since=found.at,
            is_delivered=bool(found.notified),
            agent=found.agent,
            number=found.number,
        )


def alert_words(agent: str, number: int) -> str:
    """What an alert says."""
    return f"The gates rejected {agent}'s work {often(number)}"


def alerted_under(view: Transaction, alert_id: str) -> Task | None:
    """The task with the open alert of that id."""
    tasks = view.tasks.active(Status.CLAIMED)
    return next((task for task in tasks if (found := open_alert(task)) and found.id == alert_id), None)
