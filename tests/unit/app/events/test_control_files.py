"""Holds that event files of whole groups which somebody trusted answers for are no finding, and others are."""

from collections.abc import Iterable, Iterator

import pytest

from remand.app.events.control_files import ControlCheck
from remand.app.log.exchange import lines_of_task
from remand.app.log.keys import adopt_sessions
from remand.app.requests import Rules
from remand.domain.events.reviews import LockoutCleared, LockoutSet
from remand.domain.gate.control_files import ControlChange, ControlFile
from remand.testing.builders import MACHINE, T1, T2, Session, task_added
from remand.testing.fakes import FakeClock, FakeKeys
from tests.support.builders import THE_USER, FakeLedger

PROJECT = "0123456789abcdef"
LOST = FakeKeys("a lost machine")
PATH = ".got/events/20261115-090000-0000f0f0.jsonl"


class OneFile:
    """A commit that adds one event file to what the base has."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._content = b"".join(line + b"\n" for line in lines)
        self._file = ControlFile(PATH, "", "100644 0123")

    def changes(self, tip: str, before: str, commit: str) -> list[ControlFile]:
        return [self._file]

    def contents(
        self,
        files: Iterable[ControlFile],
        most: int,
        in_all: int,
    ) -> Iterator[tuple[ControlFile, bytes | None]]:
        return ((file, self._content) for file in files)

    def event_files(self, commit: str) -> list[ControlFile]:
        return [self._file]


@pytest.fixture
def world() -> FakeLedger:
    """A ledger whose user has adopted the session of a lost machine."""
    session = Session("20261115-080000-000000ff", FakeClock(), keys=LOST, project=PROJECT)
    for event in (task_added(T1), task_added(T2), LockoutSet(task_id=T1, agent="Alice")):
        session.write(event)
    made = FakeLedger(rules=Rules(gates=(), project=PROJECT, trusted=(MACHINE.ensure_key(),)))
    made.exchange.put("/events/theirs.jsonl", session.lines)
    made.ledger.refresh()
    adopt_sessions(made.ledger, [session.name], "The disk is gone.", THE_USER)
    return made


def published(world: FakeLedger) -> list[bytes]:
    with world.store.read() as view:
        return lines_of_task(view, T1)


def check(world: FakeLedger, lines: Iterable[bytes]) -> ControlChange:
    with world.store.read() as view:
        verifier = world.ledger.verifier(view)
    return ControlCheck(OneFile(lines), verifier, {}).check("base", "", "commit")


def test_what_was_adopted_and_is_published_with_its_task_is_no_finding(world: FakeLedger) -> None:
    assert check(world, published(world)) == ControlChange(commit="commit", event_files=1)


def test_a_line_that_was_not_adopted_is_a_finding_beside_those_that_were(world: FakeLedger) -> None:
    forged = Session("20261115-080000-000000ff", FakeClock(), keys=None)
    forged.write(LockoutCleared(task_id=T1, agent="Alice"))

    assert check(world, [*published(world), *forged.lines]).paths == (PATH,)


def test_an_adopted_event_that_was_cut_out_is_a_finding(world: FakeLedger) -> None:
    lines = [line for line in published(world) if b'"lockout.set"' not in line]

    assert check(world, lines).paths == (PATH,)
