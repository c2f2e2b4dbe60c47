"""The private PostgreSQL that tests are given."""

from __future__ import annotations

import psycopg


def test_every_test_has_an_empty_database_of_its_own(database: str) -> None:
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        )
        assert found.fetchone() == (0,)
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
