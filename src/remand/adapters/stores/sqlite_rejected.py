"""The rejected tasks of an embedded ledger, found by their words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import msgspec

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_statements import Statements
from remand.app.similar import richest, was_rejected
from remand.app.words import all_words_of
from remand.domain.task import Task

_decode = msgspec.json.Decoder(Task).decode


class SqliteRejected:
    """A full-text index over the words of rejected tasks alone, so that other tasks cost nothing.

    The words come ready-made from `app/words`. Beside it stands in how many tasks each word is, which the
    index could count but not look up; the empty word stands in each.
    """

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    def count(self) -> int:
        """How many rejected tasks there are."""
        count: int | None = self._db.value(sql.COUNT_REJECTED)
        return count or 0

    def counts(self, words: Iterable[str]) -> dict[str, int]:
        """In how many rejected tasks each word stands; words of none are left out."""
        return dict(self._db.all(sql.WORD_COUNTS, (json.dumps(list(words)),)))

    def sharing(self, weights: Mapping[str, float], most: int) -> list[Task]:
        """The rejected tasks that share the most weight with these words."""
        numbers = richest(weights, self.counts(weights), self._having, most)
        states = (self._db.value(sql.TASK_AT, (n,)) for n in numbers)
        return [_decode(state) for state in states if state is not None]

    def _having(self, word: str, most: int) -> Iterable[int]:
        return [n for (n,) in self._db.all(sql.HAVING_WORD, (f'"{word}"', most))]

    def follow(self, before: Task | None, task: Task) -> None:
        """Brings the index up to date with a task that has changed."""
        old = before if before is not None and was_rejected(before) else None
        new = task if was_rejected(task) else None
        if old is new or (old and new and (old.title, old.scope) == (new.title, new.scope)):
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
        """Makes the index anew; each task comes with its number."""
        self._db.run(sql.DROP_ALL_REJECTED)
        self._db.run(sql.DROP_ALL_WORDS)
        self._db.run_many(
            sql.ADD_REJECTED,
            ((n, " ".join(all_words_of(task))) for n, task in tasks if was_rejected(task)),
        )
        self._db.run(sql.COUNT_ALL_WORDS)
