"""Keeps the files for people up to date: the orchestration log, open questions, and tasks that were sent back."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import Protocol

from remand.app import prompts
from remand.app.errors import EnvironmentFault
from remand.app.events.orchestration_log import log_lines
from remand.app.events.task_folds import TELLING, task_events
from remand.app.inbox import questions
from remand.config import RecordSettings
from remand.domain.access.team import Team
from remand.domain.decisions.escalations import UNLOCK, EscalationOption, number_options
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationOpened
from remand.domain.folds.reviews import make_escalation_id
from remand.domain.instant import format_time
from remand.domain.record import NamedTuple
from remand.domain.task import Task
from remand.domain.text.words import single_line
from remand.ledger import codec
from remand.ledger.problems import BadLine
from remand.ledger.store import EDITED, LogLine, Store, Transaction
from remand.startup import lazy_pattern


class RecordKind(StrEnum):
    """The kinds of files."""

    LOG = "orchestration log"
    MESSAGE = "message"
    TASK = "task"


def record_folders(settings: RecordSettings) -> dict[RecordKind, str]:
    """The folder of each kind of file, as the configuration names it."""
    return {
        RecordKind.LOG: settings.orchestration_log,
        RecordKind.MESSAGE: settings.messages,
        RecordKind.TASK: settings.tasks,
    }


class RecordFolders(Protocol):
    """The folders of the files, one per kind."""

    def put(self, kind: RecordKind, name: str, text: str, after: str = "") -> str:
        """Writes a file with exactly this content and returns a mark of its state.

        With such a mark, it appends without reading the file; returns an empty text if the file changed since.
        """

    def drop(self, kind: RecordKind, name: str) -> None:
        """Deletes a file if it exists."""

    def names(self, kind: RecordKind) -> set[str]:
        """The names of all files of a kind."""

    def stamp(self, *, seals: bool = False, sees_edits: bool = False) -> str:
        """Changes when any file is added or removed; with `seals`, even an immediate change will show.

        With `sees_edits`, it is empty if a file may have changed since the seal.
        """

    def lock(self) -> AbstractContextManager[bool]:
        """Locks the files for one writing process; False if another process holds the lock."""


def are_records_current(view: Transaction, files: RecordFolders) -> bool:
    """True if the files match the ledger and none has been deleted."""
    return not view.outdated.every() and view.outdated.mark == files.stamp()


_FOOTER = "_Written from the ledger and never read back: changes here have no effect._"


def question_page(question: questions.Question) -> str:
    """An open question: each option with its command, earlier attempts, and the deadline."""
    again = f", asked again {question.repeats} times" if question.repeats else ""
    acknowledgement = (
        f"\nSeen by {single_line(question.acknowledged_by)}." if question.acknowledged_by else ""
    )
    then = f"Without an answer it is asked again at {format_time(question.deadline)}; nothing is decided automatically."
    rows = [
        f"# {question.escalation_id}: {single_line(question.title)}",
        f"Task {question.task_id}, since {format_time(question.since)}{again}. {then}{acknowledgement}",
        f"> {single_line(question.question, 2000)}",
        "## Options",
        *(f"{n}. {_option_row(question, option)}" for n, option in number_options(question.options)),
        "## What was tried",
        "\n".join(f"- {single_line(one)}" for one in question.tried) or "- nothing on record",
        _FOOTER,
    ]
    return "\n\n".join(rows) + "\n"


def _option_row(question: questions.Question, option: EscalationOption) -> str:
    return f"{single_line(option.text)}\n\n        {answer_command(question, option)}"


def answer_command(question: questions.Question, option: EscalationOption) -> str:
    """The command that chooses an option."""
    more = ' --guidance "…"' if option.key.startswith(f"{UNLOCK}:") else ""
    return f"remand inbox answer {question.escalation_id} {shlex.quote(single_line(option.key))}{more}"


def task_page(task: Task, events: list[Event]) -> str:
    """A task as its next agent will read it: its state, then feedback first.

    It is written when the task changes; later outcomes of other tasks are not included.
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
    # Imported only for a returned task: the sanitiser takes longer to load than answering a stop with an alert.
    text = prompts.render_prompt(task, events)
    return f"# {task.id}: {single_line(task.title)}\n\n{head}\n\n{text}\n\n{_FOOTER}\n"


