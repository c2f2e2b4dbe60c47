"""What a claim costs before any rule: the HTTP engine alone, with one row changed, and the least SQL of a claim in groups.

Run as a module it is such an HTTP server, which prints its address as JSON:

    benchmarks.floors constant          answers each request with a constant
    benchmarks.floors row CONNINFO      changes one row for each request, in a transaction of its own
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, cast

import psycopg
import uvicorn
from litestar import Litestar, asgi
from litestar.types import Receive, Scope, Send

from benchmarks import queues as q
from benchmarks.scratch import server_address
from remand.app.group_commit import GroupCommit
from remand.app.ledger import UnsyncedAnswers
from remand.app.requests import Answer, Request
from remand.domain import commands as c
from remand.interfaces.http.server import KEEP_ALIVE_SECONDS, BoundedHttpProtocol
from remand.ledger.store import LedgerHead

CONSTANT, ROW, GROUPS = (
    "floor: HTTP, a constant",
    "floor: HTTP, one row changed",
    "floor: groups, two rows a claim",
)
_PAYLOAD = "x" * 450
"""As long as the line of an event, and about as long as the state of a task."""
_TABLES = """
CREATE TABLE task(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, is_ready BOOLEAN NOT NULL, state TEXT NOT NULL);
CREATE INDEX task_ready ON task(id) WHERE is_ready;
CREATE TABLE event(n BIGINT PRIMARY KEY, task BIGINT NOT NULL, line TEXT NOT NULL);
CREATE INDEX event_task ON event(task);
"""
_FILL = "INSERT INTO task(is_ready, state) SELECT true, $1 FROM generate_series(1, $2)"
_TAKE = "SELECT id, state FROM task WHERE is_ready ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED"
_CHANGE = """
UPDATE task SET is_ready = false, state = new.state
FROM unnest($1::bigint[], $2::text[]) AS new(id, state) WHERE task.id = new.id
"""
_ADD = "INSERT INTO event SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])"
_ONE_ROW = "UPDATE task SET is_ready = false WHERE id = %s RETURNING id"


def make_tables(conninfo: str) -> None:
    """Makes the tables of a floor."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(_TABLES)


class _LeastLedger:
    """Takes tasks in groups as a ledger's claims do, with one task row and one event row each, and decides nothing."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._free: list[psycopg.Connection[Any]] = []
        self._numbers = count(1)

    def decide_all(self, requests: Sequence[Request], on_decided: Callable[[], None]) -> UnsyncedAnswers:
        connection = self._free.pop() if self._free else psycopg.connect(self._conninfo, autocommit=True)
        run = psycopg.RawCursor(connection).execute
        with connection.pipeline():
            run("BEGIN")
            found = run(_TAKE, (len(requests),)).fetchall()
        names = [name for name, _ in found]
        with connection.pipeline():
            run(_CHANGE, (names, [f"{state[:-1]}y" for _, state in found]))
            run(_ADD, ([next(self._numbers) for _ in names], names, [_PAYLOAD] * len(names)))
            on_decided()
            run("COMMIT")
        self._free.append(connection)
        return UnsyncedAnswers([cast("Answer", str(name)) for name in names], None, False)

    def sync(self, head: LedgerHead) -> None:
        """Does nothing: the commit is durable."""

    def update_files(self) -> None:
        """Does nothing: there are none."""

    def close(self) -> None:
        for connection in self._free:
            connection.close()


class GroupClients:
    """Threads that take tasks through the same group commit as a ledger's."""

    def __init__(self, conninfo: str, clients: int) -> None:
        make_tables(conninfo)
        self._conninfo = conninfo
        self._clients = clients
        self._ledger = _LeastLedger(conninfo)
        self._group = GroupCommit(self._ledger)

    def fill(self, number: int) -> None:
        """Adds tasks."""
        fill_rows(self._conninfo, number)

    def claims(self, seconds: float) -> q.Claimed:
        """Takes tasks, in as many threads as there are clients."""
        request = Request(command=c.ClaimTask(agent="a"), actor="a")
        return q.thread_claims(self._clients, seconds, lambda _: str(self._group.ask(request)))

    def close(self) -> None:
        """Closes the connections."""
        self._ledger.close()


def fill_rows(conninfo: str, number: int) -> None:
    """Adds tasks."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        psycopg.RawCursor(connection).execute(_FILL, (_PAYLOAD, number))


@contextmanager
def running_floor(*words: str) -> Iterator[str]:
    """Runs an HTTP server that decides nothing; gives its address."""
    with server_address((sys.executable, "-m", "benchmarks.floors", *words)) as url:
        yield url


def _make_answer(conninfo: str) -> Callable[[], Awaitable[bytes]]:
    numbers = count(1)

    async def constant() -> bytes:
        return b'{"task_id":"%d"}' % next(numbers)

    free: list[psycopg.AsyncConnection[Any]] = []

    async def row() -> bytes:
        one = free.pop() if free else await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
        found = await (await one.execute(_ONE_ROW, (next(numbers),))).fetchone()
        free.append(one)
        return b'{"task_id":"%d"}' % (found or (0,))[0]

    return row if conninfo else constant


def _serve(conninfo: str) -> None:
    make_answer = _make_answer(conninfo)

    async def claim(scope: Scope, receive: Receive, send: Send) -> None:
        while cast("dict[str, Any]", await receive()).get("more_body"):
            pass
        body = await make_answer()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    app = Litestar(
        [asgi("/api/task/claim", copy_scope=False)(claim)], openapi_config=None, logging_config=None
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    config = uvicorn.Config(
        app,
        http=BoundedHttpProtocol,
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    _serve("".join(sys.argv[2:]))
