"""PostgreSQL for tests: a private server for each test process, an empty database for each test.

Where no PostgreSQL is installed these tests are skipped, and in CI, where nothing is skipped, they fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from remand.testing import postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a private server, as a client wants it: its `host=… user=… dbname=…`."""
    with postgres.server() as address:
        if not address:
            pytest.skip(
                "No PostgreSQL is installed (Debian: apt install postgresql), and the test needs a server of its own."
            )
        yield address


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    """An empty database of its own, as a URL; it is thrown away after the test."""
    import psycopg  # here, because most tests need none

    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'".encode())
        try:
            yield f"postgresql://postgres@/{name}?host={connection.info.host}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
