"""Clocks that run ahead: what is held back, what is refused, and how it is repaired."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from remand.app.board import BoardContext, read_board
from remand.app.events.task_folds import rebuild_tables
from remand.app.log.exchange import lines_of_task
from remand.app.log.repair import ClockFindings, repair_clock
from remand.app.log.verification import state_digest, verify_log
from remand.app.ports import Keys
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.events.event import Event
from remand.domain.events.log import EventsVoided
from remand.domain.events.reviews import Finding
from remand.domain.events.tasks import LeaseRenewed
from remand.domain.instant import add_seconds
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.ledger.signatures import Doubt
from remand.testing.builders import T1, Session, task_added
from remand.testing.fakes import START, FakeClock, FakeKeys
from tests.support.builders import THE_USER, FakeLedger, member
from tests.support.fakes import CountingIds, MemoryExchange, ProcessKilled

THEIRS = "/events/theirs.jsonl"
DAY = 86_400.0
ONE, TWO, STRANGER = FakeKeys("one"), FakeKeys("two"), FakeKeys("stranger")
TEAM = Team((member("Alice"), member("Lea", Role.LEAD)))


def read_in(world: FakeLedger, session: Session) -> None:
    """Brings a session's file, and reads it."""
    world.exchange.put(THEIRS, session.lines)
    world.ledger.refresh()


@pytest.mark.parametrize("seconds", [601, 3600, 23 * 3600, 400 * DAY])
def test_an_event_further_ahead_than_the_bound_is_held_back_and_does_not_move_the_clock(
    seconds: float,
) -> None:
    world, session = FakeLedger(), Session(clock=FakeClock(add_seconds(START, seconds)))
    session.write(task_added())
    read_in(world, session)

    world.add("Mine")

    assert T1 not in world.tasks()
    assert world.events()[-1].ts < add_seconds(START, 60)


def test_an_event_within_the_bound_counts_and_moves_the_clock() -> None:
    world, session = FakeLedger(), Session(clock=FakeClock(add_seconds(START, 590)))
    ahead = session.write(task_added())
    read_in(world, session)

    world.add("Mine")

    assert T1 in world.tasks()
    assert max(event.ts for event in world.events()) > ahead.ts


def test_an_own_write_is_refused_while_the_log_is_further_ahead_of_the_clock_than_the_bound() -> None:
    world = FakeLedger()
    world.clock.advance(400 * DAY)
    task = world.add("Under the wrong clock")
    world.clock.advance(-400 * DAY)

    refused = world.refusal(c.EditTask(task_id=task, title="Later"))

    assert refused.code == "clock_ahead"
    assert "2027-12-20T09:00" in refused.message
    assert "2026-11-15T09:00" in refused.message
    assert len(world.events()) == 1


# A machine whose clock ran ahead, and others.


def machine(number: int, clock: FakeClock, keys: Keys) -> FakeLedger:
    """One of the machines of a team, each with a key of its own that all trust."""
    trusted = (ONE.ensure_key(), TWO.ensure_key())
    rules = Rules(gates=(), team=TEAM, trusted=trusted, project="p")
    exchange = MemoryExchange(clock, CountingIds(number << 20))
    session = f"20261115-090000-{number:08x}"
    world = FakeLedger(session=session, clock=clock, keys=keys, rules=rules, exchange=exchange)
    world.ids = CountingIds(number << 16)
    world.reopen()
    return world


def send(source: FakeLedger, target: FakeLedger) -> None:
    """Brings every event file of one ledger to another, as git does."""
    for path, file in source.exchange.contents.items():
        known = target.exchange.contents.get(path)
        if known is None or known.data != file.data:
            target.exchange.put(path, file.data.rstrip(b"\n").split(b"\n") if file.data else [])
    target.ledger.refresh()


def state(world: FakeLedger) -> tuple[str, int]:
    with world.store.read() as view:
        return state_digest(view)


