"""Holds that a ledger's own session stays its own, whatever others write under its name or into its file."""

import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from remand.app.events.event_files import read_continuation
from remand.app.events.signatures import Verifier
from remand.app.log.exchange import import_lines, read_legacy_file
from remand.app.log.verification import state_digest, verify_log
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.keys import Trust
from remand.domain.events.event import Meta
from remand.domain.events.reviews import LockoutCleared, LockoutSet
from remand.domain.events.tasks import TaskCancelled
from remand.domain.instant import add_seconds
from remand.domain.task import Status
from remand.ledger import codec, signatures
from remand.ledger.signatures import VOID, Doubt, GroupedEvent, chain_start
from remand.ledger.store import LedgerHead
from remand.testing.builders import MACHINE, T1, T2, Session, task_added, task_claimed
from remand.testing.fakes import FakeClock
from tests.support.builders import THE_USER, FakeLedger
from tests.support.fakes import ProcessKilled

PROJECT = "0123456789abcdef"
FORGED = "/events/0-forged.jsonl"
LATER = "2026-11-15T09:05:00.000000Z"


def a_world() -> FakeLedger:
    return FakeLedger(rules=rules(PROJECT))


def rules(project: str) -> Rules:
    return Rules(gates=(), project=project, trusted=(MACHINE.ensure_key(),))


def head(world: FakeLedger) -> LedgerHead:
    with world.store.read() as view:
        return view.head


def segment(world: FakeLedger) -> str:
    return world.exchange.path(head(world).segment)


def forged_from(world: FakeLedger, first: int, count: int = 1, task: str = T1) -> list[bytes]:
    """Unsigned lines under the name of the ledger's own session, from that number on."""
    session, prev, lines = head(world).session, head(world).tip, []
    for seq in range(first, first + count):
        meta = Meta(id="", session=session, seq=seq, prev=prev, actor="user")
        stamped, line = codec.encode_event(
            TaskCancelled(ts=LATER, task_id=task, reason=f"forged {seq}"), meta
        )
        prev = stamped.meta.id
        lines.append(line)
    return lines


def put(world: FakeLedger, lines: list[bytes], path: str = FORGED) -> None:
    world.exchange.put(path, lines)
    world.ledger.refresh()


def state(world: FakeLedger) -> tuple[str, int]:
    with world.store.read() as view:
        return state_digest(view)


def problems(world: FakeLedger) -> list[str]:
    with world.store.read() as view:
        found = verify_log(view, world.exchange, world.marks, world.clock, world.ledger.verifier(view))
    return [problem.problem for problem in found.problems]


def doubts(world: FakeLedger) -> list[Doubt]:
    with world.store.read() as view:
        return [found.doubt for found in view.unconfirmed.every()]


def made_anew(world: FakeLedger) -> FakeLedger:
    """Another ledger of the same machine, made from the same files."""
    again = FakeLedger(rules=world.rules, session="20261117-090000-00000000", exchange=world.exchange)
    again.marks = world.marks
    again.reopen()
    again.ledger.refresh()
    return again


# Forged lines under the session's own name.


@pytest.mark.parametrize(
    "first", [1, 2, 3, 4], ids=["in the place of the first", "of the last", "next", "a gap on"]
)
def test_a_lost_file_is_written_again_with_ones_own_lines_whoever_wrote_others_under_their_numbers(
    first: int,
) -> None:
    world = a_world()
    task = world.add("One")
    put(world, forged_from(world, first, 3, task))
    world.add("Two")
    world.add("Three")
    expected = state(world)

    world.exchange.lose(segment(world))
    world.add("Four")
    world.exchange.lose(FORGED)

    assert state(world) != expected
    assert state(made_anew(world)) == state(world)
    assert len(made_anew(world).tasks()) == 4


@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_a_project_that_gets_another_id_keeps_every_event_of_ones_own_whoever_took_its_number(
    first: int,
) -> None:
    world = a_world()
    task = world.add("One")
    put(world, forged_from(world, first, 2, task))
    world.add("Two")
    world.add("Three")
    before = world.tasks()

    world.rules = rules("fedcba9876543210")
    world.ledger.refresh()

    assert world.tasks() == before
    assert set(doubts(world)) == {Doubt.UNSIGNED}
    world.add("Four")
    assert len(made_anew(world).tasks()) == 4


