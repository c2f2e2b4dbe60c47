"""The tables that the embedded ledger derives from its events: tasks, names, rejected tasks, the queue, and dependencies."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_queue import SqliteDependencies, SqliteQueue, decode_task, read_tasks
from remand.adapters.stores.sqlite_schema import Row, Statements, Table
from remand.app.tasks import queue
from remand.app.tasks.lookup import may_have_new_participants, participants
from remand.app.tasks.similarity import all_words_of, best_matches, was_rejected
from remand.domain.access.team import lookup_keys, name_key
from remand.domain.decisions.forge_actions import due_kinds
from remand.domain.instant import Instant
from remand.domain.task import TERMINAL, Status, Task
from remand.ledger.store import LogLine, TaskFilter, TaskOutline, TaskPages

_MANY = 10_000
_SECOND = len("H-20261115-090000-")
_WITH_AGENT = (Status.CLAIMED.value, Status.PROVISIONAL.value)
"""The statuses in which an agent holds a task."""
_CLAIMED = Status.CLAIMED
_STATUS_MARKS = dict.fromkeys((Status.ESCALATED, Status.BLOCKED), sql.WAITING)
"""The statuses in which a person has to decide about a task. Few others may wait for one."""
_NO_GATES = Task(id="", title="").gates
_encoder = msgspec.json.Encoder()
_decode_outline = msgspec.json.Decoder(TaskOutline).decode


def _encode_task(task: Task) -> str:
    return _encoder.encode(task).decode()


def state_marks(task: Task) -> int:
    """The flags for a task's row, by which it is found."""
    marks = _STATUS_MARKS.get(task.status, 0)
    gates = task.gates
    if gates is not _NO_GATES:
        if gates.outages:
            marks |= sql.OUTAGES
        if (gates.held or gates.progress.alert) and task.status is _CLAIMED:
            marks |= sql.WAITING
    if task.runs:
        marks |= sql.RUNS
    if task.reviews.rounds:
        marks |= sql.ROUNDS
    if task.submission:
        marks |= sql.SUBMISSION
    if task.pr:
        marks |= sql.PULL_REQUEST
    return marks


def search_row(task: Task) -> tuple[str, str, str]:
    """A task's row for text search: its names in lower case, and each skill on a line."""
    text = "\n".join((task.id, task.title, *task.details.aliases)).casefold()
    return task.id, text, "".join(f"\n{skill}\n" for skill in task.details.skills)


class SqliteNames(Table):
    """Tasks and people by names other than their ids."""

    def __init__(
        self,
        statements: Statements,
        new_handoffs: Mapping[str, str] | None = None,
        recent_handoffs: set[str] | None = None,
    ) -> None:
        super().__init__(statements)
        self._with_key: dict[str, list[str]] = {}
        self._new_handoffs = {} if new_handoffs is None else new_handoffs
        self._recent_handoffs = set[str]() if recent_handoffs is None else recent_handoffs
        self._second = ""
        self._noted: set[str] = set()
        """Names that are in the table."""

    def find_task_id(self, name: str) -> str:
        task: str | None = self._db.value(sql.NAMED if "#" in name else sql.HANDED, (name,))
        return task or self._new_handoffs.get(name, "")

    def ids_with_end(self, end: str, *, are_handoffs: bool = False) -> list[str]:
        return self._db.column(sql.HANDOFFS_WITH_END if are_handoffs else sql.TASKS_WITH_END, (end,))

    def find_submitted(self, commit: str, pr: int) -> list[Task]:
        found = read_tasks(self._db, sql.HANDED_IN, (commit, pr or None))
        return sorted(found, key=lambda task: task.id)

    def names_with_key(self, key: str) -> list[str]:
        found = self._with_key.get(key)
        if found is None:
            if len(self._with_key) >= _MANY:
                self._with_key.clear()
            found = self._with_key[key] = self._db.column(sql.NAMES_WITH_KEY, (key,))
        return found

    def note(self, names: Collection[str]) -> None:
        """Adds new names. Computes the look-up keys only for those."""
        if self._noted.issuperset(names):
            return
        new = set(names) - self._noted
        self._noted |= new
        for name in new:
            if name and name not in self.names_with_key(name_key(name)):
                self._db.run_many(sql.ADD_NAME, ((key, name) for key in lookup_keys(name)))
                self._with_key.clear()

    def is_new_handoff(self, name: str) -> bool:
        """Reads the handoffs of a second only once: an id begins with the second it was made in."""
        second, recent = name[:_SECOND], self._recent_handoffs
        if second != self._second:
            recent.clear()
            recent.update(self._db.column(sql.HANDOFFS_BETWEEN, (second, f"{second}~")), self._new_handoffs)
            self._second = second
        if name in recent:
            return False
        recent.add(name)
        return True

    def forget_names(self) -> None:
        """Clears the caches of names and handoffs, because their tables were emptied."""
        self._with_key.clear()
        self._noted.clear()
        self._second = ""


