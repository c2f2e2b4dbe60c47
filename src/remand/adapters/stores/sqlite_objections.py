"""The noes under keys that are not trusted, of an embedded ledger."""

from __future__ import annotations

import json
from collections.abc import Collection

import msgspec

from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_statements import Statements
from remand.domain.task import Task
from remand.ledger.objections import KeptObjection

_decode = msgspec.json.Decoder(Task).decode


class SqliteObjections:
    """The noes under keys that are not trusted."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    def tasks(self) -> list[Task]:
        """The tasks that have some and have not ended."""
        return [_decode(state) for (state,) in self._db.all(sql.TASKS_WITH_OBJECTIONS)]

    def keys(self, task_id: str) -> list[KeptObjection]:
        """The keys that object to a task."""
        return [KeptObjection(*row) for row in self._db.all(sql.OBJECTING_KEYS, (task_id,))]

    def of_task(self, task_id: str, *, works: Collection[str] = (), signer: str = "") -> list[KeptObjection]:
        """A task's, one for each key and work."""
        if works:
            rows = self._db.all(sql.OBJECTIONS_TO_WORKS, (task_id, json.dumps(sorted(works)), signer))
        else:
            rows = self._db.all(sql.OBJECTIONS_OF_KEY, (task_id, signer))
        return [KeptObjection(*row) for row in rows]

    def line(self, place: int) -> bytes:
        """The line of the event that is kept there."""
        found: bytes = self._db.value(sql.LINE_AT, (place,)) or b""
        return found
