"""The log moves from the file into PostgreSQL and back, by the command line, and is open in one place at any time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, Said
from tests.support.log_check import log_faults
from tests.support.postgres import stored_lines

pytestmark = pytest.mark.timeout(1200)


class Team:
    """A repository whose log is in its file, or in a database."""

    def __init__(self, repository: Repository, database: str) -> None:
        self.repository = repository
        self.database = database
        self.there = {"REMAND_STORE": database}

    def call(self, *words: str, there: bool = False) -> Said:
        """A call of the command line, on the file or on the database."""
        return self.repository.call(*words, env=self.there if there else {"REMAND_STORE": ""})

    def ok(self, *words: str, there: bool = False) -> dict[str, object]:
        said = self.call(*words, there=there)
        assert said.code == 0, said
        answer: dict[str, object] = said.data
        return answer

    def move(self, *, back: bool = False) -> dict[str, object]:
        return self.ok("log", "move", "--to", "sqlite" if back else self.database, there=back)

    def open_ones(self) -> list[bool]:
        """Where a command is taken: False for the file, True for the database."""
        found = []
        for there in (False, True):
            said = self.call("task", "add", "Is it open?", there=there)
            assert said.code in (0, 1), said
            if said.code:
                assert said.data["refused"] == "ledger_moved", said
            else:
                found.append(there)
        return found

    def has_log(self) -> bool:
        """True when something of the log is in the database."""
        return bool(self.lines())

    def lines(self) -> list[bytes]:
        """The lines in the database, read without any of the product's own code."""
        return stored_lines(self.database)

    def check(self) -> None:
        """Both logs hold, and each is whole."""
        both = dict.fromkeys([*self.lines(), *self.repository.lines()])
        assert log_faults(both) == []


@pytest.fixture
def team(repository: Repository, database: str) -> Team:
    task = repository.add("Mend the roof")
    repository.add("Paint the door", "--depends-on", task)
    repository.ok("task", "claim", task, "--agent", "Alice")
    repository.ok("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
    return Team(repository, database)


def test_the_log_moves_into_a_database_and_back_with_an_equal_digest(team: Team) -> None:
    before = team.ok("task", "list")
    there = team.move()
    assert (there["digest"], there["events"]) == (there["old_digest"], there["old_events"])
    assert team.ok("log", "digest", there=True) == {"digest": there["digest"], "events": there["events"]}
    assert team.ok("task", "list", there=True) == before
    refused = team.call("task", "add", "Too late")
    assert (refused.code, refused.data["refused"]) == (1, "ledger_moved")
    assert "postgresql://" in refused.data["message"]
    assert team.database.rpartition("host=")[2] not in refused.data["message"], "no path stands in the log"
    team.ok("task", "add", "Written there", there=True)
    back = team.move(back=True)
    assert (back["digest"], back["events"]) == (back["old_digest"], back["old_events"])
    assert team.open_ones() == [False]
    assert team.move()["events"] == int(str(back["events"])) + 3, "one task, and the two events of the move"
    assert team.open_ones() == [True]
    assert team.repository.call("log", "verify", env=team.there).data["ok"]
    team.check()


def test_a_password_stands_in_no_event_and_in_no_answer(team: Team) -> None:
    team.database = team.database.replace("postgres@", "postgres:s3cret-word@")
    team.there = {"REMAND_STORE": team.database}
    said = [team.call("log", "move", "--to", team.database), team.call("task", "add", "It stays here")]
    said.append(team.call("task", "add", "There", there=True))
    assert said[0].code == 2, "a command line can be read by everybody on the machine"
    assert [one.code for one in said[1:]] == [0, 0]
    texts = [*(one.out + one.err for one in said), *map(bytes.decode, team.lines())]
    assert not any("s3cret-word" in text for text in texts)
    assert b"s3cret-word" not in team.repository.ledger.read_bytes()


def test_a_process_that_has_the_database_open_is_refused_once_the_log_has_left(team: Team) -> None:
    team.move()
    script = (
        "import sys\nfrom remand.app.requests import Request\nfrom remand.wiring.ledger import open_ledger\n"
        "from remand.domain.commands import AddTask\nfrom remand.domain.refusals import Refused\n"
        "ledger = open_ledger('.').ledger\n"
        "for line in sys.stdin:\n"
        "    answer = ledger.ask(Request(command=AddTask(title=line), actor='user'))\n"
        "    print(answer.code if isinstance(answer, Refused) else 'done', flush=True)\n"
    )
    process = team.repository.machine.start(
        team.repository.path, sys.executable, "-c", script, env=team.there, stdin=subprocess.PIPE
    )

    def ask() -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("x\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    assert ask() == "done"
    team.move(back=True)
    assert ask() == "ledger_moved"
    team.move()
    assert ask() == "done", "it goes on by itself"
    team.check()


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_a_move_killed_at_any_time_leaves_one_ledger_open(
    team: Team, campaign: Callable[[int, int], int], back: bool
) -> None:
    chance = random.Random(1)
    if back:
        team.move()
    started = time.monotonic()
    word = "sqlite" if back else team.database
    for number in range(campaign(2, 100)):
        process = team.repository.machine.start(
            team.repository.path,
            *(REMAND, "log", "move", "--to", word, "--json"),
            env=team.there if back else {"REMAND_STORE": ""},
        )
        pause = chance.uniform(0.25, 1.2)
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
        if not team.has_log():
            continue
        found = team.open_ones()
        assert len(found) == 1, f"move {number}, killed after {pause:.2f} s: {found}"
        if found != [back]:
            team.move(back=not back)
        assert team.open_ones() == [back]
    print(f"{time.monotonic() - started:.1f} s")
    team.move(back=back)
    assert team.open_ones() == [not back]
    team.check()


def test_publishing_from_a_database_commits_every_event(team: Team, machine: Machine) -> None:
    team.move()
    team.ok("task", "add", "Written there", there=True)
    done = team.ok("log", "publish", there=True)
    assert done["commit"], done
    clone = machine.clone(team.repository, "clone")
    digest = clone.ok("log", "digest")
    assert digest == team.ok("log", "digest", there=True)
    assert clone.refused("task", "add", "In a clone") == "ledger_moved"
    again = team.ok("log", "publish", there=True)
    assert again["commit"] is None, "the branch has it all"
    clone.check_log()