class SqliteRejected(Table):
    """A full-text index over the words of rejected tasks only, so that other tasks cost nothing.

    The words come from `app/words`. A table beside it has the number of tasks for each word, which the index
    could count but not look up; the empty word counts all tasks.
    """

    def count(self) -> int:
        count: int | None = self._db.value(sql.COUNT_REJECTED)
        return count or 0

    def counts(self, words: Iterable[str]) -> dict[str, int]:
        return dict(self._db.all(sql.WORD_COUNTS, (json.dumps(list(words)),)))

    def most_similar(self, weights: Mapping[str, float], most: int) -> list[Task]:
        numbers = best_matches(weights, self.counts(weights), self._tasks_with_word, most)
        states = (self._db.value(sql.TASK_AT, (n,)) for n in numbers)
        return [decode_task(state) for state in states if state is not None]

    def _tasks_with_word(self, word: str, most: int) -> Iterable[int]:
        return [n for (n,) in self._db.all(sql.HAVING_WORD, (f'"{word}"', most))]

    def follow(self, before: Task | None, task: Task) -> None:
        """Updates the index for a task that has changed."""
        old = before if before is not None and was_rejected(before) else None
        new = task if was_rejected(task) else None
        if old is new or (old and new and (old.title, old.details.scope) == (new.title, new.details.scope)):
            return
        n: int = self._db.value(sql.NUMBER_OF_TASK, (task.id,))
        if old:
            self._db.run(sql.DROP_REJECTED, (n,))
            self._db.run_many(sql.DROP_WORD, ((word,) for word in ("", *all_words_of(old))))
        if new:
            words = all_words_of(new)
            self._db.run(sql.ADD_REJECTED, (n, " ".join(words)))
            self._db.run_many(sql.ADD_WORD, ((word,) for word in ("", *words)))

    def replace_all(self, tasks: Iterable[tuple[int, Task]]) -> None:
        self._db.run(sql.DROP_ALL_REJECTED)
        self._db.run(sql.DROP_ALL_WORDS)
        self._db.run_many(
            sql.ADD_REJECTED,
            ((n, " ".join(all_words_of(task))) for n, task in tasks if was_rejected(task)),
        )
        self._db.run(sql.COUNT_ALL_WORDS)


