"""The files beside the ledger, kept up to date: the orchestration log, open questions, and tasks that were sent back."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from remand.app import prompts
from remand.app.errors import EnvironmentFault
from remand.app.events.orchestration_log import log_lines
from remand.app.events.task_folds import task_events
from remand.app.inbox.questions import Question, escalation_question
from remand.domain.access.team import Team
from remand.domain.decisions.escalations import UNLOCK, EscalationOption
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationOpened
from remand.domain.folds.reviews import make_escalation_id
from remand.domain.instant import format_time
from remand.domain.task import Task
from remand.domain.text.words import single_line
from remand.ledger import codec
from remand.ledger.problems import BadLine
from remand.ledger.store import Store, Transaction
from remand.startup import lazy_pattern


class RecordKind(StrEnum):
    """What a file is."""

    LOG = "orchestration log"
    MESSAGE = "message"
    TASK = "task"


class RecordFolders(Protocol):
    """The folders of the files, one for each kind."""

    def put(self, kind: RecordKind, name: str, text: str) -> None:
        """Makes a file say exactly this; one that begins with what is there is appended to."""

    def drop(self, kind: RecordKind, name: str) -> None:
        """Takes a file away, if it is there."""

    def names(self, kind: RecordKind) -> set[str]:
        """The names of the files of a kind."""

    def stamp(self) -> str:
        """Changes when a file comes or goes, whoever brings or takes it."""

    def seal(self) -> str:
        """The stamp of the folders as they are left, made so that the very next change will show."""


def are_records_current(view: Transaction, files: RecordFolders) -> bool:
    """True when the files are as the ledger has it, and nobody has taken one away."""
    return not view.outdated.every() and view.outdated.mark == files.stamp()


_FOOTER = "_Made from the ledger and never read back: what is changed here changes nothing._"


def question_page(asked: Question) -> str:
    """An open question: what is asked, each option with the command that chooses it, what was tried, until when."""
    again = f", asked again {asked.repeats} times" if asked.repeats else ""
    seen = f"\nSeen by {single_line(asked.acknowledged_by)}." if asked.acknowledged_by else ""
    then = (
        f"Without an answer it is asked again at {format_time(asked.deadline)}; nothing is decided by itself."
    )
    rows = [
        f"# {asked.escalation_id}: {single_line(asked.title)}",
        f"Task {asked.task_id}, since {format_time(asked.since)}{again}. {then}{seen}",
        f"> {single_line(asked.question, 2000)}",
        "## Options",
        *(f"{n}. {_option_row(asked, option)}" for n, option in enumerate(asked.options, start=1)),
        "## What was tried",
        "\n".join(f"- {single_line(one)}" for one in asked.tried) or "- nothing on record",
        _FOOTER,
    ]
    return "\n\n".join(rows) + "\n"


def _option_row(asked: Question, option: EscalationOption) -> str:
    return f"{single_line(option.text)}\n\n        {answer_command(asked, option)}"


def answer_command(asked: Question, option: EscalationOption) -> str:
    """The one command that chooses an option."""
    more = ' --guidance "…"' if option.key.startswith(f"{UNLOCK}:") else ""
    return f"remand inbox answer {asked.escalation_id} {shlex.quote(single_line(option.key))}{more}"


def task_page(task: Task, events: list[Event]) -> str:
    """A task as its next agent will read it, feedback first, under how it stands.

    It is made when the task changes: what other tasks have come to since is not in it.
    """
    locked_out = ", ".join(lockout.agent for lockout in task.active_lockouts)
    facts = (
        ("status", task.status.value),
        ("alias", ", ".join(task.details.aliases)),
        ("branch", task.branch),
        ("PR", f"#{task.pr}" if task.pr else ""),
        ("rejections", str(task.reviews.rejection_count)),
        ("locked out", locked_out),
        ("asks the user", task.open_escalation.id if task.open_escalation else ""),
    )
    head = "\n".join(f"- {name}: {single_line(value)}" for name, value in facts if value)
    # Loaded when a task was sent back: what cleans feedback takes longer to load than a stop with an alert to answer.
    text = prompts.render_prompt(task, events)
    return f"# {task.id}: {single_line(task.title)}\n\n{head}\n\n{text}\n\n{_FOOTER}\n"


_RECORDED_LINE = lazy_pattern(
    rb'"event": ?"(?:review\.|lockout\.|escalation\.|task\.reassign"|gate\.alert")|"by_user": ?true'
)
"""What the lines of all events hold that files are made from."""
_PLAIN = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9-]{0,80}")


class RecordFileUpdater:
    """Brings the files in step with the ledger. All of it happens under the ledger's lock, and again if it failed."""

    def __init__(self, store: Store, files: Callable[[], RecordFolders], team: Callable[[], Team]) -> None:
        self._store = store
        self._find_files = files
        self._team = team

    @cached_property
    def _files(self) -> RecordFolders:
        """Where they lie, as the configuration has it; raises `EnvironmentFault` when that cannot be read."""
        return self._find_files()

    def update_if_outdated(self) -> str:
        """The same as `update`, without the ledger's lock when there is nothing to do."""
        try:
            with self._store.read() as view:
                if are_records_current(view, self._files):
                    return ""
        except EnvironmentFault as fault:
            return str(fault)
        return self.update()

    def update(self) -> str:
        """Makes again what is out of date or gone; says what stood in the way, which the next command tries again."""
        try:
            with self._store.write() as tx:
                if not are_records_current(tx, self._files):
                    self._update_outdated(tx)
        except (OSError, EnvironmentFault, BadLine) as error:
            return f"the files beside the ledger are not up to date: {error}"
        return ""

    def _update_outdated(self, tx: Transaction) -> None:
        names = tx.outdated.every()
        if "" in names or tx.outdated.mark != self._files.stamp():
            self._update_all(tx)
        else:
            days = {day for name in names for day in self._update_task(tx, name)}
            self._write_days(tx, days)
        tx.outdated.clear()
        tx.outdated.mark = self._files.seal()

    def _update_task(self, tx: Transaction, task_id: str) -> set[str]:
        """Makes one task's files again; the days of the log that this changes."""
        events, task = task_events(tx, task_id), tx.tasks.get(task_id)
        if task is None:
            return set()
        wanted = set(self._write_pages(tx, task, events))
        asked = {make_escalation_id(event) for event in events if isinstance(event, EscalationOpened)}
        for kind, name in {
            (RecordKind.TASK, task_id),
            *((RecordKind.MESSAGE, one) for one in asked),
        } - wanted:
            self._drop(kind, name)
        return tx.log_lines.put(task_id, log_lines(events))

    def _update_all(self, tx: Transaction) -> None:
        """Makes every file again, and takes away those that nothing in the ledger stands for."""
        tx.log_lines.clear()
        wanted: set[tuple[RecordKind, str]] = set()
        for name in _recorded_tasks(tx):
            events, task = task_events(tx, name), tx.tasks.get(name)
            if task is not None:
                tx.log_lines.put(name, log_lines(events))
                wanted.update(self._write_pages(tx, task, events))
        days = set(tx.log_lines.days())
        self._write_days(tx, days)
        wanted.update((RecordKind.LOG, day) for day in days)
        for kind in RecordKind:
            for name in self._files.names(kind):
                if (kind, name) not in wanted:
                    self._drop(kind, name)

    def _write_pages(
        self, tx: Transaction, task: Task, events: list[Event]
    ) -> Iterator[tuple[RecordKind, str]]:
        """Writes the pages of a task; says which."""
        asked = task.open_escalation
        if asked is not None and _PLAIN.fullmatch(asked.id):
            question = escalation_question(tx, self._team(), task, lambda _: events)
            self._files.put(RecordKind.MESSAGE, asked.id, question_page(question))
            yield RecordKind.MESSAGE, asked.id
        if (task.reviews.feedback or task.inbox.escalation) and _PLAIN.fullmatch(task.id):
            self._files.put(RecordKind.TASK, task.id, task_page(task, events))
            yield RecordKind.TASK, task.id

    def _write_days(self, tx: Transaction, days: set[str]) -> None:
        for day in sorted(days):
            lines = tx.log_lines.day(day)
            if lines and _PLAIN.fullmatch(day):
                self._files.put(RecordKind.LOG, day, "".join(f"{line}\n" for line in lines))
            else:
                self._drop(RecordKind.LOG, day)

    def _drop(self, kind: RecordKind, name: str) -> None:
        if _PLAIN.fullmatch(name):
            self._files.drop(kind, name)


def _recorded_tasks(tx: Transaction) -> list[str]:
    """The tasks that files may tell of."""
    told = (line for line in tx.events.lines() if _RECORDED_LINE.search(line))
    return sorted({event_task_id(codec.decode_stored_line(line)) for line in told} - {""})