def rebuilt(world: FakeLedger) -> tuple[str, int]:
    with world.store.write() as tx:
        rebuild_tables(tx)
        return state_digest(tx)


def problems(world: FakeLedger) -> list[str]:
    with world.store.read() as view:
        verifier = world.ledger.verifier(view)
        found = verify_log(view, world.exchange, world.marks, world.clock, verifier)
    return [problem.problem for problem in found.problems]


def held(world: FakeLedger) -> list[bytes]:
    with world.store.read() as view:
        return view.held.lines()


def rejected_under(world: FakeLedger, seconds: float) -> str:
    """Alice's work is rejected while the clock is ahead by so much; then the clock is right again."""
    task = world.add("Mend the roof")
    world.clock.advance(seconds)
    world.claim(task)
    world.submit(task)
    world.ask(
        c.RejectReview(task_id=task, commit="work", findings=(Finding(text="It leaks"),)), "Lea", key="no"
    )
    assert world.task(task).is_locked_out("Alice")
    world.clock.advance(-seconds)
    return task


def repair(world: FakeLedger) -> ClockFindings:
    return repair_clock(world.ledger, THE_USER, "the clock ran ahead")


@pytest.fixture
def one() -> FakeLedger:
    return machine(1, FakeClock(), ONE)


@pytest.fixture
def two() -> FakeLedger:
    return machine(2, FakeClock(), TWO)


@pytest.mark.parametrize("first", ["the events", "the repair"])
@pytest.mark.parametrize("seconds", [660.0, 23 * 3600.0, 400 * DAY])
def test_after_a_repair_every_clone_has_the_lockout_and_the_same_state(
    one: FakeLedger, two: FakeLedger, first: str, seconds: float
) -> None:
    task = rejected_under(one, seconds)
    if first == "the events":
        send(one, two)
        assert not two.tasks()[task].people.lockouts

    repair(one)
    send(one, two)
    fresh = machine(3, FakeClock(), TWO)
    send(one, fresh)

    for world in (one, two, fresh):
        assert world.task(task).is_locked_out("Alice")
        assert problems(world) == []
        assert world.task(task).inbox.conflicts == ()
        assert held(world) == []
    assert state(one) == state(two) == state(fresh) == rebuilt(one) == rebuilt(two)


def test_after_a_repair_commands_are_taken_and_reach_the_others(one: FakeLedger, two: FakeLedger) -> None:
    task = rejected_under(one, 400 * DAY)
    assert one.refusal(c.EditTask(task_id=task, title="Later")).code == "clock_ahead"
    repair(one)

    one.ask(c.EditTask(task_id=task, title="Later"))
    send(one, two)

    assert two.task(task).title == "Later"
    assert all(
        event.ts < add_seconds(START, 600)
        for event in one.events()
        if event.meta.seq and not is_void(one, event)
    )


def is_void(world: FakeLedger, event: Event) -> bool:
    with world.store.read() as view:
        return event.meta.id in {
            found.event_id for found in view.unconfirmed.every() if found.doubt is Doubt.VOID
        }


def test_a_repair_names_what_it_voids_and_each_event_what_it_restates(one: FakeLedger) -> None:
    rejected_under(one, 400 * DAY)
    ahead = [event for event in one.events() if event.ts > add_seconds(START, DAY)]

    found = repair(one)

    (voiding,) = [event for event in one.events() if isinstance(event, EventsVoided)]
    after = [event for event in one.events() if event.meta.session == voiding.meta.session][1:]
    assert [event for event, _ in found.own] == ahead
    assert (voiding.session, voiding.first, voiding.last) == (ahead[0].meta.session, 2, 1 + len(ahead))
    assert (voiding.meta.actor, voiding.reason) == ("user", "the clock ran ahead")
    assert voiding.chain
    assert (
        [event.meta.restates for event in after] == list(voiding.events) == [event.meta.id for event in ahead]
    )
    assert [(event.name, event.meta.actor) for event in after] == [
        (old.name, old.meta.actor) for old in ahead
    ]
    assert all(is_void(one, event) for event in ahead)
    assert not any(is_void(one, event) for event in after)


