"""Holds that the log goes on in one ledger, however often it is moved, and whatever befalls a move."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from remand.app.errors import EnvironmentFault, UsageError
from remand.app.log.exchange import LogMove, find_move, known_lines, missing_content, move_log
from remand.app.requests import Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import Actor, Member, Role, Team
from remand.domain.events.log import LedgerMoved, MoveBegun
from remand.domain.preconditions import is_log_expected, require_open_ledger
from remand.domain.refusals import Refused
from remand.ledger.store import Transaction
from remand.testing.builders import ALICE, Session
from remand.testing.fakes import FakeClock
from tests.support.builders import THE_USER, FakeLedger
from tests.support.log_check import log_faults

TO = "postgresql://db.example/team"


class Killed(BaseException):
    """The process that moves the log dies."""


class Place:
    """An old and a new ledger, each of which finds the other."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.old = FakeLedger(session="20261115-090000-0000000a", clock=clock)
        self.new = FakeLedger(session="20261115-090000-0000000b", clock=clock)
        self.new.ids = self.old.ids
        self.reopen()

    def reopen(self) -> None:
        """Both are opened by other processes."""
        for own, other, name in ((self.old, self.new, "old"), (self.new, self.old, "new")):
            ledger = own.reopen()
            ledger.ledger_id = name
            ledger._fetch_move = self._fetching(other, name)

    def _fetching(self, other: FakeLedger, name: str) -> Callable[[Transaction], bytes]:
        def fetch(tx: Transaction) -> bytes:
            with other.store.read() as view:
                has_moved = find_move(other.ledger, view, name) is not None
                return missing_content(view, known_lines(tx)) if has_moved else b""

        return fetch

    def move(self, *, back: bool = False, by: Actor = THE_USER) -> LogMove:
        source, target = (self.new, self.old) if back else (self.old, self.new)
        return move_log(source.ledger, target.ledger, TO, by)

    def open_ledgers(self) -> list[str]:
        """The ledgers that have the log, and take a command."""
        found = []
        for world in (world for world in (self.old, self.new) if world.events()):
            answer = world.ledger.ask(Request(command=c.AddTask(title="Is it open?"), actor="user"))
            if isinstance(answer, Refused):
                assert answer.code == "ledger_moved"
            else:
                found.append(world.ledger.ledger_id)
        return found

    def lines(self) -> list[bytes]:
        """Every line that one of both has."""
        found: dict[bytes, None] = {}
        for world in (self.old, self.new):
            with world.store.read() as view:
                found |= dict.fromkeys([*view.group_doubts.lines(), *view.events.lines()])
        return list(found)


@pytest.fixture
def place() -> Place:
    made = Place()
    task = made.old.add("Mend the roof")
    made.old.claim(task)
    made.old.submit(task)
    made.old.add("Paint the door")
    return made


def test_a_moved_log_has_the_same_digest_and_as_many_events(place: Place) -> None:
    done = place.move()
    assert (done.digest, done.events) == (done.old_digest, done.old_events)
    assert place.new.tasks() == place.old.tasks()


def test_every_later_write_to_the_old_ledger_is_refused_with_where_the_log_went(place: Place) -> None:
    place.move()
    refusal = place.old.refusal(c.AddTask(title="Too late"))
    assert refusal.code == "ledger_moved"
    assert TO in refusal.message
    with pytest.raises(Refused, match="moved to"):
        place.old.ledger.record([], THE_USER)
    assert place.open_ledgers() == ["new"]


def test_a_process_that_had_the_old_ledger_open_is_refused_as_well(place: Place) -> None:
    other = place.old.ledger
    place.old.add("It has written here before")
    place.reopen()
    place.move()
    answer = other.ask(Request(command=c.AddTask(title="Too late"), actor="user"))
    assert isinstance(answer, Refused)
    assert answer.code == "ledger_moved"


def test_the_old_ledger_still_answers_questions(place: Place) -> None:
    before = place.old.tasks()
    place.move()
    place.old.ledger.refresh()
    assert place.old.tasks() == before


def test_the_log_moves_there_and_back_as_often_as_one_likes(place: Place) -> None:
    for number in range(3):
        place.move()
        place.new.add(f"There {number}")
        assert place.open_ledgers() == ["new"]
        done = place.move(back=True)
        assert done.digest == done.old_digest
        assert place.open_ledgers() == ["old"]
    assert log_faults(place.lines()) == []