class SqliteTaskPages(Table):
    """Pages of tasks for people, read from the indexes on the task table and from the search texts."""

    def outlines(self) -> Iterator[TaskOutline]:
        return (_decode_outline(row[0]) for row in self._db.rows(sql.EVERY_TASK))

    def waiting_tasks(self) -> list[Task]:
        return read_tasks(self._db, sql.WAITING_TASKS)

    def page(self, wanted: TaskFilter, most: int, after: str = "") -> list[Task]:
        text, skill = wanted.text.casefold(), f"\n{wanted.skill}\n" if wanted.skill else ""
        if wanted.agent:
            statuses: Sequence[str] = [one for one in _WITH_AGENT if one in (wanted.statuses or _WITH_AGENT)]
            return self._merge(sql.FOUND_OF_AGENT, statuses, most, after, text, skill, wanted.agent)
        if not text and not skill:
            if not wanted.statuses:
                return read_tasks(self._db, sql.PAGE, (after, most))
            return self._merge(sql.PAGE_OF_STATUS, wanted.statuses, most, after)
        if not wanted.statuses:
            return read_tasks(self._db, sql.FOUND, (after, most, "", text, skill))
        counts = {status: self._db.value(sql.COUNT_STATUS, (status,)) for status in wanted.statuses}
        many = [status for status, count in counts.items() if count > _MANY]
        few = [status for status in wanted.statuses if status not in many]
        found = self._merge(sql.FOUND, many, most, after, text, skill)
        found += self._merge(sql.FOUND_OF_STATUS, few, most, after, text, skill)
        return sorted(found, key=lambda task: task.id)[: most if most >= 0 else None]

    def _merge(
        self, statement: str, statuses: Sequence[str], most: int, after: str, *more: str
    ) -> list[Task]:
        """The first tasks with these statuses by id. Merges one index range for each status, so that little is read."""
        found = [
            task
            for status in dict.fromkeys(statuses)
            for task in read_tasks(self._db, statement, (after, most, status, *more))
        ]
        return sorted(found, key=lambda task: task.id)[: most if most >= 0 else None]


class SqliteTaskLists(Table):
    """The tasks that need attention, read from the indexes on the task table."""

    def __init__(self, statements: Statements) -> None:
        super().__init__(statements)
        self.pages: TaskPages = SqliteTaskPages(statements)

    def with_status(self, status: Status, most: int = -1) -> list[Task]:
        return read_tasks(self._db, sql.WITH_STATUS, (status.value, most))

    def running_tasks(self) -> list[Task]:
        return read_tasks(self._db, sql.RUNNING)

    def rejected_in_review(self) -> list[Task]:
        return read_tasks(self._db, sql.SENT_BACK)

    def with_outages(self) -> list[Task]:
        return read_tasks(self._db, sql.WITH_OUTAGES)

    def with_due(self, names: Collection[str]) -> list[Task]:
        return read_tasks(self._db, sql.WITH_ERRAND, (json.dumps(sorted(names)),))


WaitingRow = tuple[Task, Instant | None, str | None, str | None, str]
"""A task whose row is to be written: due time, rank, line and barred agents."""


def _row_values(row: WaitingRow) -> Row:
    task, due, rank, line, barred = row
    return (task.id, task.status._value_, due, rank, line, barred, _encode_task(task), state_marks(task))