def test_a_session_of_an_earlier_version_is_signed_by_its_own_chain_and_not_by_what_was_forged_into_it() -> (
    None
):
    """Its tables believed every line: what stands in them under the session's name need not be its own."""
    old = Session("20261115-090000-00000000", keys=None)
    entries = [
        old.entry(event) for event in (task_added(T1), LockoutSet(task_id=T1, agent="Alice"), task_added(T2))
    ]
    forger = Session(old.name, FakeClock(LATER), keys=None)
    forger.entry(task_added("T-9"))
    unlock = forger.entry(LockoutCleared(task_id=T1, agent="Alice"))
    late = Session(old.name, FakeClock(LATER), keys=None)
    late.seq = 3
    beyond = late.entry(TaskCancelled(task_id=T1))
    world = a_world()
    with world.store.write() as tx:
        tx.events.add([unlock, *entries, beyond])
        tip = entries[-1].event.meta
        tx.head = LedgerHead(session=old.name, seq=3, tip=tip.id, clock=tip.id and entries[-1].event.ts)

    world.ledger.refresh()

    assert world.task(T1).is_locked_out("Alice")
    assert set(world.tasks()) == {T1, T2}
    assert doubts(world) == [Doubt.UNSIGNED] * 2


def test_what_a_killed_command_began_is_gone_on_from_whoever_took_its_number() -> None:
    world = a_world()
    task = world.add("One")
    put(world, forged_from(world, 2, 2, task))
    world.exchange.track()
    world.exchange.die_after_next_append()
    with pytest.raises(ProcessKilled):
        world.add("Two")
    world.reopen()

    world.add("Three")

    assert [task.title for task in world.tasks().values()] == ["One", "Two", "Three"]
    numbers = [line for line in world.exchange.all_lines() if signatures.is_group(line)]
    assert [signatures.decode_group(line).first for line in numbers] == [1, 2, 3]


# Forged lines in the session's own file.


def lines_before(world: FakeLedger, forged: bytes, at: int) -> bytes:
    lines = world.exchange.contents[segment(world)].data.splitlines(keepends=True)
    return b"".join([*lines[:at], forged, *lines[at:]])


@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("is_as_long", [False, True], ids=["", "as long as the last group"])
def test_a_line_put_into_the_open_file_anywhere_has_no_effect_and_costs_no_line(
    at: int, is_as_long: bool
) -> None:
    world = a_world()
    task = world.add("One")
    world.add("Two")
    world.add("Three")
    lines = world.exchange.contents[segment(world)].data.splitlines(keepends=True)
    forged = forged_from(world, 4, 1, task)[0]
    if is_as_long:
        size = sum(map(len, lines[-2:])) - 1
        event = codec.decode_line(forged)
        short = codec.encode_event(replace(event, reason=""), replace(event.meta, id=""))[1]
        forged = codec.encode_event(
            replace(event, reason="x" * (size - len(short) - 12)), replace(event.meta, id="")
        )[1]
        assert len(forged) == size
    world.exchange.contents[segment(world)].data = lines_before(world, forged + b"\n", at)

    world.add("Four")

    assert world.task(task).status == Status.INCOMING
    assert b"forged" not in b"".join(line for line in world.exchange.all_lines() if signatures.is_group(line))
    assert [one.title for one in made_anew(world).tasks().values()] == ["One", "Two", "Three", "Four"]
    assert made_anew(world).task(task).status == Status.INCOMING
    assert state(made_anew(world)) == state(world)
    assert world.exchange.set_aside


# Groups that come after their events.


def later(session: Session) -> tuple[list[bytes], list[bytes]]:
    """The events' lines, and those of the groups that cover them."""
    groups = [line for line in session.lines if signatures.is_group(line)]
    return session.event_lines, groups


def both_ways(session: Session) -> tuple[FakeLedger, FakeLedger]:
    """A ledger that read the groups first, and one that read the events first."""
    events, groups = later(session)
    found = []
    for order in ((groups, events), (events, groups)):
        world = a_world()
        for number, lines in enumerate(order):
            put(world, lines, f"/events/{number}.jsonl")
        found.append(world)
    return found[0], found[1]


def test_events_whose_group_comes_later_name_their_handoffs_too() -> None:
    session = Session(project=PROJECT)
    session.write(task_added())
    session.write(task_claimed())
    events, groups = later(session)
    world = a_world()
    world.exchange.put("/events/1.jsonl", events)
    world.exchange.put("/events/2.jsonl", groups)
    world.ledger.refresh()

    claim = world.task(T1).claim
    assert claim is not None
    with world.store.read() as view:
        assert view.names.find_task_id(claim.handoff_id) == T1


def test_events_whose_group_comes_later_move_the_clock_and_raise_the_mark() -> None:
    session = Session(project=PROJECT, clock=FakeClock(LATER))
    session.write(task_added())
    one, other = both_ways(session)

    assert head(one).clock == head(other).clock
    assert one.marks.all() == other.marks.all() != {}


def test_an_event_named_as_void_is_void_whenever_that_is_read() -> None:
    session = Session(keys=None)
    stamped = session.write(task_added())
    signer = FakeLedger(rules=rules(PROJECT)).keys
    from remand.app.events.signatures import Signer

    start = chain_start(session.name, signer.ensure_key().id)
    groups = Signer(signer, PROJECT).sign(
        session.name, 1, start, [GroupedEvent(stamped.meta.id, VOID)], stamped.ts
    )
    session.lines = [*map(signatures.encode_group, groups), *session.lines]
    one, other = both_ways(session)

    assert doubts(one) == doubts(other) == [Doubt.VOID]
    assert state(one) == state(other)


