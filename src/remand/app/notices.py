"""Notices to the user: each question once per channel and repeat, each alert and override once per channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from remand.app.events.task_folds import task_events
from remand.app.inbox.questions import AlertQuestion, Question, alert_questions, escalation_question
from remand.app.ledger import Ledger
from remand.app.record_files import answer_command
from remand.app.text import format_time, single_line, times_text
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Team
from remand.domain.decisions.notices import NOTICE_DUE, open_alert
from remand.domain.events.event import Event
from remand.domain.task import OverrideNotice as Untold
from remand.domain.task import Status, Task
from remand.domain.text.redaction import redact
from remand.ledger.store import Transaction

MAX_SINGLE = 3
"""So many questions are told one by one; more of them together."""
MAX_PER_NOTICE = 500
"""So many at least stand in one notice, when there are that many."""
MAX_NOTICES = 20
MAX_TITLE = 80


class Channel(Protocol):
    """One way to reach the user."""

    name: str

    def send(self, title: str, body: str) -> str:
        """Sends a notice; empty when the channel took it, else why not."""


class OutgoingNotice(NamedTuple):
    """What is sent, and what it tells of."""

    title: str
    body: str
    about: tuple[c.NoteDelivery, ...]
    """What is recorded once a channel took it."""


class DeliveryReport(NamedTuple):
    """What came of it: how many notices went out, about what, and what stood in the way."""

    notices: int
    delivered: tuple[tuple[str, str], ...]
    """The id of each question, alert and override, with the channel that took it."""
    problems: tuple[str, ...]
    """Each with the channel's name."""


def deliver_notices(ledger: Ledger, channels: Sequence[Channel], team: Team, project: str) -> DeliveryReport:
    """Tells every channel of what it has not taken yet; what a channel took is recorded."""
    count, problems = 0, list[str]()
    delivered: list[tuple[str, str]] = []
    names = {channel.name for channel in channels}
    for channel in channels:
        with ledger.store.read() as view:
            telling = _PendingNotices(view, team, project, channel.name, names)
            notices = [*telling.questions(), *telling.alerts(), *telling.overrides()]
        for notice in notices:
            problem = channel.send(_without_secrets(notice.title), _without_secrets(notice.body))
            if problem:
                problems.append(f"{channel.name}: {problem}")
                break
            count += 1
            ledger.ask_all_as(THE_COORDINATOR, list(notice.about))
            delivered += [(one.escalation_id, channel.name) for one in notice.about]
    return DeliveryReport(count, tuple(delivered), tuple(problems))


