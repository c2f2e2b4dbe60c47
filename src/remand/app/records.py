"""The files beside the ledger, kept as the ledger has it: the orchestration log, open questions, tasks sent back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from remand.app.errors import EnvironmentFault
from remand.app.escalations import question_of
from remand.app.files import Files, Kind, is_in_step
from remand.app.orchestration import log_lines
from remand.app.pages import question_page, task_page
from remand.app.rebuild import story
from remand.domain import events as e
from remand.domain.review_steps import escalation_id
from remand.domain.roles import Team
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.problems import BadLine
from remand.ledger.store import Store, Transaction

_TELLING = re.compile(
    rb'"event": ?"(?:review\.|lockout\.|escalation\.|task\.reassign"|gate\.alert")|"by_user": ?true'
)
"""What the lines of all events hold that files are made from."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,80}")


class Records:
    """Brings the files in step with the ledger. All of it happens under the ledger's lock, and again if it failed."""

    def __init__(self, store: Store, files: Files, team: Callable[[], Team]) -> None:
        self._store = store
        self._files = files
        self._team = team

    def keep(self) -> str:
        """Makes again what is out of date or gone; says what stood in the way, which the next command tries again."""
        try:
            with self._store.write() as tx:
                if not is_in_step(tx, self._files):
                    self._mend(tx)
        except (OSError, EnvironmentFault, BadLine) as error:
            return f"the files beside the ledger are not up to date: {error}"
        return ""

    def _mend(self, tx: Transaction) -> None:
        names = tx.outdated.every()
        if "" in names or tx.outdated.mark != self._files.stamp():
            self._make_all(tx)
        else:
            days = {day for name in names for day in self._make(tx, name)}
            self._write_days(tx, days)
        tx.outdated.clear()
        tx.outdated.mark = self._files.seal()

    def _make(self, tx: Transaction, task_id: str) -> set[str]:
        """Makes one task's files again; the days of the log that this changes."""
        events, task = story(tx, task_id), tx.tasks.get(task_id)
        if task is None:
            return set()
        wanted = set(self._write(tx, task, events))
        asked = {escalation_id(event) for event in events if isinstance(event, e.EscalationOpened)}
        for kind, name in {(Kind.TASK, task_id), *((Kind.MESSAGE, one) for one in asked)} - wanted:
            self._drop(kind, name)
        return tx.log_lines.put(task_id, log_lines(events))

    def _make_all(self, tx: Transaction) -> None:
        """Makes every file again, and takes away those that nothing in the ledger stands for."""
        tx.log_lines.clear()
        wanted: set[tuple[Kind, str]] = set()
        for name in _on_file(tx):
            events, task = story(tx, name), tx.tasks.get(name)
            if task is not None:
                tx.log_lines.put(name, log_lines(events))
                wanted.update(self._write(tx, task, events))
        days = set(tx.log_lines.days())
        self._write_days(tx, days)
        wanted.update((Kind.LOG, day) for day in days)
        for kind in Kind:
            for name in self._files.names(kind):
                if (kind, name) not in wanted:
                    self._drop(kind, name)

    def _write(self, tx: Transaction, task: Task, events: list[e.Event]) -> Iterator[tuple[Kind, str]]:
        """Writes the pages of a task; says which."""
        asked = task.open_escalation
        if asked is not None and _PLAIN.fullmatch(asked.id):
            question = question_of(tx, self._team(), task, lambda _: events)
            self._files.put(Kind.MESSAGE, asked.id, question_page(question))
            yield Kind.MESSAGE, asked.id
        if (task.feedback or task.escalation) and _PLAIN.fullmatch(task.id):
            self._files.put(Kind.TASK, task.id, task_page(task, events))
            yield Kind.TASK, task.id

    def _write_days(self, tx: Transaction, days: set[str]) -> None:
        for day in sorted(days):
            lines = tx.log_lines.day(day)
            if lines and _PLAIN.fullmatch(day):
                self._files.put(Kind.LOG, day, "".join(f"{line}\n" for line in lines))
            else:
                self._drop(Kind.LOG, day)

    def _drop(self, kind: Kind, name: str) -> None:
        if _PLAIN.fullmatch(name):
            self._files.drop(kind, name)


def _on_file(tx: Transaction) -> list[str]:
    """The tasks that files may tell of."""
    told = (line for line in tx.events.lines() if _TELLING.search(line))
    return sorted({e.subject(codec.recall(line)) for line in told} - {""})