class SqliteTasks(Table):
    """The task table and the tables that follow from it."""

    def __init__(
        self,
        statements: Statements,
        names: SqliteNames,
        waiting: SqliteDependencies,
        rejected: SqliteRejected,
        ready: SqliteQueue,
    ) -> None:
        super().__init__(statements)
        self._waiting, self._rejected, self._names, self._queue = waiting, rejected, names, ready
        self._loaded: dict[str, Task | None] = {}
        self._new_rows: dict[str, WaitingRow] = {}
        self._changed_rows: dict[str, WaitingRow] = {}
        """Rows that wait until a query depends on them, or the change ends."""
        self._texts: dict[str, Row] = {}

    def get(self, task_id: str) -> Task | None:
        if task_id not in self._loaded:
            if len(self._loaded) >= _MANY:
                self._db.settle()
                self._loaded.clear()
            state = self._read_state(task_id)
            self._loaded[task_id] = None if state is None else decode_task(state)
        return self._loaded[task_id]

    def _read_state(self, task_id: str) -> Any:
        return self._db.value(sql.GET_TASK, (task_id,))

    def put(self, task: Task) -> None:
        before = self.get(task.id)
        self._loaded[task.id] = task
        has_turned = before is not None and (before.status in TERMINAL) != (task.status in TERMINAL)
        waiters: list[str] = []
        if (before is None or has_turned) and self._db.value(sql.NODE_OF_TASK, (task.id,)):
            waiters = self._db.column(sql.WAITING_FOR, (task.id,))
            if before is None:
                # Others may have waited for it before it existed, even if nobody waits for it any more.
                self._write(sql.ADD_TASK, task, None)
                self._db.run(sql.PLACE_NODE, (task.id,))
        elif before is None:
            self._write(sql.ADD_TASK, task, None)
        if before is None or task.links is not before.links:
            blockers = before.blockers if before else ()
            own = task.blockers
            if own != blockers or (before is None and waiters):
                self._link(task, blockers, waiters if before is None else [])
            if before is None and own:
                self._write(sql.CHANGE_TASK, task, task)
        if before is not None:
            self._write(sql.CHANGE_TASK, task, before)
        if before is None or task.details is not before.details or task.title != before.title:
            self._describe(before, task)
        elif task.rejections is not before.rejections or task.reviews is not before.reviews:
            self._rejected.follow(before, task)
        self._send(task, due_kinds(before) if before else ())
        if before is None or may_have_new_participants(before, task):
            self._names.note(participants(task))
        self._stand_again(waiters)
        if has_turned and (not self._has_place(task, waiters) or self._db.value(sql.HAS_VOID)):
            # A dependency that was void because of a cycle may be valid now.
            self._reorder_all()

    def _write(self, statement: str, task: Task, before: Task | None) -> None:
        """Writes a task's row; `before` is the task as last written, if there was one."""
        links = task.links
        has_blockers = links.depends_on or links.waits_for or links.children
        blockers = self._db.column(sql.OPEN_BLOCKERS, (task.id,)) if has_blockers else ()
        rank = queue.queue_rank(task, blockers)
        has_barred = before is not None and queue.bars_agents(before)
        if has_barred:
            self._set_openings(task.id, is_there=False)
        line, barred = (None, "") if rank is None else queue.agent_pool(task)
        due = queue.due_time(task, blockers)
        self._queue.follow(task.id, rank, line, barred, due)
        row = (task, due, rank, line, barred)
        if barred or has_barred:
            self._write_row(statement, row)
        else:
            self._keep_row(statement, row)
        if barred:
            self._set_openings(task.id, is_there=True)

    def _keep_row(self, statement: str, row: WaitingRow) -> None:
        """Queues a row."""
        name = row[0].id
        if statement is sql.CHANGE_TASK and name not in self._new_rows:
            self._changed_rows[name] = row
        else:
            self._new_rows[name] = row
        self._db.keep_tasks = self._keep_rows

    def _keep_text(self, row: tuple[str, str, str]) -> None:
        """Queues a row of texts."""
        self._texts[row[0]] = row
        self._db.keep_tasks = self._keep_rows

    def _write_row(self, statement: str, row: WaitingRow) -> None:
        """Writes a row at once: one that bars agents, since its place among others is asked for."""
        if statement is sql.ADD_TASK or row[0].id in self._new_rows or row[0].id in self._changed_rows:
            self._db.settle()
        self._db.run(statement, _row_values(row))

    def _keep_rows(self) -> None:
        new, self._new_rows = self._new_rows, {}
        changed, self._changed_rows = self._changed_rows, {}
        texts, self._texts = self._texts, {}
        if texts:
            self._db.run_many(sql.PUT_TEXT, texts.values())
        if new:
            self._db.run_many(sql.ADD_TASK, map(_row_values, new.values()))
        if changed:
            self._db.run_many(sql.CHANGE_TASK, map(_row_values, changed.values()))

    def _set_openings(self, task_id: str, *, is_there: bool) -> None:
        """Updates the openings at a task and behind it, before it leaves its line or after it joins one."""
        found = self._db.row(sql.PLACE_IN_LINE, (task_id,))
        if found is None:
            return
        line, rank, own_agents, agents_before, behind, agents_behind = found
        own, before = queue.barred_agents(own_agents), queue.barred_agents(agents_before or "")
        with_it, without = set(queue.openings_at(line, rank, before, own)), set[queue.OpeningRow]()
        if behind:
            barred = queue.barred_agents(agents_behind)
            with_it |= set(queue.openings_at(line, behind, own, barred))
            without |= set(queue.openings_at(line, behind, before, barred))
        old, new = (without, with_it) if is_there else (with_it, without)
        for statement, rows in ((sql.DROP_OPENING, old - new), (sql.ADD_OPENING, new - old)):
            if rows:
                self._db.run_many(statement, rows)

    def _link(self, task: Task, before: tuple[str, ...], waiters: list[str]) -> None:
        """Writes what the task waits for. Others may have waited for a new task before it existed."""
        for gone in set(before) - set(task.blockers):
            self._db.run(sql.DROP_BLOCKER, (task.id, gone))
        self._db.run_many(sql.ADD_NODE, ((name,) for name in (task.id, *task.blockers)))
        has_room = True
        for new in task.blockers:
            if new not in before:
                has_room &= self._has_room(task.id, new)
                self._db.run(sql.ADD_BLOCKER, (task.id, new, False))
        for waiter in waiters:
            has_room &= self._has_room(waiter, task.id)
        if not has_room or self._db.value(sql.HAS_VOID):
            self._reorder_all()

    def _has_room(self, waiter: str, blocker: str) -> bool:
        """Adds a dependency to the order; False if it closes a cycle."""
        nodes = self._waiting.nodes((waiter, blocker))
        return queue.place_dependency(self._waiting, nodes[waiter], nodes[blocker])

    def _has_place(self, task: Task, waiters: list[str]) -> bool:
        """Reinserts a task behind what it waits for; False if one of its dependencies closes a cycle."""
        self._db.run(sql.PLACE_NODE, (task.id,))
        if task.is_terminal:
            return True
        nodes = self._waiting.nodes((task.id, *task.blockers))
        own = nodes.pop(task.id, 0)
        blockers = self._waiting.positions(nodes.values())
        if blockers:
            self._waiting.move({own: max(blockers.values()) + queue.SPACING // 2})
        return all(self._has_room(waiter, task.id) for waiter in waiters)

    def _reorder_all(self) -> None:
        """Orders everything, so that the same dependencies are void in whatever order they came. Rare: after a merge."""
        tasks = {task.id: task for task in self.every()} | {
            name: task for name, task in self._loaded.items() if task
        }
        order, void = queue.topological_order(queue.open_blockers(tasks))
        self._db.run_many(sql.SET_POSITION_OF_TASK, _positions(order, tasks).items())
        was_void = set(map(tuple, self._db.all(sql.VOID)))
        changed = was_void ^ void
        self._db.run_many(sql.SET_VOID, ((*pair, pair in void) for pair in changed))
        self._stand_again([name for name, _ in changed])

    def _describe(self, before: Task | None, task: Task) -> None:
        """Writes a task's aliases and the texts by which it is found."""
        aliases = before.details.aliases if before else ()
        if aliases != task.details.aliases:
            self._rename(task, aliases)
        if before is None or search_row(before) != search_row(task):
            self._keep_text(search_row(task))
        self._rejected.follow(before, task)

    def _rename(self, task: Task, before: tuple[str, ...]) -> None:
        for alias in before:
            self._db.run(sql.DROP_ALIAS, (alias, task.id))
        for alias in task.details.aliases:
            self._db.run(sql.ADD_ALIAS, (alias, task.id))

    def _send(self, task: Task, before: tuple[str, ...]) -> None:
        """Writes what may be due for a task on the forge."""
        now = due_kinds(task)
        if now == before:
            return
        for gone in set(before) - set(now):
            self._db.run(sql.DROP_ERRAND, (gone, task.id))
        for new in set(now) - set(before):
            self._db.run(sql.ADD_ERRAND, (new, task.id))

    def _stand_again(self, names: list[str]) -> None:
        """Updates tasks' places in the queue after what they wait for has changed."""
        for name in names:
            waiter = self.get(name)
            if waiter is not None:
                self._write(sql.CHANGE_TASK, waiter, waiter)

    def replace_all(self, tasks: Iterable[Task], handoffs: Iterable[tuple[str, str]]) -> None:
        by_id = {task.id: task for task in tasks}
        order, void = queue.topological_order(queue.open_blockers(by_id))
        self._queue.forget()
        for table in sql.READ_MODELS:
            self._db.run(f"DELETE FROM {table}")  # noqa: S608 - fixed names
        self._names.forget_names()
        self._db.run_many(
            sql.BULK_TASK, (task_row(n, by_id[name], by_id, void) for n, name in enumerate(order, 1))
        )
        pairs = [(task.id, blocker) for task in by_id.values() for blocker in dict.fromkeys(task.blockers)]
        places = _positions(order, by_id)
        in_graph = dict.fromkeys(name for pair in pairs for name in pair)
        self._db.run_many(sql.BULK_NODE, ((name, places.get(name)) for name in in_graph))
        self._db.run_many(sql.ADD_BLOCKER, ((*pair, pair in void) for pair in pairs))
        self._db.run_many(
            sql.ADD_ALIAS, ((alias, task.id) for task in by_id.values() for alias in task.details.aliases)
        )
        self._db.run_many(sql.PUT_TEXT, map(search_row, by_id.values()))
        self._db.run_many(sql.ADD_HANDOFF, handoffs)
        self._db.run_many(sql.ADD_OPENING, list(queue.openings(self._db.all(sql.STANDING))))
        self._db.run_many(
            sql.ADD_ERRAND, ((name, task.id) for task in by_id.values() for name in due_kinds(task))
        )
        self._names.note({name for task in by_id.values() for name in participants(task)})
        self._rejected.replace_all((n, by_id[name]) for n, name in enumerate(order, 1))
        self._loaded.clear()

    def every(self) -> Iterator[Task]:
        return (decode_task(row[0]) for row in self._db.rows(sql.EVERY_TASK))

    def statuses(self, names: Collection[str]) -> Mapping[str, str]:
        """The statuses of at least these tasks: many look-ups would take longer than reading all."""
        rows: Iterator[Any] = (
            self._db.rows(sql.ALL_STATUSES)
            if len(names) > _MANY
            else self._db.rows(sql.STATUSES, (json.dumps(list(names)),))
        )
        return dict(rows)


def _positions(order: Iterable[str], tasks: Mapping[str, Task]) -> dict[str, int]:
    """The positions of open tasks, given all tasks in order."""
    still_open = (name for name in order if not tasks[name].is_terminal)
    return {name: place * queue.SPACING for place, name in enumerate(still_open, 1)}


def task_row(n: int, task: Task, by_id: Mapping[str, Task], void: set[tuple[str, str]]) -> tuple[object, ...]:
    blockers = []
    for blocker in task.blockers:
        other = by_id.get(blocker)
        if (other is None or not other.is_terminal) and (task.id, blocker) not in void:
            blockers.append(blocker)
    rank = queue.queue_rank(task, blockers)
    line, barred = (None, "") if rank is None else queue.agent_pool(task)
    due = queue.due_time(task, blockers)
    return (n, task.id, task.status.value, due, rank, line, barred, _encode_task(task), state_marks(task))


class SqliteLogLines(Table):
    """The lines of the orchestration log."""

    def put(self, task_id: str, lines: Sequence[LogLine]) -> set[str]:
        days = set(self._db.column(sql.DAYS_OF_TASK, (task_id,)))
        self._db.run(sql.DROP_LINES, (task_id,))
        self._db.run_many(sql.ADD_LINE, ((task_id, *line) for line in lines))
        return days | {line.place[:10] for line in lines}

    def of_task(self, task_id: str) -> list[LogLine]:
        return [LogLine(*row) for row in self._db.all(sql.LINES_OF_TASK, (task_id,))]

    def day(self, day: str) -> list[str]:
        return self._db.column(sql.LINES_OF_DAY, (day,))

    def days(self) -> list[str]:
        return self._db.column(sql.DAYS)

    def clear(self) -> None:
        self._db.run(sql.DROP_ALL_LINES)
