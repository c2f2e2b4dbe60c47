"""A fresh ledger reads its event files however long that takes, and goes on where a killed process was."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.integration.machine import PATIENCE, Machine, Repository

SLOW = """
import os, signal, time
from remand.adapters.stores.sqlite import SqliteStore
from remand.app import ledger
from remand.app.events import intake
from remand.interfaces.cli import main as cli
from remand.interfaces.cli.entry import main
intake._BATCH, ledger.PART_BYTES, cli.LOCK_TIMEOUT_SECONDS = 2, 1, 3
batches, note = [0], SqliteStore.note_progress

def note_slowly(store, text):
    batches[0] += 1
    if batches[0] == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep({pause})
    note(store, text)

SqliteStore.note_progress = note_slowly
main()
"""
TASKS = 12


@pytest.fixture
def fresh(machine: Machine) -> Repository:
    """A repository with event files, and no ledger any more."""
    repository = machine.repository()
    for number in range(TASKS):
        repository.add(f"Roof {number}")
    repository.digest_before = repository.digest()  # type: ignore[attr-defined]  # for the tests of this module
    repository.forget_ledger()
    return repository


def slow_call(
    repository: Repository, *arguments: str, last: int = 0, pause: float = 0.0
) -> subprocess.Popen[str]:
    """A call that reads a few lines at a time, waits three seconds for locks, and may be killed with one of its batches."""
    code = SLOW.format(last=last, pause=pause)
    return repository.machine.start(repository.path, sys.executable, "-c", code, *arguments)


@pytest.mark.parametrize("last", [1, 5, 9])
def test_killed_while_it_reads_it_goes_on_and_has_the_same_state(fresh: Repository, last: int) -> None:
    killed = slow_call(fresh, "task", "list", "--json", last=last)
    killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL

    assert len(fresh.ok("task", "list")) == TASKS
    assert fresh.digest() == fresh.digest_before  # type: ignore[attr-defined]  # set by the fixture
    assert fresh.verify() == []


def test_a_read_that_takes_longer_than_a_lock_is_waited_for_succeeds_and_so_does_who_waits(
    fresh: Repository,
) -> None:
    calls = [slow_call(fresh, "task", "list", "--json", pause=0.5) for _ in range(2)]

    for call in calls:
        out, err = call.communicate(timeout=PATIENCE)
        assert call.returncode == 0, (out, err)
        assert out.count('"Roof ') == TASKS
    assert fresh.digest() == fresh.digest_before  # type: ignore[attr-defined]  # set by the fixture
