"""Tells the user of open questions through channels: each question once a channel and repeat, many in one notice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from remand.app.escalations import line, question_of
from remand.app.ledger import Ledger
from remand.app.pages import answer_command, shown
from remand.app.rebuild import story
from remand.domain import commands as c
from remand.domain.roles import THE_COORDINATOR, Team
from remand.domain.secrets import redacted
from remand.domain.task import Task
from remand.ledger.store import Transaction

FEW = 3
"""So many questions are told one by one; more of them together."""
TOGETHER = 500
"""So many at least stand in one notice, when there are that many."""
MAX_NOTICES = 20
MAX_TITLE = 80


class Channel(Protocol):
    """One way to reach the user."""

    name: str

    def send(self, title: str, body: str) -> str:
        """Sends a notice; empty when the channel took it, else why not."""


class Notice(NamedTuple):
    """What is sent, and the tasks it tells of."""

    title: str
    body: str
    tasks: tuple[Task, ...]


class Told(NamedTuple):
    """What came of it: how many notices went out, about which questions, and what stood in the way."""

    notices: int
    delivered: tuple[tuple[str, str], ...]
    """Each question's id, with the channel that took it."""
    problems: tuple[str, ...]
    """Each with the channel's name."""


def tell(ledger: Ledger, channels: Sequence[Channel], team: Team, project: str) -> Told:
    """Tells every channel of the questions that it has not taken yet; what a channel took is recorded."""
    count, problems = 0, list[str]()
    delivered: list[tuple[str, str]] = []
    for channel in channels:
        with ledger.store.read() as view:
            notices = list(_notices(view, team, project, _untold(view, channel.name)))
        for notice in notices:
            problem = channel.send(notice.title, notice.body)
            if problem:
                problems.append(f"{channel.name}: {problem}")
                break
            count += 1
            delivered += _record(ledger, channel.name, notice.tasks)
    return Told(count, tuple(delivered), tuple(problems))


def _untold(view: Transaction, channel: str) -> list[Task]:
    """The tasks whose questions the channel has not taken since they were last repeated, the oldest first."""
    found = [
        (asked.opened_at, task.id, task)
        for task in view.tasks.escalated()
        if (asked := task.escalation) and not asked.acknowledged_by and channel not in asked.notified
    ]
    return [task for _, _, task in sorted(found, key=lambda one: one[:2])]


def _record(ledger: Ledger, channel: str, tasks: Sequence[Task]) -> Iterator[tuple[str, str]]:
    asked = [(task.id, task.escalation.id) for task in tasks if task.escalation]
    ledger.ask_all_as(
        THE_COORDINATOR,
        [c.NoteDelivery(task_id=task, escalation_id=name, channel=channel) for task, name in asked],
    )
    return ((name, channel) for _, name in asked)


def _notices(view: Transaction, team: Team, project: str, tasks: list[Task]) -> Iterator[Notice]:
    if len(tasks) <= FEW:
        yield from (_single(view, team, project, task) for task in tasks)
        return
    size = max(TOGETHER, -(-len(tasks) // MAX_NOTICES))
    for start in range(0, len(tasks), size):
        yield _digest(project, tasks[start : start + size], len(tasks))


def _single(view: Transaction, team: Team, project: str, task: Task) -> Notice:
    asked = question_of(view, team, task, lambda name: story(view, name))
    again = " (again)" if asked.repeats else ""
    ways = (f"{option.text}:\n    {answer_command(asked, option)}" for option in asked.options)
    rows = (line(asked.question, 2000), "", *ways, "", *asked.tried, "", f"Asked since {shown(asked.since)}.")
    title = f"{project}: a question waits for you{again}: {line(task.title, MAX_TITLE)}"
    return Notice(_clean(title), _clean("\n".join(rows)), (task,))


def _digest(project: str, tasks: list[Task], count: int) -> Notice:
    rows = [f"- {task.escalation.id if task.escalation else ''} {_named(task)}" for task in tasks]
    body = "\n".join([*rows, "", "Answer with `remand inbox`."])
    return Notice(_clean(f"{project}: {count} questions wait for you"), _clean(body), tuple(tasks))


def _named(task: Task) -> str:
    alias = f" ({line(task.aliases[0], MAX_TITLE)})" if task.aliases else ""
    return f"{task.id}{alias}: {line(task.title, MAX_TITLE)}"


def _clean(text: str) -> str:
    """What leaves the machine: without anything that can be told as a secret."""
    return redacted(text)
