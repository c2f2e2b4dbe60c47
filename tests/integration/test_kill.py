"""Killed at any point, nothing that was acknowledged is lost, and nothing is doubled when it is repeated."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, end

pytestmark = pytest.mark.timeout(3600)
ROUNDS = 10
"""How often clients are sent out that a slow machine lets do nothing before they are killed."""


def seed_of_the_day() -> int:
    """A seed that is printed, and that the environment may give to find a failure again."""
    seed = int(os.environ.get("REMAND_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"REMAND_SEED={seed}")
    return seed


def journals(folder: Path) -> list[dict[str, Any]]:
    """Everything the clients asked and were answered."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.iterdir()):
        rows += [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    return rows


def keys_in_files(repository: Repository) -> dict[str, list[str]]:
    """The ids of the events in the files by the key they were asked under, read without the product's code."""
    found: dict[str, list[str]] = {}
    for event_id, event in repository.written().items():
        found.setdefault(event["meta"].get("key", ""), []).append(event_id)
    return found


def check_answers(repository: Repository, rows: list[dict[str, Any]]) -> None:
    """Every acknowledged answer is in the log exactly as it was given."""
    broke = [row["broke"] for row in rows if "broke" in row]
    assert broke == [], "a client met something it could not expect"
    in_files = keys_in_files(repository)
    for row in rows:
        if "events" in row:
            assert sorted(in_files.get(row["key"], [])) == sorted(row["events"]), f"{row['key']} → {row}"
        if "refused" in row:
            assert row["key"] not in in_files, f"{row} was refused, and yet written"
    first = {row["key"]: row for row in reversed(rows) if "events" in row}
    again = [row for row in rows if "events" in row and first[row["key"]]["events"] != row["events"]]
    assert again == [], "a repeated key gives the first answer"
    asked = {row["key"] for row in rows if "ask" in row}
    assert set(in_files) - {""} <= asked


def check_state(repository: Repository) -> None:
    """The log is sound, every title is there once, and the files alone lead to the same state."""
    assert repository.verify() == []
    repository.check_log()
    titles = Counter(row["title"] for row in repository.ok("task", "list"))
    assert [title for title, count in titles.items() if count > 1] == []
    before = repository.digest()
    assert repository.ok("log", "rebuild") == {"events": before[1]}
    assert repository.digest() == before, "a rebuild changes nothing"
    repository.forget_ledger()
    assert repository.digest() == before, "the files alone rebuild the same state"
    assert repository.verify() == []
    repository.check_log()


def remove_locks(repository: Repository) -> None:
    """Does what a git that was killed itself asks for."""
    for path in (repository.path / ".git").rglob("*.lock"):
        path.unlink()


def check_branch(machine: Machine, repository: Repository) -> None:
    """What was published can go on: one more publish brings everything to the branch."""
    remove_locks(repository)
    repository.ok("log", "publish")
    rows = repository.git("status", "--porcelain", ".got/events").splitlines()
    # A process killed before it wrote its first line leaves an empty file, which is nothing to publish.
    assert [row for row in rows if (repository.path / row[3:]).stat().st_size] == []
    assert machine.clone(repository, "fresh").digest() == repository.digest()


@pytest.mark.parametrize("mode", ["library", "coordinator"])
def test_no_kill_loses_or_doubles_an_acknowledged_event(
    machine: Machine, campaign: Callable[[int, int], int], mode: str
) -> None:
    seed = seed_of_the_day()
    repository = machine.repository()
    repository.git("tag", "start")
    folder = machine.folder / "journals"
    folder.mkdir()

    rows: list[dict[str, Any]] = []
    for more in range(ROUNDS):
        if sum("events" in row for row in rows) > campaign(3, 300):
            break
        kills = campaign(20, 1000)
        machine.script(
            "killed_clients.py", repository.path, folder, seed + more, kills, 3, mode, timeout=1500
        )
        rows = journals(folder)
    print(Counter(row["answer"] for row in rows if "events" in row or "commit" in row or "code" in row))
    assert sum("events" in row for row in rows) > campaign(3, 300), "the clients came to do something"
    check_answers(repository, rows)
    check_state(repository)
    check_branch(machine, repository)


def test_a_killed_call_of_the_command_line_can_be_repeated(
    repository: Repository, campaign: Callable[[int, int], int]
) -> None:
    chance = random.Random(seed_of_the_day())
    kills = campaign(5, 200)
    for number in range(kills):
        command = [REMAND, "task", "add", f"task {number}", "--key", f"key-{number}", "--json"]
        process = repository.machine.start(repository.path, *command)
        time.sleep(chance.uniform(0.0, 0.25))
        end(process)
        first = repository.ok(*command[1:-1])
        assert repository.ok(*command[1:-1]) == first
    titles = Counter(row["title"] for row in repository.ok("task", "list"))
    assert titles == {f"task {number}": 1 for number in range(kills)}
    check_state(repository)


def test_a_publish_killed_at_any_point_is_made_good_by_the_next(
    machine: Machine, campaign: Callable[[int, int], int]
) -> None:
    chance = random.Random(seed_of_the_day())
    repository = machine.repository()
    for number in range(campaign(4, 150)):
        repository.add(f"task {number}")
        process = machine.start(repository.path, REMAND, "log", "publish")
        time.sleep(chance.uniform(0.1, 0.4))
        (os.kill if chance.random() < 0.5 else os.killpg)(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
        remove_locks(repository)
    check_branch(machine, repository)
    check_state(repository)


CUT = """
import os, signal, sys
write, part = os.write, float(sys.argv.pop(1))

def cut(handle, data):
    if not {"events", "quarantine"} & set(os.readlink(f"/proc/self/fd/{handle}").split("/")):
        return write(handle, data)
    first = data.index(b"\\n") + 1
    write(handle, data[: first if part < 0 else int(len(data) * part)])
    os.kill(os.getpid(), signal.SIGKILL)

os.write = cut
from remand.interfaces.cli.entry import main
main()
"""
"""Runs the command line, which dies when it has written a part of its events; a negative part is the first line."""


@pytest.mark.parametrize("is_new", [False, True], ids=["open segment", "new segment"])
def test_a_command_cut_anywhere_is_whole_or_not_there(
    machine: Machine, campaign: Callable[[int, int], int], is_new: bool
) -> None:
    parts = [-1, 0.4, 0.0, 0.01, 0.6, 0.99, 1.0]
    for part in parts[: campaign(2, len(parts))]:
        check_cut(machine.repository(f"at-{part}"), part, is_new)


def check_cut(repository: Repository, part: float, is_new: bool) -> None:
    """Two commands of several events each, killed within their write and repeated."""
    task, other = repository.add("Guarded"), repository.add("Other")
    repository.ok("task", "claim", task, "--agent", "Alice")
    repository.ok("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
    commit = repository.head()
    reject = ("review", "reject", task, "--commit", commit, "--finding", "a.py:1: no", "--key", "reject")
    add = ("task", "add", "Waits", "--depends-on", task, other, "--key", "add", "--alias", "#1")
    for call in (reject, add):
        if is_new:
            repository.ok("log", "publish")
        process = repository.machine.start(repository.path, sys.executable, "-c", CUT, str(part), *call)
        told = process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL, told
        before = repository.digest()
        assert before[1] in (5, 7, 10), "all of the command's events are there, or none"
        assert repository.verify() == []
        repository.ok(*call)
    assert repository.refused("task", "claim", task, "--agent", "Alice") == "locked_out"
    assert repository.ok("task", "show", "#1")["depends_on"] == [task, other]
    assert repository.digest()[1] == 10
    assert repository.verify() == []
    repository.check_log()
    repository.forget_ledger()
    assert repository.digest()[1] == 10, "the files alone"


@pytest.mark.parametrize("is_new", [False, True], ids=["open segment", "new segment"])
def test_a_large_write_torn_by_a_kill_is_mended(repository: Repository, is_new: bool) -> None:
    if not is_new:
        repository.add("first")
    many = (
        "import sys\nfrom remand.app.requests import Request\nfrom remand.wiring.ledger import open_ledger\n"
        "from remand.domain.commands import AddTask\nledger = open_ledger(sys.argv[1]).ledger\n"
        "asks = [Request(command=AddTask(title='t', scope='x' * 60000), actor='user') for _ in range(300)]\n"
        "print('now', flush=True)\nledger.ask_all(asks)"
    )
    process = repository.machine.start(repository.path, sys.executable, "-c", many, str(repository.path))
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    before = sum(path.stat().st_size for path in repository.segments())
    while process.poll() is None and sum(p.stat().st_size for p in repository.segments()) == before:
        continue
    end(process)
    repository.add("after")
    assert repository.verify() == []
    repository.check_log()
    count = repository.digest()[1]
    repository.forget_ledger()
    assert repository.digest()[1] == count


def test_a_client_that_is_killed_with_the_lock_in_hand_keeps_nobody_waiting(repository: Repository) -> None:
    repository.add()
    holder = (
        "import sys, time; from remand.wiring.ledger import open_ledger\n"
        "with open_ledger(sys.argv[1]).store.write(): print('in', flush=True); time.sleep(1000)"
    )
    process = repository.machine.start(repository.path, sys.executable, "-c", holder, str(repository.path))
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    end(process)
    repository.add("after")
    assert repository.verify() == []
    repository.check_log()


def test_the_end_of_a_process_that_was_waited_for_ends_no_other_with_its_number(machine: Machine) -> None:
    """Numbers are soon used again where tests start thousands of processes: a server of other tests once had such a one."""
    gone, other = (machine.start(machine.folder, "sleep", word) for word in ("0", "1000"))
    gone.wait(PATIENCE)
    gone.pid = other.pid

    end(gone)

    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(0.2)