def test_events_that_arrive_after_their_repair_are_void_at_once(one: FakeLedger, two: FakeLedger) -> None:
    rejected_under(one, 400 * DAY)
    repair(one)
    ahead, repaired = sorted(one.exchange.contents)

    for path in (repaired, ahead):
        two.exchange.put(path, one.exchange.contents[path].data.rstrip(b"\n").split(b"\n"))
        two.ledger.refresh()

    assert held(two) == []
    assert state(two) == state(one)


def test_a_repaired_task_keeps_its_id_handoff_review_question_and_key(
    one: FakeLedger, two: FakeLedger
) -> None:
    one.clock.advance(400 * DAY)
    task = one.add("Under the wrong clock")
    before = one.claim(task)
    assert before.claim
    one.submit(task)
    rejection = c.RejectReview(task_id=task, commit="work", findings=(Finding(text="It leaks"),))
    one.ask(rejection, "Lea", key="no")
    review, question = one.task(task).reviews.rounds[0].reviews[0], one.task(task).inbox.escalation
    assert question
    one.clock.advance(-400 * DAY)

    repair(one)
    send(one, two)

    after = one.task(task)
    assert two.task(task) == after
    assert (after.reviews.rounds[0].handoff_id, after.reviews.rounds[0].reviews[0]) == (
        before.claim.handoff_id,
        review,
    )
    assert after.inbox.escalation
    assert after.inbox.escalation.id == question.id
    count = len(one.events())
    assert one.ask(rejection, "Lea", key="no").task.reviews.rejection_count == 1
    assert len(one.events()) == count


def test_a_lease_that_began_under_the_wrong_clock_lasts_as_long_after_the_repair(one: FakeLedger) -> None:
    task = one.add("Mend the roof")
    one.clock.advance(400 * DAY)
    one.claim(task)
    one.clock.advance(-400 * DAY)
    repair(one)

    one.clock.advance(1700)
    one.add("Anything")
    assert one.task(task).claim is not None
    one.clock.advance(200)
    one.add("Anything")
    assert one.task(task).claim is None


def test_a_repair_that_is_repeated_changes_nothing(one: FakeLedger) -> None:
    rejected_under(one, 400 * DAY)
    repair(one)
    before, events = state(one), len(one.events())

    assert not repair(one).is_repairable
    assert (state(one), len(one.events())) == (before, events)


def test_a_repair_under_a_clock_that_is_ahead_itself_can_be_repaired(
    one: FakeLedger, two: FakeLedger
) -> None:
    task = rejected_under(one, 400 * DAY)
    question = one.task(task).inbox.escalation
    one.clock.advance(200 * DAY)
    repair(one)
    one.clock.advance(-200 * DAY)
    assert one.refusal(c.EditTask(task_id=task, title="Later")).code == "clock_ahead"
    send(one, two)

    repair(one)
    send(one, two)
    fresh = machine(3, FakeClock(), TWO)
    send(one, fresh)

    again = two.task(task).inbox.escalation
    assert question
    assert again
    assert again.id == question.id
    assert two.task(task).is_locked_out("Alice")
    assert two.task(task).reviews.rejection_count == 1
    assert state(one) == state(two) == state(fresh)
    for world in (one, two, fresh):
        world.clock.advance(500 * DAY)
        world.ledger.refresh()
    assert state(one) == state(two) == state(fresh)


def test_void_events_stay_void_when_their_time_comes(one: FakeLedger, two: FakeLedger) -> None:
    task = rejected_under(one, 400 * DAY)
    send(one, two)
    repair(one)
    send(one, two)
    before = state(two)

    for world in (one, two):
        world.clock.advance(500 * DAY)
        world.ledger.refresh()

    assert state(one) == state(two) == before
    assert two.task(task).reviews.rejection_count == 1


