"""Holds that a key with an end counts up to there: not later, not elsewhere, in whatever order files are read."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from remand.app.log.exchange import import_lines, read_legacy_file
from remand.app.log.verification import state_digest
from remand.app.ports import Keys
from remand.app.requests import Rules
from remand.domain.access.keys import ChainEnd
from remand.domain.events.reviews import LockoutCleared, LockoutSet
from remand.domain.events.tasks import TaskCancelled
from remand.ledger import codec, signatures
from remand.ledger.signatures import Doubt, EventGroup, GroupedEvent
from remand.testing.builders import MACHINE, T1, T2, Session, task_added
from remand.testing.fakes import FakeClock, FakeKeys
from tests.support.builders import THE_USER, FakeLedger
from tests.support.log_checks import verify_in_parts

PROJECT = "0123456789abcdef"
OTHER = FakeKeys("other machine")
SESSION = "20261115-090000-000000ff"
AGENTS = ("Alice", "Bob", "Carol", "Dora", "Eve")


def locked_out(session: Session, *agents: str) -> None:
    for agent in agents:
        session.write(LockoutSet(task_id=T1, agent=agent))


def a_session(name: str = SESSION, *, first: tuple[str, ...] = AGENTS) -> Session:
    """A task, and then a lockout an event, each in a group of its own."""
    session = Session(name, FakeClock("2026-11-15T09:03:00.000000Z"), keys=OTHER, project=PROJECT)
    session.write(task_added(T1))
    locked_out(session, *first)
    return session


def groups(session: Session) -> list[EventGroup]:
    return [signatures.decode_group(line) for line in session.lines if signatures.is_group(line)]


def end(session: Session, number: int) -> ChainEnd:
    return ChainEnd(session=session.name, number=number, chain=groups(session)[number - 1].after)


def rules(*ends: ChainEnd) -> Rules:
    """Rules that trust the other machine up to these places."""
    return Rules(
        gates=(),
        project=PROJECT,
        trusted=(MACHINE.ensure_key(), replace(OTHER.ensure_key(), until=tuple(ends))),
    )


def whole() -> Rules:
    return Rules(gates=(), project=PROJECT, trusted=(MACHINE.ensure_key(), OTHER.ensure_key()))


def a_world(*files: list[bytes], by: Rules) -> FakeLedger:
    world = FakeLedger(rules=by)
    for number, lines in enumerate(files):
        world.exchange.put(f"/events/{number}.jsonl", lines)
        world.ledger.refresh()
    return world


def locked(world: FakeLedger) -> set[str]:
    """Who is locked out; nobody where there is no task."""
    task = world.tasks().get(T1)
    return {lockout.agent for lockout in task.people.lockouts} if task else set()


def state(world: FakeLedger) -> tuple[object, ...]:
    found = verify_in_parts(world)
    with world.store.read() as view:
        assert not [one for one in found.problems if "the ledger was changed" in one.problem]
        return (state_digest(view)[0], sorted(one.doubt for one in view.unconfirmed.every()))


def test_what_a_key_signed_up_to_its_end_counts_and_what_it_signed_later_does_not() -> None:
    session = a_session()

    world = a_world(session.lines, by=rules(end(session, 3)))

    assert locked(world) == {"Alice", "Bob"}
    assert state(world)[1] == [Doubt.REVOKED] * 3


@pytest.mark.parametrize("number", range(1, 7))
def test_an_end_that_is_set_later_changes_a_ledger_as_if_it_had_always_been_there(number: int) -> None:
    session = a_session()
    by = rules(end(session, number))
    before = a_world(session.lines, by=whole())
    assert locked(before) == set(AGENTS)

    before.rules = by
    before.ledger.refresh()

    assert state(before) == state(a_world(session.lines, by=by))
    assert locked(before) == set(AGENTS[: number - 1])
    before.rules = whole()
    before.ledger.refresh()
    assert state(before) == state(a_world(session.lines, by=whole()))


def test_of_a_session_that_the_end_does_not_name_nothing_counts() -> None:
    named, other = a_session(), a_session("20261115-090000-000000ee", first=())
    other.write(TaskCancelled(task_id=T1))

    world = a_world(named.lines, other.lines, by=rules(end(named, 6)))

    assert world.task(T1).status == "incoming"
    assert state(world)[1] == [Doubt.REVOKED] * 2


def test_a_key_whose_end_names_no_session_counts_for_nothing() -> None:
    assert a_world(a_session().lines, by=rules()).tasks() == {}


def test_another_branch_of_the_chain_does_not_count_though_the_key_signed_it() -> None:
    true = a_session()
    stolen = a_session(first=("Alice", "Mallory", "Mallory 2", "Mallory 3"))

    for files in permutations([true.lines, stolen.lines]):
        world = a_world(*files, by=rules(end(true, 4)))
        assert locked(world) == {"Alice", "Bob", "Carol"}


def regrouped(session: Session, first: int, last: int) -> list[bytes]:
    """Events of a session in one group in place of several, and their lines."""
    own = groups(session)
    names: tuple[GroupedEvent, ...] = tuple(group.events[0] for group in own[first - 1 : last])
    signer = session.signer
    assert signer is not None
    (group,) = signer.sign(session.name, first, own[first - 1].before, names, own[0].ts)
    return [signatures.encode_group(group), *session.event_lines[first - 1 : last]]


@pytest.mark.parametrize(("first", "last"), [(1, 6), (2, 5), (4, 6), (3, 4), (1, 4)])
def test_an_end_in_the_middle_of_a_group_cuts_it_there(first: int, last: int) -> None:
    session = a_session()
    files = [
        part
        for part in (
            regrouped(session, 1, first - 1) if first > 1 else [],
            regrouped(session, first, last),
            regrouped(session, last + 1, 6) if last < 6 else [],
        )
        if part
    ]

    outcomes = {
        (frozenset(locked(world)), str(state(world)))
        for order in permutations(files)
        for world in [a_world(*order, by=rules(end(session, 4)))]
    }

    assert [agents for agents, _ in outcomes] == [frozenset({"Alice", "Bob", "Carol"})]


def test_the_outcome_does_not_depend_on_the_order_of_files_groups_and_lines() -> None:
    session = a_session(first=AGENTS[:3])
    parts = [session.lines[number : number + 2] for number in range(0, 8, 2)]
    stolen = a_session(first=("Alice", "Mallory", "Mallory 2")).lines[4:]
    by = rules(end(session, 3))

    outcomes = {str(state(a_world(*order, by=by))) for order in permutations([*parts, stolen])}

    assert len(outcomes) == 1
    assert locked(a_world(*parts, stolen, by=by)) == {"Alice", "Bob"}


def test_lines_and_groups_that_come_apart_count_once_they_lead_to_the_end() -> None:
    session = a_session(first=AGENTS[:2])
    lines, own = session.event_lines, [line for line in session.lines if signatures.is_group(line)]
    by = rules(end(session, 2))

    outcomes = {
        str(state(a_world(*order, by=by))) for order in permutations([lines, own[:1], own[1:2], own[2:]])
    }

    assert len(outcomes) == 1
    assert locked(a_world(own[1:], lines, own[:1], by=by)) == {"Alice"}


def test_what_does_not_lead_to_the_end_waits_for_what_stands_between() -> None:
    session = a_session()
    by = rules(end(session, 5))

    world = a_world(session.lines[:4], session.lines[8:], by=by)
    assert locked(world) == set(), "the task is not known to be on the branch that the end is on"
    world.exchange.put("/events/between.jsonl", session.lines[4:8])
    world.ledger.refresh()

    assert locked(world) == {"Alice", "Bob", "Carol", "Dora"}
    assert state(world)


def test_a_group_in_the_keys_name_that_it_did_not_sign_is_bound_by_the_chain() -> None:
    session = a_session()
    last = groups(session)[3]
    forged = Session(SESSION, keys=None)
    forged.seq, forged.tip = 3, codec.decode_line(session.event_lines[2]).meta.id
    event = forged.write(LockoutCleared(task_id=T1, agent="Alice"))
    false = replace(last, events=(GroupedEvent(event.meta.id, T1),), signature="A" * 86)

    world = a_world(session.lines, [signatures.encode_group(false), *forged.lines], by=rules(end(session, 4)))

    assert locked(world) == {"Alice", "Bob", "Carol"}


@pytest.mark.parametrize("number", [0, 3, 5, 900])
def test_an_end_with_the_chain_of_another_number_lets_nothing_count(number: int) -> None:
    session = a_session()
    wrong = replace(end(session, 4), number=number)

    assert locked(a_world(session.lines, by=rules(wrong))) == set()


def test_a_new_key_beside_an_old_one_with_an_end_goes_on() -> None:
    session, new = a_session(), FakeKeys("new machine")
    later = Session(
        "20261115-100000-000000dd", FakeClock("2026-11-15T09:06:00.000000Z"), keys=new, project=PROJECT
    )
    later.write(task_added(T2))
    later.write(LockoutCleared(task_id=T1, agent="Alice"))
    by = rules(end(session, 3))
    by = replace(by, trusted=(*by.trusted, new.ensure_key()))

    world = a_world(session.lines, later.lines, by=by)

    assert locked(world) == {"Bob"}
    assert set(world.tasks()) == {T1, T2}


def test_what_this_machine_writes_counts_here_whatever_the_base_says_of_its_key() -> None:
    world = FakeLedger(rules=replace(whole(), trusted=(replace(MACHINE.ensure_key(), until=()),)))

    task = world.add()
    world.reopen().refresh()

    assert task in world.tasks()


# Lines of GoT tools, which count by the signature of whoever imported them.


def an_import(lines: list[bytes], keys: Keys = OTHER) -> list[bytes]:
    """The groups by which somebody imported lines."""
    world = FakeLedger(rules=whole(), keys=keys)
    world.exchange.put("/events/old.jsonl", lines)
    world.ledger.refresh()
    import_lines(world.ledger, [read_legacy_file(world.exchange, "/events/old.jsonl")], THE_USER)
    written = (file.data.splitlines() for path, file in world.exchange.contents.items() if "old" not in path)
    return [line for part in written for line in part]


OLD = [
    b'{"ts":"2026-11-15T08:00:00.000000Z","event":"node.create","id":"T-%d","type":"TASK","data":{"title":"a"},"meta":{"session":"x"}}'
    % number
    for number in (1, 2, 3)
]


@pytest.mark.parametrize("is_import_first", [True, False])
def test_an_import_by_a_key_that_is_not_trusted_makes_no_line_count(is_import_first: bool) -> None:
    groups_of_stranger = an_import(OLD, FakeKeys("a stranger"))

    files = [groups_of_stranger, OLD] if is_import_first else [OLD, groups_of_stranger]

    assert a_world(*files, by=whole()).tasks() == {}


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_an_end_holds_for_what_the_key_imported(number: int) -> None:
    lines = an_import(OLD)
    group = signatures.decode_group(lines[0])
    assert group.session.startswith("import-")
    ends = (ChainEnd(session=group.session, number=number, chain=group.chain_at(number)),) if number else ()

    outcomes = [set(a_world(*order, by=rules(*ends)).tasks()) for order in permutations([OLD, lines])]

    assert outcomes == [{f"T-{n}" for n in range(1, number + 1)}] * 2
