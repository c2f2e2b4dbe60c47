"""PostgreSQL for tests: a private server for each test process, an empty database for each test.

Where no PostgreSQL is installed these tests are skipped, and in CI, where nothing is skipped, they fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from remand.testing import postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a private server, as a client wants it: its `host=… user=… dbname=…`."""
    with postgres.server() as address:
        if not address:
            pytest.skip(
                "There is no PostgreSQL (Debian: apt install postgresql; elsewhere: requirements/postgres.txt), and the test needs a server."
            )
        yield address


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    """An empty database of its own, as a URL; it is thrown away after the test."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="module")
def shared_database(postgres_server: str) -> Iterator[str]:
    """A database for all tests of a module, which is faster; `empty_ledger` takes away what one has left in it."""
    with new_database(postgres_server) as url:
        yield url


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """A database for a while."""
    import psycopg  # here, because most tests need none

    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'".encode())
        try:
            yield f"postgresql://postgres@/{name}?host={connection.info.host}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def empty_ledger(url: str) -> None:
    """Empties the tables of a ledger, should there be any."""
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'remand' AND tablename != 'status_count'"
        ).fetchall()  # the count of tasks follows the tasks
        for (table,) in rows:
            kept = " WHERE key != 'version'" if table == "ledger" else ""
            connection.execute(f"DELETE FROM remand.{table}{kept}".encode())


def stored_lines(url: str) -> list[bytes]:
    """The lines of a ledger, groups first, read without any of the product's own code; none where there are no tables."""
    import psycopg

    with psycopg.connect(url) as connection:
        if connection.execute("SELECT to_regclass('remand.event')").fetchone() == (None,):
            return []
        rows = connection.execute(
            "SELECT line FROM remand.signed_group UNION ALL SELECT line FROM remand.event"
        )
        return [bytes(row[0]) for row in rows]
