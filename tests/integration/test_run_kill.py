"""Holds that whatever is killed while agents work, nobody is ever at work twice on a task, and nothing stays behind.

`REMAND_KILLS=25` asks for another number of kills than the campaign's.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import SIZE
from tests.integration.agent_launchers import eventually
from tests.integration.machine import REMAND, Machine
from tests.integration.processes import is_gone
from tests.integration.run_audit import Audit
from tests.integration.sandboxes import marked, sandbox_of
from tests.integration.scripted_agents import GOOD_WORK, Office, Scheduler

pytestmark = pytest.mark.timeout(7200)
EVENTS = 9
"""After how many events of its own a scheduler is killed, at the latest; 0: before it has begun."""
WORKS = 'sleep "0.$((RANDOM % 4))"; [ $((RANDOM % 3)) = 0 ] && echo more >"more.$N"; commit good\n'


def sandbox(tier: str) -> str:
    """How `remand.toml` asks for a tier; skips the test where there is none."""
    if tier == "plain":
        return "off"
    sandbox_of(tier)
    return "required"


@pytest.fixture
def schedulers() -> Iterator[list[Scheduler]]:
    """Those that a test has started; they end with it at the latest."""
    started: list[Scheduler] = []
    yield started
    for one in started:
        one.close()


@pytest.mark.parametrize("tier", ["plain", "bubblewrap"])
def test_a_scheduler_killed_at_any_moment_is_gone_on_from(
    machine: Machine, schedulers: list[Scheduler], campaign: Callable[[int, int], int], tier: str
) -> None:
    kills = int(os.environ.get("REMAND_KILLS", "0")) or campaign(2, 100)
    print(f"{kills} kills, {tier}")
    team = dict.fromkeys(("Alice", "Bob", "Carol"), WORKS)
    waiting = "max_waiting_reviews = 10000\nmax_faults = 50"
    office = Office(machine, team, gates=GOOD_WORK, policy=waiting, sandbox=sandbox(tier))
    chance = random.Random(kills)
    tasks = [office.add(f"Task {number}") for number in range(3)]
    for number in range(kills):
        written = len(office.events()) + (number % 10 and chance.randint(1, EVENTS))
        schedulers.append(Scheduler(office))
        office.until(lambda enough=written: has_written(office, enough, tasks), f"{written} events")
        time.sleep(chance.random() ** 2)
        schedulers[-1].kill()
        tasks.append(office.add(f"Task {len(tasks)}"))
    scheduler = Scheduler(office)
    schedulers.append(scheduler)

    for task in tasks:
        office.approve(task)
    office.check_worktrees()
    scheduler.stop()
    check_all_is_well(office, machine)
    assert set(Audit(office.events()).statuses.values()) == {"done"}
    lost = Audit(office.events()).ends["lost"]
    print(f"{lost} runs were lost, {len(tasks)} tasks are done")


def has_written(office: Office, enough: int, tasks: list[str]) -> bool:
    """True when so many events are there, or all work is handed in and no more will come."""
    events = office.events()
    handed_in = {event["task_id"] for event in events if event["event"] == "task.submit"}
    return len(events) >= enough or handed_in >= set(tasks)


def check_all_is_well(office: Office, machine: Machine) -> None:
    """Holds what must hold when everything has come to its end."""
    audit = Audit(office.events())
    assert audit.broken == []
    assert audit.open_runs == []
    assert not any(one.get("is_fault") for one in office.events("run.end") if one["how"] == "lost")
    eventually(lambda: marked(str(machine.folder)) == [])
    sockets = [path for path in machine.runtime.glob("remand/*/*") if path.is_socket()]
    assert sockets == [], "the socket of an agent"
    office.check()


def test_what_a_killed_scheduler_has_started_ends_with_it(
    machine: Machine, schedulers: list[Scheduler]
) -> None:
    """Even what ignores every signal, and has left its process group."""
    sandbox("bubblewrap")
    stubborn = "trap '' TERM INT HUP; setsid sleep 1000 & (sleep 1001 &); hang\n"
    office = Office(machine, {"Alice": stubborn}, sandbox="required")
    task = office.add()
    schedulers.append(Scheduler(office))
    office.wait_for_note(f"hangs.{task}.Alice")

    schedulers[-1].kill()

    eventually(lambda: marked(str(machine.folder)) == [])
    eventually(lambda: held_locks(office) == [])


def held_locks(office: Office) -> list[str]:
    """The locks of tasks that some process holds."""
    taken = Path("/proc/locks").read_text()
    return [path.name for path in office.notes.glob("lock.*") if f":{path.stat().st_ino} " in taken]


@pytest.mark.parametrize("tier", ["plain", "bubblewrap"] if SIZE == "full" else ["bubblewrap"])
def test_what_keeps_an_agent_is_killed_and_the_agent_with_it(
    machine: Machine, schedulers: list[Scheduler], tier: str
) -> None:
    script = "if [ $N = 1 ]; then echo half >half.txt; note hangs; sleep 1000; else commit good; fi\n"
    office = Office(machine, {"Alice": script}, sandbox=sandbox(tier))
    task = office.add()
    schedulers.append(Scheduler(office))
    office.wait_for_note(f"hangs.{task}.Alice")

    keeper = keeper_of(schedulers[-1].pid, str(office.scripts))
    os.kill(keeper, signal.SIGKILL)

    assert is_gone(keeper)
    office.wait("task.return", task)
    handed_in = office.wait("task.submit", task)
    assert "half.txt" in office.repository.git("ls-tree", "--name-only", handed_in["commit"]).split()
    assert [one["how"] for one in office.events("run.end", task)] == ["signalled", "exited"]
    schedulers[-1].stop()
    check_all_is_well(office, machine)


def keeper_of(scheduler: int, word: str) -> int:
    """The child of the scheduler that an agent descends from."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and word.encode() in read(entry / "cmdline"):
            below = int(entry.name)
            while (above := parent(below)) not in (0, 1, scheduler):
                below = above
            if above == scheduler and below != scheduler:
                return below
    raise AssertionError("no agent is at work")


def parent(number: int) -> int:
    """The process above one; 0 when it is gone."""
    found = read(Path(f"/proc/{number}/stat")).rpartition(b")")[2].split()
    return int(found[1]) if found else 0


def read(path: Path) -> bytes:
    """What is in a file of a process; nothing when that is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_coordinator_that_is_killed_keeps_nobody_from_work(
    machine: Machine, schedulers: list[Scheduler]
) -> None:
    script = f'until_let; {REMAND} task show "$T" --json >"$NOTES/shown"; commit good\n'
    office = Office(machine, {"Alice": script})
    first, second = office.add("First"), office.add("Second")
    schedulers.append(Scheduler(office))
    office.wait_for_note(f"waits.{first}.Alice")
    (coordinator,) = (
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        and b"serve\0--no-http" in read(entry / "cmdline")
        and parent(int(entry.name)) == schedulers[-1].pid
    )

    os.kill(coordinator, signal.SIGKILL)
    office.let_go()

    for task in (first, second):
        office.approve(task)
    assert first in office.noted("shown") or second in office.noted("shown")
    office.check_worktrees()
    schedulers[-1].stop()
    check_all_is_well(office, machine)