def test_a_log_that_went_on_in_the_old_ledger_is_a_fault_for_the_checker(place: Place) -> None:
    place.move()
    place.old.ledger.ledger_id = "new"
    place.old.add("It goes on")
    assert any("had moved" in fault for fault in log_faults(place.lines()))


def test_a_closed_ledger_moves_the_log_on_once_the_user_says_that_the_other_is_lost(place: Place) -> None:
    place.move()
    third = FakeLedger(session="20261115-090000-0000000c", clock=place.old.clock)
    third.ledger.ledger_id = "third"
    with pytest.raises(Refused, match="moved to"):
        move_log(place.old.ledger, third.ledger, TO, THE_USER)
    with pytest.raises(Refused, match="user"):
        move_log(place.old.ledger, third.ledger, TO, ALICE, is_lost=True)
    place.reopen()
    done = move_log(place.old.ledger, third.ledger, TO, THE_USER, is_lost=True)
    assert done.digest == done.old_digest
    third.add("It goes on here")
    place.reopen()
    assert place.old.refusal(c.AddTask(title="And not here")).code == "ledger_moved"


def test_a_closed_ledger_stays_closed_in_the_process_that_moved_a_lost_log_on(place: Place) -> None:
    place.move()
    third = FakeLedger(session="20261115-090000-0000000c", clock=place.old.clock)
    third.ledger.ledger_id = "third"
    move_log(place.old.ledger, third.ledger, TO, THE_USER, is_lost=True)
    assert place.old.refusal(c.AddTask(title="Too late")).code == "ledger_moved"


def test_a_lost_log_that_could_not_be_moved_on_leaves_its_ledger_closed(place: Place) -> None:
    place.move()
    third = FakeLedger(session="20261115-090000-0000000c", clock=place.old.clock)
    third.ledger.ledger_id = "third"
    third.add("It has a task of its own")
    with pytest.raises(EnvironmentFault, match="events of its own"):
        move_log(place.old.ledger, third.ledger, TO, THE_USER, is_lost=True)
    assert place.old.refusal(c.AddTask(title="Too late")).code == "ledger_moved"


def test_the_user_opens_a_closed_ledger_again_when_the_other_is_lost(place: Place) -> None:
    place.move()
    with pytest.raises(Refused, match="user"):
        move_log(place.old.ledger, place.old.ledger, TO, ALICE, is_lost=True)
    with pytest.raises(UsageError, match="--lost"):
        move_log(place.old.ledger, place.old.ledger, TO, THE_USER)
    done = move_log(place.old.ledger, place.old.ledger, TO, THE_USER, is_lost=True)
    assert (done.ledger, done.to_ledger) == ("old", "old")
    assert place.old.add("It goes on")
    with place.old.store.read() as view:
        content = missing_content(view, set())
    place.new.exchange.put("/events/theirs.jsonl", content.splitlines())
    place.new.ledger.refresh()
    assert place.open_ledgers() == ["old"], "every other one learns of it from the files"
    with pytest.raises(UsageError, match="already"):
        move_log(place.old.ledger, place.old.ledger, TO, THE_USER, is_lost=True)


TEAM = Team(
    (Member(name="Dana", roles=(Role.USER,)), Member(name="Carol"), Member(name="Kim", roles=(Role.LEAD,)))
)
FILED = "20261115-080000-000000bb"


def file_move(world: FakeLedger, event: LedgerMoved | MoveBegun, actor: str) -> None:
    """Has an event arrive in a file, signed by a key that is trusted."""
    session = Session(FILED, FakeClock(world.clock.now()))
    session.write(event, actor=actor)
    world.exchange.put(f"/events/{FILED}.jsonl", session.lines)
    world.ledger.refresh()


AWAY = LedgerMoved(ledger="somewhere", to_ledger="elsewhere", to="https://evil.example", events=0)
HERE = MoveBegun(ledger="somewhere", to_ledger="old", to="here")


@pytest.mark.parametrize("event", [AWAY, HERE], ids=["moved away", "begun to move here"])
@pytest.mark.parametrize(
    ("team", "actor", "is_closed"),
    [
        (Team(), "Carol", False),
        (Team(), "coordinator", False),
        (Team(), "user", True),
        (TEAM, "Carol", False),
        (TEAM, "CAROL", False),
        (TEAM, "Carol/2", False),
        (TEAM, "Kim", False),
        (TEAM, "coordinator", False),
        (TEAM, "Dana", True),
        (TEAM, "user", True),
        (TEAM, "a user who has left", True),
    ],
)
def test_only_a_move_of_the_users_closes_a_ledger_when_it_comes_in_a_file(
    event: LedgerMoved | MoveBegun, team: Team, actor: str, is_closed: bool
) -> None:
    world = FakeLedger(rules=Rules(gates=(), team=team))
    world.ledger.ledger_id = "old"
    file_move(world, event, actor)
    answer = world.ledger.ask(Request(command=c.AddTask(title="Is it open?"), actor="user"))
    assert isinstance(answer, Refused) is is_closed


