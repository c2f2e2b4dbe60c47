"""Many processes write to one ledger in PostgreSQL: every event is accepted, whatever befalls the database."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remand.domain.decide import RULES
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import AnswerRetracted
from remand.domain.evolve import evolve, replay
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.order import order_key
from remand.ledger.signatures import is_group
from tests.integration.machine import HERE, PATIENCE, Machine, Repository, wait_for
from tests.integration.shared_writers import COMMITS
from tests.support.log_check import log_faults
from tests.support.postgres import stored_lines
from tests.support.postgres_faults import CrashableServer, CuttingProxy, crashable_server

pytestmark = pytest.mark.timeout(7200)
WRITERS = 8
MEMBERS = {
    **dict.fromkeys(("Alice", "Bob", "Carol", "Dave"), "agent"),
    "Lea": "lead",
    "Tess": "tester",
    "Dir": "director",
}
ROWS = ", ".join(f'{{name = "{name}", role = "{role}"}}' for name, role in MEMBERS.items())
CONFIG = f"[gates]\n[team]\nmembers = [{ROWS}, {{name = 'owner', role = 'user', aliases = ['user']}}]\n"
BETWEEN = 4000
"""How much is written into the journals before anything befalls the database again: some dozens of answers."""
Campaign = Callable[[int, int], int]


class Office:
    """A repository, a ledger in a database, and the journals of those who write to it."""

    def __init__(self, machine: Machine, database: str) -> None:
        self.machine = machine
        self.repository: Repository = machine.repository(config=CONFIG)
        self.database = database
        self._make_commits()
        self.journals = machine.folder / "journals"
        self.journals.mkdir()

    def _make_commits(self) -> None:
        """Makes what the writers submit: a branch with a commit of its own each."""
        parent = self.repository.head()
        stream = "".join(
            f"commit refs/heads/{name}\ncommitter A <a@example.org> 0 +0000\ndata 0\nfrom {parent}\n"
            f"M 100644 inline work.txt\ndata {len(name)}\n{name}\n"
            for name in COMMITS
        )
        command = ["git", "-C", str(self.repository.path), "fast-import", "--quiet"]
        subprocess.run(
            command, input=stream.encode(), env=self.machine.environment, timeout=PATIENCE, check=True
        )

    def arguments(self, database: str, commands: int) -> list[str]:
        words = (self.repository.path, database, self.journals, "seed", WRITERS, commands)
        return [str(word) for word in words]

    def answers(self) -> list[dict[str, object]]:
        """What was asked and answered, by everybody."""
        rows = [
            json.loads(line)
            for path in sorted(self.journals.glob("*.jsonl"))
            for line in path.read_text().splitlines()
        ]
        asked = [row["key"] for row in rows if len(row) == 2]
        assert sorted(asked) == sorted(row["key"] for row in rows if len(row) > 2), "everything was answered"
        return [row for row in rows if len(row) > 2]

    def sizes(self) -> list[int]:
        """How much each writer has written into its journal."""
        return [path.stat().st_size for path in sorted(self.journals.glob("*.jsonl"))]

    def lines(self) -> list[bytes]:
        """The lines of the log, read without any of the product's own code."""
        return stored_lines(self.database)

    def check(self) -> None:
        """Holds what must hold of the log, of the answers, and of the tables."""
        lines, answers = self.lines(), self.answers()
        key = Path(self.machine.environment["XDG_STATE_HOME"], "remand", "keys", "machine.key")
        assert log_faults(lines, keys=key.read_text().splitlines()[1:]) == []
        check_every_event_is_accepted(lines)
        written = {json.loads(line)["meta"]["id"]: json.loads(line) for line in lines if not is_group(line)}
        keys = Counter(event["meta"]["key"] for event in written.values() if event["meta"].get("key"))
        for answer in answers:
            events = answer.get("events", [])
            assert isinstance(events, list)
            assert all(one in written for one in events), f"{answer}: answered, and not in the log"
            assert keys[answer["key"]] == len(events), f"{answer}: lost or doubled"
        there = {"REMAND_STORE": self.database}
        verified = self.repository.call("log", "verify", env=there)
        assert verified.data["ok"], verified.out
        before = self.repository.ok("log", "digest", env=there)
        self.repository.ok("log", "rebuild", env=there)
        assert self.repository.ok("log", "digest", env=there) == before
        asked = Counter(str(row["ask"]) for row in answers if "events" in row)
        refused = Counter(str(row["refused"]) for row in answers if "refused" in row)
        if len(answers) >= 1000:
            kinds = {str(row["ask"]) for row in answers}
            assert {kind.__name__ for kind in RULES} - kinds == set(), "every command was asked"
            assert asked["ApproveReview"], "work was approved"
        print(f"{len(written)} events; accepted {dict(asked)}; refused {dict(refused)}")


def check_every_event_is_accepted(lines: list[bytes]) -> None:
    """Replays the log one by one: none of its events is in conflict with those before it."""
    stories: defaultdict[str, list[Event]] = defaultdict(list)
    tasks: dict[str, Task | None] = {}
    for event in sorted((codec.decode_line(line) for line in lines if not is_group(line)), key=order_key):
        name = event_task_id(event)
        if name:
            before, story = tasks.get(name), stories[name]
            story.append(event)
            # What takes an answer back is folded with all that stands before it.
            after = tasks[name] = (
                replay(story) if isinstance(event, AnswerRetracted) else evolve(before, event)
            )
            known = before.inbox.conflicts if before else ()
            assert after is not None, event
            assert after.inbox.conflicts == known, f"{event}\n{after.inbox.conflicts[-1]}"


@pytest.fixture
def office(machine: Machine, database: str) -> Office:
    return Office(machine, database)


def test_every_event_of_many_writers_is_accepted_when_the_log_is_replayed_one_by_one(
    office: Office, campaign: Campaign
) -> None:
    commands = campaign(30, 3000)
    office.machine.script("shared_writers.py", *office.arguments(office.database, commands), timeout=7000)
    assert len(office.answers()) == WRITERS * commands
    office.check()


@pytest.fixture
def crashable() -> Iterator[CrashableServer]:
    with crashable_server() as server:
        if server is None:
            pytest.skip("No PostgreSQL is installed (Debian: apt install postgresql).")
        yield server


def test_nothing_is_lost_or_doubled_when_the_database_is_killed_and_connections_are_cut(
    machine: Machine, crashable: CrashableServer, campaign: Campaign
) -> None:
    chance = random.Random(7)
    office = Office(machine, f"postgresql://postgres@/postgres?host={crashable.folder}")
    proxy = CuttingProxy(crashable.socket, 7)
    through = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
    process = machine.start(
        machine.folder, sys.executable, str(HERE / "shared_writers.py"), *office.arguments(through, 0)
    )
    wait_for(lambda: len(office.sizes()) == WRITERS, "the writers")
    for number in range(campaign(3, 50)):
        written = sum(office.sizes())
        wait_for(lambda enough=written + BETWEEN: sum(office.sizes()) > enough, "work to go on")
        for _ in range(chance.randint(2, 5)):
            time.sleep(chance.uniform(0.1, 0.5))
            proxy.cut(chance.uniform(0.1, 0.6))
        crashable.crash(is_kill=bool(number % 2))
        assert process.poll() is None, process.communicate()
    sizes = office.sizes()
    wait_for(
        lambda: all(new > old for new, old in zip(office.sizes(), sizes, strict=True)), "everybody to go on"
    )
    (office.journals / "stop").touch()
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, (out[-2000:], err[-4000:])
    proxy.close()
    office.check()
    print(f"{crashable.crashes} crashes, {proxy.cuts} connections cut")