def test_two_repairs_of_the_same_events_count_once(one: FakeLedger, two: FakeLedger) -> None:
    """A copy of the ledger has the same events as its own, and repairs them as well."""
    task = rejected_under(one, 400 * DAY)
    copy = machine(3, FakeClock(), ONE)
    send(one, copy)
    copy.clock.advance(5)
    assert repair(copy).own
    repair(one)
    send(one, two)
    send(copy, two)
    send(copy, one)
    send(one, copy)

    assert one.task(task).reviews.rejection_count == 1
    assert one.task(task).inbox.conflicts == ()
    assert state(one) == state(copy) == state(two) == rebuilt(two)
    assert problems(two) == []


@pytest.mark.parametrize("has_forgery", [False, True], ids=["by itself", "beside a forged line in its place"])
def test_a_command_that_the_jump_divides_is_restated_whole(
    one: FakeLedger, two: FakeLedger, has_forgery: bool
) -> None:
    task = one.add("Mend the roof")
    one.claim(task)
    one.submit(task)
    one.clock = JumpingClock(one.clock.time, after=5)
    one.reopen()
    one.ask(c.RejectReview(task_id=task, commit="work", findings=(Finding(text="It leaks"),)), "Lea")
    times = [event.ts > add_seconds(START, DAY) for event in one.events() if event.meta.actor == "Lea"]
    assert set(times) == {False, True}, "the jump is to come between two events of the command"
    one.clock = FakeClock(add_seconds(START, 5))
    one.reopen()

    whole = [event.meta.id for event in one.events() if event.meta.actor == "Lea"]
    if has_forgery:
        first = next(event.meta for event in one.events() if event.meta.id == whole[0])
        forged = Session(first.session, FakeClock(START), keys=None)
        forged.seq = first.seq - 1
        forged.write(LeaseRenewed(task_id=task, handoff_id="H", agent="Alice", lease_expires_at=START))
        one.exchange.put("/events/forged.jsonl", forged.lines)
        one.ledger.refresh()
    repair(one)
    send(one, two)

    (voiding,) = [event for event in one.events() if isinstance(event, EventsVoided)]
    assert voiding.events == tuple(whole)

    assert two.task(task).is_locked_out("Alice")
    assert two.task(task).inbox.conflicts == ()
    assert state(one) == state(two)


class JumpingClock(FakeClock):
    """A clock that jumps ahead after it was read so often."""

    def __init__(self, start: str, after: int) -> None:
        super().__init__(start)
        self._after = after

    def now(self) -> str:
        self._after -= 1
        if not self._after:
            self.advance(400 * DAY)
        return super().now()


def test_events_of_others_that_were_read_under_the_wrong_clock_are_held_back_by_the_repair(
    one: FakeLedger, two: FakeLedger
) -> None:
    two.clock.advance(2 * DAY)
    theirs = two.add("Theirs")
    one.clock.advance(400 * DAY)
    send(two, one)
    assert theirs in one.tasks()
    one.clock.advance(-400 * DAY)
    assert one.refusal(c.AddTask(title="Mine")).code == "clock_ahead"

    found = repair(one)
    mine = one.add("Mine")

    assert ([event.name for event, _ in found.foreign], found.own) == (["node.create"], ())
    assert set(one.tasks()) == {mine}
    one.clock.advance(2 * DAY)
    one.ledger.refresh()
    assert set(one.tasks()) == {mine, theirs}


def test_a_machine_that_lost_its_ledger_repairs_what_its_own_key_signed(
    one: FakeLedger, two: FakeLedger
) -> None:
    task = rejected_under(one, 400 * DAY)
    again = machine(4, FakeClock(), ONE)
    send(one, again)
    assert not again.task(task).people.lockouts

    assert repair(again).own
    send(again, two)

    assert again.task(task).is_locked_out("Alice")
    assert state(again) == state(two)


def test_a_clock_that_is_set_back_loses_nothing(one: FakeLedger) -> None:
    tasks = {one.add("One"), one.add("Two")}
    one.clock.advance(-400 * DAY)

    assert one.refusal(c.AddTask(title="Three")).code == "clock_ahead"
    one.clock.advance(400 * DAY)
    tasks.add(one.add("Three"))

    assert set(one.tasks()) == tasks
    assert problems(one) == []