class _PendingNotices:
    """What one channel has yet to be told: a few one by one, many of a kind together."""

    def __init__(self, view: Transaction, team: Team, project: str, channel: str, names: set[str]) -> None:
        self._view = view
        self._team = team
        self._project = project
        self._channel = channel
        self._names = names

    def questions(self) -> Iterator[OutgoingNotice]:
        """The questions that the channel has not taken since they were last repeated, the oldest first."""
        found = [
            (asked.opened_at, task.id, task)
            for task in self._view.tasks.escalated_tasks()
            if (asked := task.inbox.escalation) and not asked.acknowledged_by and self._is_new(asked.notified)
        ]
        tasks = [task for _, _, task in sorted(found, key=lambda one: one[:2])]
        if len(tasks) <= MAX_SINGLE:
            yield from map(self._question_notice, tasks)
            return
        told = [
            (self._delivery(task.id, asked.id), f"- {asked.id} {_task_text(task)}")
            for task in tasks
            if (asked := task.inbox.escalation)
        ]
        yield from self._combined_notices(
            f"{len(tasks)} questions wait for you", told, "Answer with `remand inbox`."
        )

    def alerts(self) -> Iterator[OutgoingNotice]:
        """The alerts that the channel has not taken, the oldest first."""
        tasks = [
            task
            for task in self._view.tasks.active(Status.CLAIMED)
            if (alert := open_alert(task)) and self._is_new(alert.notified)
        ]
        asked = alert_questions(self._view, self._team, tasks, self._story)
        found = sorted(asked, key=lambda one: (one.since, one.task_id))
        if len(found) <= MAX_SINGLE:
            yield from map(self._alert_notice, found)
            return
        told = [
            (
                self._delivery(one.task_id, one.escalation_id),
                f"- {one.escalation_id} {single_line(one.question)}",
            )
            for one in found
        ]
        title = f"the work on {len(found)} tasks was rejected again and again"
        yield from self._combined_notices(title, told, "`remand inbox` shows what can be done.")

    def overrides(self) -> Iterator[OutgoingNotice]:
        """The overrides in the user's name that the channel has not taken, the oldest first."""
        found = [
            (notice.at, task.id, notice, task)
            for task in self._view.tasks.with_errand([NOTICE_DUE])
            for notice in task.inbox.notices
            if self._is_new(notice.notified)
        ]
        found.sort(key=lambda one: one[:2])
        told = [(self._override_delivery(task, notice), task, notice) for _, _, notice, task in found]
        if len(told) <= MAX_SINGLE:
            for about, task, notice in told:
                title = f"an override in your name: {single_line(task.title, MAX_TITLE)}"
                body = (
                    f"{_task_text(task)}\n\n{single_line(notice.text, 500)}\n\nRecorded at {format_time(notice.at)}. If this was not "
                    f"you, somebody acts in your name: `remand task show {task.id}` shows what was done."
                )
                yield OutgoingNotice(f"{self._project}: {title}", body, (about,))
            return
        rows = [
            (about, f"- {_task_text(task)}: {single_line(notice.text, 500)}") for about, task, notice in told
        ]
        last = "If one of them was not yours, somebody acts in your name: `remand task show ID` shows what was done."
        yield from self._combined_notices(f"{len(told)} overrides in your name", rows, last)

    def _question_notice(self, task: Task) -> OutgoingNotice:
        asked = escalation_question(self._view, self._team, task, self._story)
        again = " (again)" if asked.repeats else ""
        rows = (*_answer_rows(asked), "", *asked.tried, "", f"Asked since {format_time(asked.since)}.")
        title = f"{self._project}: a question waits for you{again}: {single_line(task.title, MAX_TITLE)}"
        return OutgoingNotice(title, "\n".join(rows), (self._delivery(task.id, asked.escalation_id),))

    def _alert_notice(self, asked: AlertQuestion) -> OutgoingNotice:
        rows = (*_answer_rows(asked), "", *asked.tried, "", f"Alerted at {format_time(asked.since)}.")
        words = f"{asked.agent}'s work was rejected {times_text(asked.number)}"
        title = f"{self._project}: {single_line(words, MAX_TITLE)}: {single_line(asked.title, MAX_TITLE)}"
        return OutgoingNotice(title, "\n".join(rows), (self._delivery(asked.task_id, asked.escalation_id),))

    def _override_delivery(self, task: Task, notice: Untold) -> c.NoteDelivery:
        is_last = self._names <= {*notice.notified, self._channel}
        return replace(self._delivery(task.id, notice.id), is_last=is_last)

    def _combined_notices(
        self, title: str, told: list[tuple[c.NoteDelivery, str]], last: str
    ) -> Iterator[OutgoingNotice]:
        """Many things of a kind in few notices."""
        size = max(MAX_PER_NOTICE, -(-len(told) // MAX_NOTICES))
        for start in range(0, len(told), size):
            part = told[start : start + size]
            body = "\n".join([*(row for _, row in part), "", last])
            yield OutgoingNotice(f"{self._project}: {title}", body, tuple(about for about, _ in part))

    def _delivery(self, task_id: str, name: str) -> c.NoteDelivery:
        return c.NoteDelivery(task_id=task_id, escalation_id=name, channel=self._channel)

    def _is_new(self, notified: tuple[str, ...]) -> bool:
        return self._channel not in notified

    def _story(self, task_id: str) -> list[Event]:
        return task_events(self._view, task_id)


def _answer_rows(asked: Question) -> list[str]:
    """What is asked, with the command for each option."""
    ways = [f"{option.text}:\n    {answer_command(asked, option)}" for option in asked.options]
    return [single_line(asked.question, 2000), "", *ways]


def _task_text(task: Task) -> str:
    alias = f" ({single_line(task.details.aliases[0], MAX_TITLE)})" if task.details.aliases else ""
    return f"{task.id}{alias}: {single_line(task.title, MAX_TITLE)}"


def _without_secrets(text: str) -> str:
    """What leaves the machine: without anything that can be told as a secret."""
    return redact(text)
