"""Notices to the user: each question once per channel and reminder, each alert and override once per channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from remand.app.events.task_folds import task_events
from remand.app.inbox.questions import AlertQuestion, Question, alert_questions, escalation_question
from remand.app.ledger import Ledger
from remand.app.record_files import answer_command
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Team
from remand.domain.decisions.notices import NOTICE_DUE, open_alert
from remand.domain.events.event import Event
from remand.domain.instant import format_time
from remand.domain.task import OverrideNotice, Status, Task
from remand.domain.text.redaction import redact
from remand.domain.text.words import format_count, single_line, times_text
from remand.ledger.store import Transaction

MAX_SINGLE = 3
"""Up to this many questions get a notice each; more share one."""
MAX_PER_NOTICE = 500
"""The number of questions in a shared notice, if there are that many."""
MAX_NOTICES = 20
MAX_TITLE = 80


class Channel(Protocol):
    """One way to reach the user."""

    name: str

    def send(self, title: str, body: str) -> str:
        """Sends a notice; returns an empty text on success, otherwise the error."""


class OutgoingNotice(NamedTuple):
    """A notice, and the command that records its delivery."""

    title: str
    body: str
    about: tuple[c.NoteDelivery, ...]


class DeliveryReport(NamedTuple):
    """The number and subjects of the notices sent, and the failures."""

    notices: int
    delivered: tuple[tuple[str, str], ...]
    """The id of each delivered question, alert and override, with its channel."""
    problems: tuple[str, ...]
    """Each error with the channel's name."""


def deliver_notices(ledger: Ledger, channels: Sequence[Channel], team: Team, project: str) -> DeliveryReport:
    """Sends each channel what it has not received yet, and records each delivery."""
    count, problems = 0, list[str]()
    delivered: list[tuple[str, str]] = []
    names = {channel.name for channel in channels}
    for channel in channels:
        with ledger.store.read() as view:
            pending = _PendingNotices(view, team, project, channel.name, names)
            notices = [*pending.questions(), *pending.alerts(), *pending.overrides()]
        for notice in notices:
            # Secrets are redacted before anything leaves the machine.
            problem = channel.send(redact(notice.title), redact(notice.body))
            if problem:
                problems.append(f"{channel.name}: {problem}")
                break
            count += 1
            ledger.ask_all_as(THE_COORDINATOR, list(notice.about))
            delivered += [(one.escalation_id, channel.name) for one in notice.about]
    return DeliveryReport(count, tuple(delivered), tuple(problems))


class Pace(Protocol):
    """Limits the rate of notices across processes."""

    def wait(self) -> None:
        """Returns when the next notice may be sent."""

    def turn(self) -> AbstractContextManager[None]:
        """Prevents other processes from sending the same notice at the same time."""

    def note(self) -> None:
        """Records that a notice was sent or failed."""


class NoticeDelivery:
    """Sends the user's pending notices through the configured channels."""

    def __init__(
        self,
        ledger: Ledger,
        team: Callable[[], Team],
        project: str,
        *,
        open_channels: Callable[[], tuple[Sequence[Channel], tuple[str, ...]]],
        pace: Pace,
    ) -> None:
        self._ledger, self._team, self._project = ledger, team, project
        self._open_channels, self._pace = open_channels, pace

    def deliver(self) -> DeliveryReport:
        """Sends once."""
        channels, problems = self._open_channels()
        self._ledger.ask_all([])
        with self._pace.turn():
            sent = deliver_notices(self._ledger, channels, self._team(), self._project)
        if sent.notices or sent.problems:
            self._pace.note()
        return sent._replace(problems=problems + sent.problems)

    def deliver_paced(self, release: Callable[[], None]) -> DeliveryReport:
        """Sends at the allowed rate until nothing is pending; failures are left to the next command.

        `release` lets another delivery start. This one looks once more after that: whoever asked before relies on it.
        """
        notices, delivered, is_released = 0, tuple[tuple[str, str], ...](), False
        while True:
            self._pace.wait()
            sent = self.deliver()
            notices, delivered = notices + sent.notices, delivered + sent.delivered
            if sent.problems or (is_released and not sent.notices):
                return DeliveryReport(notices, delivered, sent.problems)
            if not sent.notices:
                release()
                is_released = True