def test_a_ledger_whose_clock_is_ahead_is_named_by_verify(one: FakeLedger) -> None:
    rejected_under(one, 400 * DAY)

    assert any("remand log repair" in problem for problem in problems(one))


def test_what_was_answered_before_is_answered_again_while_the_clock_is_ahead(one: FakeLedger) -> None:
    one.clock.advance(400 * DAY)
    first = one.ask(c.AddTask(title="One"), key="k")
    one.clock.advance(-400 * DAY)

    assert one.ask(c.AddTask(title="One"), key="k").task == first.task


def test_a_repair_is_the_users_alone(one: FakeLedger) -> None:
    rejected_under(one, 400 * DAY)

    with pytest.raises(Refused) as refused:
        repair_clock(one.ledger, TEAM.actor("Alice"))

    assert refused.value.code == "user_only"
    assert not any(isinstance(event, EventsVoided) for event in one.events())


def test_a_repair_that_was_killed_after_its_write_is_taken_in_once(one: FakeLedger, two: FakeLedger) -> None:
    task = rejected_under(one, 400 * DAY)
    one.exchange.die_after_next_append()
    with pytest.raises(ProcessKilled):
        repair(one)

    one.reopen()
    one.ledger.refresh()
    repair(one)
    one.add("More")
    send(one, two)

    assert one.task(task).reviews.rejection_count == 1
    assert state(one) == state(two)
    assert problems(one) == problems(two) == []


@pytest.mark.parametrize("keys", [None, STRANGER], ids=["unsigned", "signed by a stranger"])
def test_a_void_that_no_trusted_key_covers_voids_nothing(one: FakeLedger, keys: Keys | None) -> None:
    task = one.add("Mend the roof")
    victim = one.events()[0].meta
    forger = Session("20261115-080000-000000ff", keys=keys, project="p")
    forger.write(EventsVoided(session=victim.session, first=1, last=1, chain="", events=(victim.id,)))
    read_in(one, forger)

    assert task in one.tasks()
    assert problems(one) == []


def test_events_that_no_trusted_key_covers_never_move_the_clock(one: FakeLedger) -> None:
    for number, keys in enumerate((None, STRANGER)):
        forger = Session(
            f"20261115-080000-000000f{number}", FakeClock(add_seconds(START, 590)), keys=keys, project="p"
        )
        forger.write(task_added())
        one.exchange.put(f"/events/{number}.jsonl", forger.lines)
    one.ledger.refresh()

    one.add("Mine")

    assert max(event.ts for event in one.events() if event.meta.session.endswith("00000001")) < add_seconds(
        START, 60
    )


def test_a_repair_elsewhere_lets_this_machine_write_again(one: FakeLedger, two: FakeLedger) -> None:
    task = rejected_under(one, 400 * DAY)
    two.clock.advance(400 * DAY)
    send(one, two)
    two.clock.advance(-400 * DAY)
    assert two.refusal(c.EditTask(task_id=task, title="Later")).code == "clock_ahead"

    repair(one)
    send(one, two)

    two.ask(c.EditTask(task_id=task, title="Later"))
    send(two, one)
    assert state(one) == state(two)


def test_a_void_event_that_is_read_again_stays_void(one: FakeLedger, two: FakeLedger) -> None:
    rejected_under(one, 400 * DAY)
    repair(one)
    send(one, two)
    before = state(two)

    path, file = min(one.exchange.contents.items())
    assert b"review.reject" in file.data
    assert b"log.void" not in file.data
    two.exchange.put(path, file.data.rstrip(b"\n").split(b"\n"))
    two.ledger.refresh()

    assert state(two) == before
    assert problems(two) == []