_RECORDED_LINE = lazy_pattern(
    rb'"event": ?"(?:review\.|lockout\.|escalation\.|task\.reassign"|gate\.alert")|"by_user": ?true'
)
"""Matches the lines of all events that the files are made from."""
_PLAIN = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9-]{0,80}")


_ATTEMPTS = 20


class RecordFileUpdater:
    """Updates the files from the ledger without holding its lock. A killed process leaves a note of the work.

    One process at a time updates them. Others leave it to that process, which checks again when it has finished.
    """

    def __init__(self, store: Store, files: Callable[[], RecordFolders], team: Callable[[], Team]) -> None:
        self._store = store
        self._find_files = files
        self._team = team

    @cached_property
    def _files(self) -> RecordFolders:
        """Their configured folders; raises `EnvironmentFault` if the configuration is unreadable."""
        return self._find_files()

    def update(self) -> str:
        """Rewrites outdated and missing files; returns the error if one prevents it, and the next command retries."""
        try:
            for _ in range(_ATTEMPTS):
                with self._store.read() as view:
                    if are_records_current(view, self._files):
                        break
                with self._files.lock() as is_free:
                    if not is_free:
                        break
                    self._update_outdated()
        except (OSError, EnvironmentFault, BadLine) as error:
            return f"the files beside the ledger are not up to date: {error}"
        return ""

    def _update_outdated(self) -> None:
        """Writes the files from a view of the ledger, then records in a short change that they are current."""
        with self._store.read() as view:
            notes, names = view.outdated.notes(), view.outdated.every()
            if EDITED in names:  # lines that the table lost or has otherwise show as an edit
                self._write_days(view, {*view.log_lines.days(), *self._files.names(RecordKind.LOG)})
            stamp = self._files.stamp(sees_edits=EDITED in names)
            is_all = "" in names or view.outdated.mark != stamp or not view.outdated.log_mark
            wanted: set[tuple[RecordKind, str]] = set()
            lines: dict[str, list[LogLine]] = {}
            for name in _recorded_tasks(view) if is_all else names:
                events, task = task_events(view, name, TELLING), view.tasks.get(name)
                if task is not None:
                    lines[name] = log_lines(events)
                    wanted.update(self._write_pages(view, task, events))
                    if not is_all:
                        self._drop_pages(name, events, wanted)
            log = self._write_log(lines) if is_all else self._continue_log(view, lines)
            if is_all:
                self._drop_others(wanted | {(RecordKind.LOG, line.place[:10]) for line in log.added})
        with self._store.write() as tx:
            if is_all:
                tx.log_lines.clear()
            days = {day for name in log.tasks for day in tx.log_lines.put(name, lines[name])}
            mark = log.mark
            if mark is None:
                before = tx.outdated.log_mark.partition("\n")[2]
                mark = self._write_days(tx, days).get(log.last[:10], before)
            tx.outdated.log_mark = f"{log.last}\n{mark}"
            tx.outdated.clear(notes)
            tx.outdated.mark = self._files.stamp(seals=True)

    def _write_log(self, lines: Mapping[str, list[LogLine]]) -> _LogUpdate:
        """Rewrites every day of the log."""
        every = sorted((line.place, name, line) for name, own in lines.items() for line in own)
        mark = ""
        for day, rows in groupby(every, lambda row: row[0][:10]):
            if _PLAIN.fullmatch(day):
                mark = self._files.put(RecordKind.LOG, day, _log_text(row[2] for row in rows))
        return _LogUpdate([*lines], [row[2] for row in every], every[-1][0] if every else "", mark)

    def _continue_log(self, view: Transaction, lines: Mapping[str, list[LogLine]]) -> _LogUpdate:
        """Appends new entries of some tasks to the log, if they all come after its last line."""
        last, _, mark = view.outdated.log_mark.partition("\n")
        changed: list[str] = []
        added: list[tuple[LogLine, str]] = []
        is_longer = True
        for name, own in lines.items():
            known = set(view.log_lines.of_task(name))
            new = [(line, name) for line in own if line not in known]
            is_longer &= len(own) == len(known) + len(new)
            if new or len(own) != len(known):
                changed.append(name)
                added += new
        added.sort()
        rows = [line for line, _ in added]
        end = max(last, rows[-1].place) if rows else last
        if not changed:
            return _LogUpdate([], [], last, mark)
        is_next = is_longer and rows[0].place > last and rows[-1].place[:10] == last[:10]
        left = self._files.put(RecordKind.LOG, last[:10], _log_text(rows), mark) if is_next and mark else ""
        return _LogUpdate(changed, rows, end, left or None)

    def _drop_pages(self, task_id: str, events: list[Event], wanted: set[tuple[RecordKind, str]]) -> None:
        """Deletes the pages that a task no longer has."""
        names = {make_escalation_id(event) for event in events if isinstance(event, EscalationOpened)}
        pages = {(RecordKind.TASK, task_id), *((RecordKind.MESSAGE, one) for one in names)}
        for kind, name in pages - wanted:
            self._drop(kind, name)

    def _drop_others(self, wanted: set[tuple[RecordKind, str]]) -> None:
        """Deletes files that match nothing in the ledger."""
        for kind in RecordKind:
            for name in self._files.names(kind):
                if (kind, name) not in wanted:
                    self._drop(kind, name)

    def _write_pages(
        self, tx: Transaction, task: Task, events: list[Event]
    ) -> Iterator[tuple[RecordKind, str]]:
        """Writes the pages of a task and returns their names."""
        escalation = task.open_escalation
        if escalation is not None and _PLAIN.fullmatch(escalation.id):
            question = questions.escalation_question(tx, self._team(), task, lambda _: events)
            self._files.put(RecordKind.MESSAGE, escalation.id, question_page(question))
            yield RecordKind.MESSAGE, escalation.id
        if (task.reviews.feedback or task.inbox.escalation) and _PLAIN.fullmatch(task.id):
            self._files.put(RecordKind.TASK, task.id, task_page(task, events))
            yield RecordKind.TASK, task.id

    def _write_days(self, tx: Transaction, days: set[str]) -> dict[str, str]:
        """Rewrites days of the log. This is rare: for a new day, or for events older than its last line.

        Returns the mark of each file.
        """
        marks: dict[str, str] = {}
        for day in sorted(days):
            rows = tx.log_lines.day(day)
            if rows and _PLAIN.fullmatch(day):
                marks[day] = self._files.put(RecordKind.LOG, day, "".join(f"{row}\n" for row in rows))
            else:
                self._drop(RecordKind.LOG, day)
        return marks

    def _drop(self, kind: RecordKind, name: str) -> None:
        if _PLAIN.fullmatch(name):
            self._files.drop(kind, name)


class _LogUpdate(NamedTuple):
    """The result of updating the orchestration log."""

    tasks: list[str]
    """The tasks whose lines changed."""
    added: list[LogLine]
    last: str
    """The position of its last line."""
    mark: str | None
    """The mark of that day's file; None if days must be rewritten."""


def _log_text(lines: Iterable[LogLine]) -> str:
    return "".join(f"{line.text}\n" for line in lines)


def _recorded_tasks(tx: Transaction) -> list[str]:
    """The tasks that may appear in the files."""
    lines = (line for line in tx.events.lines() if _RECORDED_LINE.search(line))
    return sorted({event_task_id(codec.decode_stored_line(line)) for line in lines} - {""})