def test_a_row_that_no_signature_bears_out_closes_no_ledger(place: Place) -> None:
    session = Session(FILED, FakeClock(place.old.clock.now()), keys=None)
    entry = session.entry(AWAY, actor="user")
    with place.old.store.write() as tx:
        tx.events.add([entry])
    place.reopen()
    assert place.old.add("It is open")


def test_only_the_user_moves_the_log(place: Place) -> None:
    with pytest.raises(Refused, match="user"):
        place.move(by=ALICE)
    assert not _begun(place)


def test_a_log_is_not_moved_to_where_it_is(place: Place) -> None:
    place.new.ledger.ledger_id = "old"
    with pytest.raises(UsageError):
        place.move()


def test_a_ledger_with_events_of_its_own_takes_no_log(place: Place) -> None:
    place.new.add("It was here before")
    with pytest.raises(EnvironmentFault, match="events of its own"):
        place.move()
    assert place.open_ledgers() == ["old"]


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("change", range(5))
def test_one_ledger_is_open_wherever_a_move_is_killed(
    place: Place, monkeypatch: pytest.MonkeyPatch, change: int, back: bool
) -> None:
    """A move makes several changes, now of one ledger, now of the other; it is killed before each of them."""
    if back:
        place.move()
    count = 0
    for world in (place.old, place.new):

        def write(original: Callable[[], object] = world.store.write) -> object:
            nonlocal count
            count += 1
            if count > change:
                raise Killed
            return original()

        monkeypatch.setattr(world.store, "write", write)
    is_killed = False
    try:
        place.move(back=back)
    except Killed:
        is_killed = True
    monkeypatch.undo()
    place.reopen()
    assert is_killed is (change < CHANGES)
    there, here = ("old", "new") if back else ("new", "old")
    assert place.open_ledgers() == [here if change < ENDS else there], "one of both"
    if change < ENDS:
        place.move(back=back)
    assert place.open_ledgers() == [there], "the move is brought to its end"
    assert log_faults(place.lines()) == []


ENDS, CHANGES = 3, 4
"""With which of the changes the log has moved, and how many there are."""


def _begun(place: Place) -> list[MoveBegun]:
    return [
        event for world in (place.old, place.new) for event in world.events() if isinstance(event, MoveBegun)
    ]


# The rule.


def moves(*steps: str) -> list[MoveBegun | LedgerMoved]:
    """Moves, each as `old>new`; one that has only begun with a question mark."""
    found: list[MoveBegun | LedgerMoved] = []
    for step in steps:
        ledger, target = step.rstrip("?").split(">")
        places = {"ledger": ledger, "to_ledger": target, "to": TO}
        found.append(MoveBegun(**places) if step.endswith("?") else LedgerMoved(**places, events=1))
    return found


@pytest.mark.parametrize(
    ("steps", "open_ones"),
    [
        ((), {"a", "b", "c"}),
        (("a>b?",), {"a", "c"}),
        (("a>b?", "a>b"), {"b"}),
        (("a>b?", "a>b", "b>a?"), {"b"}),
        (("a>b?", "a>b", "b>a?", "b>a"), {"a"}),
        (("a>b?", "a>c?"), {"a"}),
        (("a>b?", "a>c?", "a>c"), {"c"}),
        (("a>b?", "a>b", "b>c?", "b>c"), {"c"}),
        (("a>b?", "a>b", "c>b?"), {"b"}),
        (("a>b", "a>a"), {"a"}),
        (("a>b?", "b>b"), {"b"}),
    ],
)
def test_the_ledger_that_the_last_move_went_to_is_open(steps: tuple[str, ...], open_ones: set[str]) -> None:
    found = set()
    for name in ("a", "b", "c"):
        with suppress(Refused):
            require_open_ledger(name, moves(*steps))
            found.add(name)
    assert found == open_ones


def test_a_ledger_expects_the_log_until_the_move_to_it_has_ended() -> None:
    assert is_log_expected("b", moves("a>b?"))
    assert not is_log_expected("b", moves("a>b?", "a>b"))
    assert not is_log_expected("a", moves("a>b?"))