class _PendingNotices:
    """What one channel has not received yet: a few items in a notice each, many of a kind together."""

    def __init__(self, view: Transaction, team: Team, project: str, channel: str, names: set[str]) -> None:
        self._view, self._team, self._project = view, team, project
        self._channel, self._names = channel, names

    def questions(self) -> Iterator[OutgoingNotice]:
        """Questions not delivered since their last reminder, oldest first."""
        found = [
            (asked.opened_at, task.id, asked.id, task)
            for task in self._view.task_lists.with_status(Status.ESCALATED)
            if (asked := task.inbox.escalation) and not asked.acknowledged_by and self._is_new(asked.notified)
        ]
        pending = [
            (self._delivery(task.id, name), f"- {name} {_task_text(task)}", partial(self._question, task))
            for _, _, name, task in sorted(found, key=lambda one: one[:2])
        ]
        count = len(pending)
        title = "1 question waits for you" if count == 1 else f"{count} questions wait for you"
        return self._notices(pending, title, "Answer with `remand inbox`.")

    def alerts(self) -> Iterator[OutgoingNotice]:
        """Undelivered alerts, oldest first."""
        tasks = [
            task
            for task in self._view.task_lists.with_status(Status.CLAIMED)
            if (alert := open_alert(task)) and self._is_new(alert.notified)
        ]
        alerts = alert_questions(self._view, self._team, tasks, self._events_of)
        pending = [
            (
                self._delivery(alert_question.task_id, alert_question.escalation_id),
                f"- {alert_question.escalation_id} {single_line(alert_question.question)}",
                partial(self._alert, alert_question),
            )
            for alert_question in sorted(alerts, key=lambda asked: (asked.since, asked.task_id))
        ]
        title = f"the work on {format_count(len(pending), 'task')} was rejected again and again"
        return self._notices(pending, title, "`remand inbox` shows what can be done.")

    def overrides(self) -> Iterator[OutgoingNotice]:
        """Undelivered overrides in the user's name, oldest first."""
        found = [
            (notice.at, task.id, notice, task)
            for task in self._view.task_lists.with_due([NOTICE_DUE])
            for notice in task.inbox.notices
            if self._is_new(notice.notified)
        ]
        pending = []
        for _, _, notice, task in sorted(found, key=lambda one: one[:2]):
            is_last = self._names <= {*notice.notified, self._channel}
            delivery = replace(self._delivery(task.id, notice.id), is_last=is_last)
            row = f"- {_task_text(task)}: {single_line(notice.text, 500)}"
            pending.append((delivery, row, partial(self._override, task, notice)))
        last = "If one of them was not yours, somebody acts in your name: `remand task show ID` shows what was done."
        return self._notices(pending, f"{format_count(len(pending), 'override')} in your name", last)

    def _notices(
        self,
        pending: Sequence[tuple[c.NoteDelivery, str, Callable[[], tuple[str, str]]]],
        title: str,
        last: str,
    ) -> Iterator[OutgoingNotice]:
        """A few items with a notice each, or many with a row each in a few notices."""
        if len(pending) <= MAX_SINGLE:
            for delivery, _, write in pending:
                own_title, body = write()
                yield OutgoingNotice(f"{self._project}: {own_title}", body, (delivery,))
            return
        size = max(MAX_PER_NOTICE, -(-len(pending) // MAX_NOTICES))
        for start in range(0, len(pending), size):
            part = pending[start : start + size]
            body = "\n".join([*(row for _, row, _ in part), "", last])
            yield OutgoingNotice(f"{self._project}: {title}", body, tuple(one[0] for one in part))

    def _question(self, task: Task) -> tuple[str, str]:
        question = escalation_question(self._view, self._team, task, self._events_of)
        again = " (again)" if question.repeats else ""
        rows = (
            *_answer_rows(question),
            "",
            *question.tried,
            "",
            f"Asked since {format_time(question.since)}.",
        )
        return f"a question waits for you{again}: {single_line(task.title, MAX_TITLE)}", "\n".join(rows)

    def _alert(self, alert: AlertQuestion) -> tuple[str, str]:
        rows = (*_answer_rows(alert), "", *alert.tried, "", f"Alerted at {format_time(alert.since)}.")
        words = f"{alert.agent}'s work was rejected {times_text(alert.number)}"
        title = f"{single_line(words, MAX_TITLE)}: {single_line(alert.title, MAX_TITLE)}"
        return title, "\n".join(rows)

    def _override(self, task: Task, notice: OverrideNotice) -> tuple[str, str]:
        title = f"an override in your name: {single_line(task.title, MAX_TITLE)}"
        body = (
            f"{_task_text(task)}\n\n{single_line(notice.text, 500)}\n\nRecorded at {format_time(notice.at)}. If this "
            f"was not you, somebody acts in your name: `remand task show {task.id}` shows what was done."
        )
        return title, body

    def _delivery(self, task_id: str, name: str) -> c.NoteDelivery:
        return c.NoteDelivery(task_id=task_id, escalation_id=name, channel=self._channel)

    def _is_new(self, notified: tuple[str, ...]) -> bool:
        return self._channel not in notified

    def _events_of(self, task_id: str) -> list[Event]:
        return task_events(self._view, task_id)


def _answer_rows(question: Question) -> list[str]:
    """The question, with the command for each option."""
    ways = [f"{option.text}:\n    {answer_command(question, option)}" for option in question.options]
    return [single_line(question.question, 2000), "", *ways]


def _task_text(task: Task) -> str:
    alias = f" ({single_line(task.details.aliases[0], MAX_TITLE)})" if task.details.aliases else ""
    return f"{task.id}{alias}: {single_line(task.title, MAX_TITLE)}"
