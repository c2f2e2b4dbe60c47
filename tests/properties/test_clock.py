"""Whatever the clocks of machines do, all come to one state once the clocks are right and the ledgers repaired."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remand.app.events.task_folds import rebuild_tables
from remand.app.log.repair import repair_clock
from remand.app.log.verification import state_digest, verify_log
from remand.app.requests import Acceptance, Request, Rules
from remand.domain import commands as c
from remand.domain.events.catalogue import event_task_id
from remand.domain.instant import add_seconds
from remand.domain.refusals import Refused
from remand.ledger.signatures import Doubt
from remand.testing.fakes import START, FakeClock, FakeKeys
from tests.support.builders import THE_USER, FakeLedger
from tests.support.fakes import CountingIds, MemoryExchange

KEYS = (FakeKeys("one"), FakeKeys("two"), FakeKeys("two"))
"""The second and the third ledger are clones on one machine."""
JUMPS = (
    -500.0 * 86_400,
    -700.0,
    -500.0,
    500.0,
    700.0,
    3 * 3600.0,
    30 * 3600.0,
    400 * 86_400.0,
    9000 * 86_400.0,
)

who = st.integers(0, len(KEYS) - 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("jump"), who, st.sampled_from(JUMPS)),
        st.tuples(st.just("right"), who),
        st.tuples(st.just("add"), who),
        st.tuples(st.just("claim"), who, st.integers(0, 5)),
        st.tuples(st.just("edit"), who, st.integers(0, 5)),
        st.tuples(st.just("send"), who, who),
        st.tuples(st.just("repair"), who),
    ),
    max_size=25,
)


class Ledgers:
    """Ledgers of one project, and the time that it really is."""

    def __init__(self) -> None:
        self.worlds = [self._world(number) for number in range(len(KEYS))]
        self.time = FakeClock()
        self.added = 0

    def _world(self, number: int) -> FakeLedger:
        clock = FakeClock()
        rules = Rules(gates=(), trusted=tuple(keys.ensure_key() for keys in KEYS), project="p")
        exchange = MemoryExchange(clock, CountingIds(number << 20))
        session = f"20261115-090000-{number:08x}"
        world = FakeLedger(session=session, clock=clock, keys=KEYS[number], rules=rules, exchange=exchange)
        world.ids = CountingIds(number << 16)
        world.reopen()
        return world

    def play(self, verb: str, number: int, *what: float) -> None:
        """One step: what happens, and on which ledger."""
        world = self.worlds[number]
        for other in (*self.worlds, self):
            (other.time if other is self else other.clock).advance(1)
        if verb == "jump":
            world.clock.advance(what[0])
        elif verb == "right":
            world.clock.time = self.time.now()
        elif verb == "send":
            self.send(world, self.worlds[int(what[0])])
        elif verb == "repair":
            self.repair(world)
        else:
            self._ask(world, verb, int(what[0]) if what else 0)

    def _ask(self, world: FakeLedger, verb: str, number: int) -> None:
        tasks = sorted(world.tasks())
        ask: c.Command = c.AddTask(title=f"Task {self.added}")
        if verb != "add" and not tasks:
            return
        if verb == "claim":
            ask = c.ClaimTask(task_id=tasks[number % len(tasks)], agent="Alice")
        elif verb == "edit":
            ask = c.EditTask(task_id=tasks[number % len(tasks)], title=f"Edited {number}")
        answer = world.ledger.ask(Request(command=ask, actor="Alice" if verb == "claim" else "user"))
        if verb == "add" and isinstance(answer, Acceptance):
            self.added += 1
        if isinstance(answer, Refused):
            assert answer.code in ("clock_ahead", "bad_transition", "already_claimed", "waits_on_other"), (
                answer
            )

    def send(self, source: FakeLedger, target: FakeLedger) -> None:
        """Brings the event files of one ledger to another; what it has already stays."""
        for path, file in source.exchange.contents.items():
            known = target.exchange.contents.get(path)
            is_longer = (
                known is not None and file.data.startswith(known.data) and len(file.data) > len(known.data)
            )
            if file.data and (known is None or is_longer):
                target.exchange.put(path, file.data.rstrip(b"\n").split(b"\n"))
        target.ledger.refresh()

    def repair(self, world: FakeLedger) -> None:
        repair_clock(world.ledger, THE_USER)

    def set_right(self) -> None:
        """Every clock is right, every ledger repaired, and all have the files of all."""
        for world in self.worlds:
            world.clock.time = self.time.now()
            world.ledger.refresh()
            self.repair(world)
        for _ in range(2):
            for source in self.worlds:
                for target in self.worlds:
                    self.send(source, target)

    def pass_time(self, seconds: float) -> None:
        self.time.advance(seconds)
        for world in self.worlds:
            world.clock.time = self.time.now()
            world.ledger.refresh()


def state(world: FakeLedger) -> tuple[str, int]:
    with world.store.read() as view:
        return state_digest(view)


def check(ledgers: Ledgers) -> None:
    worlds = ledgers.worlds
    states = [state(world) for world in worlds]
    assert len(set(states)) == 1
    for world in worlds:
        assert len(world.tasks()) == ledgers.added, "no task is lost, and none is there twice"
        with world.store.write() as tx:
            found = verify_log(tx, world.exchange, world.marks, world.clock, world.ledger.verifier(tx))
            assert found.problems == ()
            assert {one.doubt for one in found.unconfirmed} <= {Doubt.VOID}
            rebuild_tables(tx)
            assert state_digest(tx) == states[0]


@given(steps)
def test_ledgers_whose_clocks_jumped_come_to_one_state(played: list[tuple[str, int, float]]) -> None:
    ledgers = Ledgers()
    for step in played:
        ledgers.play(*step)

    ledgers.set_right()
    ledgers.pass_time(3600)
    check(ledgers)
    assert all(
        event.ts < add_seconds(ledgers.time.now(), 1) or is_void(ledgers, event.meta.id)
        for event in ledgers.worlds[0].events()
    )

    ledgers.pass_time(10_000 * 86_400)
    check(ledgers)


def is_void(ledgers: Ledgers, event_id: str) -> bool:
    with ledgers.worlds[0].store.read() as view:
        return event_id in {one.event_id for one in view.unconfirmed.every()}


def test_every_ledger_can_be_written_to_after_its_repair() -> None:
    ledgers = Ledgers()
    for number, jump in enumerate((400 * 86_400.0, 30 * 3600.0, -86_400.0)):
        ledgers.play("jump", number, jump)
        ledgers.play("add", number)
    ledgers.set_right()

    for world in ledgers.worlds:
        added = world.add("More")
        (written,) = (event for event in world.events() if event_task_id(event) == added)
        assert written.ts < add_seconds(START, 600 + 86_400)
