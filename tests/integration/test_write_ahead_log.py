"""How long SQLite's write-ahead log gets, which every command that runs alone reads from end to end."""

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from remand.adapters.stores.sqlite import SqliteStore

PAGE, LIMIT = 4096, 3
COMMAND = f"""
import os, sys
from remand.adapters.stores import sqlite
sqlite.WAL_PAGES = {LIMIT}
sqlite.SqliteStore(sys.argv[1]).remember("key", sys.argv[2] * {4 * PAGE})
os._exit(0)  # as a command ends
"""


def run_command(ledger: Path, letter: str) -> int:
    """Runs a command that changes some pages; the length of the log after it."""
    subprocess.run([sys.executable, "-I", "-c", COMMAND, ledger, letter], check=True)
    log = ledger.with_name(f"{ledger.name}-wal")
    return log.stat().st_size if log.exists() else 0


def journal_mode(ledger: Path) -> str:
    return str(apsw.Connection(str(ledger)).pragma("journal_mode"))


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_new_ledger_uses_the_log_once_it_has_read_all_files(tmp_path: Path, *, is_killed: bool) -> None:
    ledger = tmp_path / "ledger.db"
    store = SqliteStore(ledger)
    with store.write() as tx:
        tx.files.place = "in the middle of a file"
    assert journal_mode(ledger) == "delete"
    if is_killed:  # another process goes on
        store.close()
        store = SqliteStore(ledger)

    with store.write() as tx:
        tx.files.place = ""
    assert journal_mode(ledger) == "wal"


def test_the_log_of_commands_that_each_run_alone_stays_short(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    SqliteStore(ledger).close()

    lengths = [run_command(ledger, letter) for letter in "abcd"]

    assert max(lengths) <= LIMIT * PAGE, lengths
    assert SqliteStore(ledger).value("key")[:1] == "d"


def test_a_log_that_somebody_reads_is_left_to_them(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    reader = SqliteStore(ledger)
    reader.remember("key", "before")

    with reader.read():
        assert reader.value("key") == "before"
        grown = run_command(ledger, "a")
        assert reader.value("key") == "before", "what it reads does not change under it"

    assert grown > LIMIT * PAGE
    assert reader.value("key")[:1] == "a"