def test_a_repair_counts_when_its_key_is_trusted_and_no_more_when_it_is_not(
    one: FakeLedger, two: FakeLedger
) -> None:
    task = rejected_under(one, 400 * DAY)
    rules = two.rules
    two.rules = replace(rules, trusted=(TWO.ensure_key(),))
    two.clock.advance(400 * DAY)
    send(one, two)
    two.clock.advance(-400 * DAY)
    repair(one)
    send(one, two)
    assert task not in two.tasks()

    two.rules = rules
    two.ledger.refresh()
    assert state(two) == state(one)

    two.rules = replace(rules, trusted=(TWO.ensure_key(),))
    two.ledger.refresh()
    assert two.tasks() == {}


def test_a_ledger_reads_what_was_written_before_it_knew_the_bound_as_before(
    one: FakeLedger, two: FakeLedger
) -> None:
    two.clock.advance(5 * 3600)
    early, late = two.add("Early"), ""
    with one.store.write() as tx:
        tx.head = replace(tx.head, bounded_from=two.clock.now())
    late = two.add("Late")

    send(two, one)

    assert set(one.tasks()) == {early}
    one.clock.advance(5 * 3600)
    one.ledger.refresh()
    assert set(one.tasks()) == {early, late}


def test_the_bound_is_the_policys(one: FakeLedger, two: FakeLedger) -> None:
    one.rules = replace(one.rules, policy=Policy(clock_skew_seconds=7200))
    two.clock.advance(3600)
    task = two.add("Theirs")

    send(two, one)
    one.add("Mine")

    assert task in one.tasks()


def test_what_a_task_publishes_names_what_is_void(one: FakeLedger, two: FakeLedger) -> None:
    task = rejected_under(one, 400 * DAY)
    repair(one)
    with one.store.read() as view:
        lines = lines_of_task(view, task)

    two.exchange.put(THEIRS, lines)
    two.ledger.refresh()
    two.clock.advance(500 * DAY)
    two.ledger.refresh()

    assert two.task(task).reviews.rejection_count == 1
    assert two.task(task) == one.task(task)


def test_nothing_happens_by_itself_while_the_clock_is_ahead(one: FakeLedger, two: FakeLedger) -> None:
    task = one.add("Mend the roof")
    one.claim(task)
    two.clock.advance(3600)
    two.add("Theirs")
    one.clock.advance(3500)
    send(two, one)
    one.clock.advance(-1600)

    assert one.refusal(c.AddTask(title="Mine")).code == "clock_ahead"
    assert one.task(task).claim is not None
    one.clock.advance(3600)
    one.add("Mine")
    assert one.task(task).claim is None


def test_another_key_leaves_what_was_written_before_the_bound_as_it_was(one: FakeLedger) -> None:
    one.add("Mine")
    with one.store.write() as tx:
        tx.head = replace(tx.head, bounded_from=START)
    one.keys = TWO
    one.reopen()

    one.add("Mine too")

    with one.store.read() as view:
        assert (view.head.key, view.head.bounded_from) == (TWO.ensure_key().id, START)


def test_a_clone_that_never_saw_the_events_that_were_ahead_has_the_same_state(
    one: FakeLedger, two: FakeLedger
) -> None:
    rejected_under(one, 400 * DAY)
    repair(one)
    ahead, repaired = (
        one.exchange.contents[path].data.split(b"\n") for path in sorted(one.exchange.contents)
    )

    two.exchange.put(THEIRS, [*ahead[:2], *repaired[:-1]])
    two.ledger.refresh()

    assert not any(event.ts > add_seconds(START, DAY) for event in two.events())
    assert state(two) == state(one)


def test_the_board_says_that_nothing_can_be_written_while_the_clock_is_ahead(one: FakeLedger) -> None:
    rejected_under(one, 400 * DAY)

    def first_trouble() -> str:
        with one.store.read() as view:
            return read_board(view, BoardContext(now=one.clock.now(), rules=one.rules)).troubles[0].text

    assert "remand log repair" in first_trouble()
    repair(one)
    assert "remand log repair" not in first_trouble()
