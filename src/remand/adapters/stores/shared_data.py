"""Data besides the events that all processes of a ledger share for a while: in PostgreSQL, rows; else one value."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from remand.domain.instant import Instant
from remand.domain.record import NamedTuple

CHUNK = 1 << 20
"""Largest size of a row in bytes."""

TABLE = """
CREATE TABLE shared(
    kind TEXT NOT NULL, name TEXT NOT NULL, part BIGINT NOT NULL, owner TEXT NOT NULL, until TEXT NOT NULL,
    data BYTEA NOT NULL, PRIMARY KEY (kind, name, part)
);
CREATE INDEX shared_owner ON shared(kind, owner);
"""
_DROP_OVER = "DELETE FROM shared WHERE kind = %s AND until <= %s"
_DROP_OLDEST = """
DELETE FROM shared WHERE kind = %s AND name IN (
    SELECT name FROM shared WHERE kind = %s AND owner = %s AND part = 0 ORDER BY until DESC, name OFFSET %s
)
"""
_DROP = "DELETE FROM shared WHERE kind = %s AND name = %s"
_ADD = "INSERT INTO shared VALUES (%s, %s, %s, %s, %s, %s)"
_GET = "SELECT data FROM shared WHERE kind = %s AND name = %s AND until > %s ORDER BY part"
_DROP_ENDED = """
DELETE FROM shared WHERE kind = %s AND owner IN (SELECT id FROM task WHERE status IN ('done', 'cancelled', 'infeasible'))
"""


class PostgresSharedData:
    """Rows in a table of their own, in chunks."""

    def __init__(self, connection: Callable[[], AbstractContextManager[Any]]) -> None:
        self._connection = connection

    def put(
        self, kind: str, name: str, data: bytes, *, owner: str, until: Instant, now: Instant, most: int
    ) -> None:
        chunks = [data[start : start + CHUNK] for start in range(0, max(len(data), 1), CHUNK)]
        with self._connection() as connection, connection.transaction():
            # A concurrent writer of the same key waits here, and replaces it.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{kind} {owner}",))
            connection.execute(_DROP_OVER, (kind, now))
            connection.execute(_DROP, (kind, name))
            connection.execute(_DROP_OLDEST, (kind, kind, owner, most - 1))
            for part, chunk in enumerate(chunks):
                connection.execute(_ADD, (kind, name, part, owner, until, chunk))

    def get(self, kind: str, name: str, now: Instant) -> bytes | None:
        with self._connection() as connection:
            found = connection.execute(_GET, (kind, name, now)).fetchall()
        return b"".join(bytes(row[0]) for row in found) if found else None

    def drop(self, kind: str, name: str) -> None:
        with self._connection() as connection:
            connection.execute(_DROP, (kind, name))

    def drop_of_ended_tasks(self, kind: str) -> None:
        """Removes the data of tasks that have ended."""
        with self._connection() as connection:
            connection.execute(_DROP_ENDED, (kind,))


class _SharedEntry(NamedTuple):
    owner: str
    until: Instant
    data: bytes


_decode = msgspec.json.Decoder(dict[str, _SharedEntry]).decode


class EmbeddedSharedData:
    """All of it in one value of the embedded ledger: there is little, for the few who log in at one machine."""

    def __init__(self, read: Callable[[str], str], write: Callable[[str, str], None]) -> None:
        self._read = read
        self._write = write

    def put(
        self, kind: str, name: str, data: bytes, *, owner: str, until: Instant, now: Instant, most: int
    ) -> None:
        kept = {key: one for key, one in self._entries(kind).items() if one.until > now and key != name}
        own = sorted(
            (key for key, one in kept.items() if one.owner == owner), key=lambda key: kept[key].until
        )
        for oldest in own[: max(0, len(own) - most + 1)]:
            del kept[oldest]
        self._keep(kind, {**kept, name: _SharedEntry(owner, until, data)})

    def get(self, kind: str, name: str, now: Instant) -> bytes | None:
        found = self._entries(kind).get(name)
        return found.data if found and found.until > now else None

    def drop(self, kind: str, name: str) -> None:
        kept = self._entries(kind)
        if kept.pop(name, None):
            self._keep(kind, kept)

    def drop_of_ended_tasks(self, kind: str) -> None:
        """Does nothing: no task owns any of it."""

    def _entries(self, kind: str) -> dict[str, _SharedEntry]:
        try:
            return _decode(self._read(f"shared {kind}") or "{}")
        except msgspec.MsgspecError:
            return {}

    def _keep(self, kind: str, entries: dict[str, _SharedEntry]) -> None:
        self._write(f"shared {kind}", msgspec.json.encode(entries).decode())
