"""A team's ledger comes back from a dump of its database alone, and from its log alone."""

from __future__ import annotations

import os
import subprocess
from uuid import uuid4

import pytest

from remand.testing import postgres
from tests.integration.machine import PATIENCE, Machine, Repository
from tests.integration.test_key_lifecycle import key_of

CONFIG = '[project]\nid = "0123456789abcdef"\n\n[gates]\n'


def run_postgres(program: str, *arguments: str) -> None:
    """Runs one of PostgreSQL's own programs."""
    path = os.path.join(postgres.find_programs(), program)
    subprocess.run([path, *arguments], check=True, capture_output=True, timeout=PATIENCE)


def new_database(database: str) -> str:
    """Another empty database on the same server."""
    name = f"restored_{uuid4().hex[:12]}"
    run_postgres(
        "psql", "--quiet", "--dbname", database, "--command", f"CREATE DATABASE {name} TEMPLATE template0"
    )
    before, _, options = database.partition("?")
    return f"{before.rpartition('/')[0]}/{name}?{options}"


def worked_on(repository: Repository, store: dict[str, str]) -> str:
    """A ledger with a task that was handed in, and one that waits; returns the first one's id."""
    task = str(repository.ok("task", "add", "Mend the roof", env=store)["task_id"])
    repository.ok("task", "add", "Paint it", env=store)
    repository.ok("task", "claim", task, "--agent", "Alice", env=store)
    repository.git("switch", "-q", "-c", "roof")
    commit = repository.commit()
    repository.ok("task", "submit", task, "--agent", "Alice", "--commit", commit, env=store)
    repository.git("switch", "-q", "main")
    return task


@pytest.mark.more
def test_a_dump_of_the_database_is_enough(machine: Machine, database: str) -> None:
    repository = machine.repository(config=CONFIG)
    store = {"REMAND_STORE": database}
    task = worked_on(repository, store)
    before = repository.ok("log", "digest", env=store)
    dump = str(machine.folder / "remand.dump")
    run_postgres("pg_dump", "--format=custom", f"--file={dump}", database)

    restored = {"REMAND_STORE": new_database(database)}
    run_postgres("pg_restore", "--no-owner", f"--dbname={restored['REMAND_STORE']}", dump)

    assert repository.ok("log", "digest", env=restored) == before
    assert repository.ok("log", "verify", env=restored)["ok"]
    commit = repository.head("roof")
    approved = repository.ok("review", "approve", task, "--commit", commit, env=restored)
    assert approved["status"] == "done"
    assert repository.ok("log", "verify", env=restored)["ok"]


@pytest.mark.more
def test_the_published_log_is_enough(machine: Machine, database: str) -> None:
    """A machine that has a clone and a trusted key, and nothing else, brings the ledger back, into an empty database."""
    repository, other, stranger = machine.repository(), Machine(), Machine()
    repository.configure(
        f'[project]\nid = "0123456789abcdef"\n\n[keys]\ntrusted = ["{key_of(machine)}", "{key_of(other)}"]\n\n[gates]\n'
    )
    store = {"REMAND_STORE": database}
    task = worked_on(repository, store)
    repository.ok("log", "publish", env=store)
    before = repository.ok("log", "digest", env=store)

    try:
        unlisted = stranger.clone(repository, "clone")
        refused = unlisted.call("log", "move", "--to", new_database(database))
        assert (refused.code, refused.data["refused"]) == (3, "key_not_trusted"), refused
        clone = other.clone(repository, "clone")
        clone.git("fetch", "-q", "origin", "roof:roof")
        assert clone.ok("log", "digest") == before
        restored = {"REMAND_STORE": new_database(database)}
        moved = clone.call("log", "move", "--to", restored["REMAND_STORE"])
        assert moved.code == 0, moved
        after = clone.call("log", "digest", env=restored).data
        assert (moved.data["old_digest"], after["events"]) == (after["digest"], before["events"] + 2)
        shown = clone.call("task", "show", task, env=restored)
        assert (shown.data["status"], shown.data["submission"]["agent"]) == ("provisional", "Alice")
    finally:
        other.close()
        stranger.close()