# Lines of GoT tools.


def old_line(name: str, **fields: object) -> bytes:
    meta = {"session": "s"}
    return json.dumps({"ts": "2025-12-20T00:00:00Z", "event": name, "meta": meta, **fields}).encode()


def test_a_forged_beginning_of_an_old_handoff_does_not_give_its_story_to_another_task() -> None:
    lines = [old_line("node.create", id=name, type="TASK", data={"title": name}) for name in ("T-1", "T-2")]
    lines += [
        old_line("handoff.initiate", handoff_id="H-1", task_id="task:T-1", target_agent="sub"),
        old_line("handoff.accept", handoff_id="H-1", agent="sub"),
    ]
    world = a_world()
    put(world, lines, "/events/old.jsonl")
    import_lines(world.ledger, [read_legacy_file(world.exchange, "/events/old.jsonl")], THE_USER)
    forged = old_line("handoff.initiate", handoff_id="H-1", task_id="task:T-2", target_agent="eve")

    put(world, [forged])

    for one in (world, made_anew(world)):
        with one.store.read() as view:
            assert set(view.events.of_task("T-1")) == {lines[0], *lines[2:]}
            assert view.events.of_task("T-2") == lines[1:2]


# What `log verify` says.


def cut(world: FakeLedger, keep: Callable[[int], bool]) -> None:
    path = segment(world)
    lines = world.exchange.contents[path].data.splitlines(keepends=True)
    world.exchange.lose(path)
    world.exchange.put(path, [line[:-1] for n, line in enumerate(lines) if keep(n)])


def three_events() -> tuple[FakeLedger, str]:
    world = a_world()
    task = world.add("One")
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="Hasty"))
    world.ask(c.LockOut(task_id=task, agent="Bob", reason="Hasty"))
    return world, task


@pytest.mark.parametrize("gone", [3, 5], ids=["in the middle", "the last"])
@pytest.mark.parametrize("is_late", [False, True], ids=["", "dated ahead"])
def test_a_forged_line_does_not_stand_in_for_one_that_is_gone(gone: int, is_late: bool) -> None:
    world, task = three_events()
    assert problems(made_anew(world)) == []
    (line,) = forged_from(world, gone // 2 + 1, 1, task)
    if is_late:
        event = codec.decode_line(line)
        line = codec.encode_event(replace(event, ts=add_seconds(LATER, 10**6)), replace(event.meta, id=""))[1]
    cut(world, lambda n: n != gone)
    world.exchange.put(FORGED, [line])

    found = problems(made_anew(world))

    assert any(f"event {gone // 2 + 1} of session" in one and "is missing" in one for one in found), found


@pytest.mark.parametrize("gone", [0, 2, 4], ids=["first", "middle", "last"])
def test_an_event_whose_group_alone_is_gone_is_named(gone: int) -> None:
    world, _ = three_events()
    cut(world, lambda n: n != gone)

    assert any(f"event {gone // 2 + 1} of session" in one for one in problems(made_anew(world)))


# What is taken for the ledger's own: groups that its key signed, with the very events that they name.


def left_behind() -> tuple[LedgerHead, list[bytes], Verifier]:
    """The head of a session, and one more signed event that a killed command left behind it."""
    session = Session(keys=MACHINE)
    first = session.write(task_added(T1))
    own = LedgerHead(
        session=session.name,
        seq=1,
        tip=first.meta.id,
        clock=first.ts,
        chain=session.chain,
        key=MACHINE.ensure_key().id,
    )
    session.write(LockoutSet(task_id=T1, agent="Alice"))
    return own, session.lines[2:], Verifier(Trust(keys=(MACHINE.ensure_key(),)), MACHINE)


def test_a_whole_group_of_the_own_key_is_continued() -> None:
    own, lines, verifier = left_behind()

    assert read_continuation(own, lines, verifier).head.seq == 2


def test_a_group_that_the_own_key_did_not_sign_is_not_continued() -> None:
    own, (group, event), verifier = left_behind()
    unsigned = signatures.encode_group(replace(signatures.decode_group(group), signature=""))

    assert read_continuation(own, [unsigned, event], verifier).entries == []


def test_a_group_is_not_continued_with_an_event_that_it_does_not_name() -> None:
    own, (group, _), verifier = left_behind()
    other = Session(keys=None)
    other.seq, other.tip = 1, own.tip
    other.write(LockoutCleared(task_id=T1, agent="Alice"))

    assert read_continuation(own, [group, *other.lines], verifier).entries == []
