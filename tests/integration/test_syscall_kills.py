"""Killed before or after any system call of append, sign, commit and sync, a command has happened whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from remand.app.log.verification import state_digest, verify_log
from remand.app.requests import Acceptance, Request
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.wiring.ledger import open_ledger
from remand.wiring.open_ledger import OpenLedger
from tests.integration.machine import Machine, Repository
from tests.integration.syscall_kill import run_until

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform != "linux", reason="steps through system calls by Linux's ptrace"),
]
Campaign = Callable[[int, int], int]


def requests(count: int, turn: int) -> list[Request]:
    return [
        Request(command=c.AddTask(title=f"Task {turn}-{n}"), actor=USER, key=f"{turn}-{n}")
        for n in range(count)
    ]


def close(opened: OpenLedger) -> None:
    opened.store.close()
    opened.ledger.close()


class Killing:
    """A ledger whose commands are killed, and looked at after each."""

    def __init__(
        self, repository: Repository, count: int, *, is_new: bool = False, is_second: bool = False
    ) -> None:
        self.repository = repository
        self.count = count
        self.is_new = is_new
        self.is_second = is_second
        """Another command of the same process has been answered before, so this one is synced while its rows are committed."""
        self.turn = 0
        self.events = 0

    def kill_at(self, stop: int) -> int:
        """Has a command killed at that stop, and looks whether it is whole; returns how many stops there were."""
        self.turn += 1
        asked = requests(self.count, self.turn)
        if self.is_new:
            opened = open_ledger(str(self.repository.path))
            opened.ledger.closed_files()
            close(opened)

        def prepare() -> Callable[[], object]:
            opened = open_ledger(str(self.repository.path))
            opened.ledger.refresh()
            opened.ledger.keys.load()
            if self.is_second:
                opened.ledger.ask_all(requests(1, -self.turn))
            return lambda: opened.ledger.ask_all(asked)

        stepped = run_until(stop, prepare)
        self.events += self.is_second
        self._look(asked, stepped.has_answered, stop)
        return stepped.stops

    def _look(self, asked: list[Request], has_answered: bool, stop: int) -> None:
        opened = open_ledger(str(self.repository.path))
        opened.ledger.refresh()
        with opened.store.read() as view:
            now = view.events.count()
            assert now - self.events in ((self.count,) if has_answered else (0, self.count)), (
                f"killed at {stop}"
            )
            assert not view.unconfirmed.every(), f"killed at {stop}"
        answers = opened.ledger.ask_all(asked)
        assert all(isinstance(answer, Acceptance) for answer in answers)
        with opened.store.read() as view:
            self.events += self.count
            assert view.events.count() == self.events, f"killed at {stop}: asked again, it happens once"
            verifier = opened.ledger.verifier(view)
            found = verify_log(
                view, opened.ledger.exchange, opened.ledger.marks, opened.ledger.clock, verifier
            )
            assert found.ok, f"killed at {stop}: {found.problems}"
        close(opened)

    def compare(self) -> None:
        """The files alone lead to the same state, and hold by themselves."""
        self.repository.check_log()
        opened = open_ledger(str(self.repository.path))
        with opened.store.read() as view:
            before = state_digest(view)
        close(opened)
        self.repository.forget_ledger()
        opened = open_ledger(str(self.repository.path))
        opened.ledger.refresh()
        with opened.store.read() as view:
            assert state_digest(view) == before
        close(opened)


EVERY = 75
"""At full size a command is killed at every system call; at medium size as often as the campaign of this size says."""


@pytest.mark.parametrize("is_new", [False, True], ids=["open segment", "new segment"])
@pytest.mark.parametrize("count", [1, 3, 100])
def test_a_command_killed_at_any_system_call_has_happened_whole_or_not_at_all(
    near_machine: Machine, campaign: Campaign, count: int, is_new: bool
) -> None:
    killing = Killing(near_machine.repository(), count, is_new=is_new)
    stops = killing.kill_at(-1)
    assert stops > 10, "there are system calls to be killed at"
    kill_at_every(killing, stops, campaign)


def kill_at_every(killing: Killing, stops: int, campaign: Campaign) -> None:
    """Kills commands at as many stops as the campaign says."""
    kills = campaign(12, EVERY)
    step = 1 if kills == EVERY else max(1, stops // kills)

    for stop in range(0, stops, step):
        killing.kill_at(stop)
    print(f"{stops} stops, every {step}. of them")
    killing.compare()


@pytest.mark.parametrize("count", [1, 100])
def test_a_command_killed_while_its_lines_are_synced_and_its_rows_committed_is_whole_or_has_not_happened(
    near_machine: Machine, campaign: Campaign, count: int
) -> None:
    killing = Killing(near_machine.repository(), count, is_second=True)
    stops = killing.kill_at(-1)

    kill_at_every(killing, stops, campaign)
