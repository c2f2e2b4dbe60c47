"""Holds that what others wrote is read in whole, once, and with everything wrong in it told."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from remand.app import ledger
from remand.app.events import intake
from remand.app.events.intake import changed_event_files, file_problems
from remand.app.events.signatures import Verifier
from remand.app.log.exchange import import_lines, read_legacy_file
from remand.app.log.verification import state_digest, verify_log
from remand.domain.events.tasks import TaskChanges, TaskEdited
from remand.domain.ids import task_node_id
from remand.domain.task import Status
from remand.ledger.store import Transaction
from remand.testing.builders import H1, H2, NOW, T1, T2, Session, task_added, task_claimed, task_id
from remand.testing.fakes import FakeClock
from tests.support.builders import THE_USER, FakeLedger, dependency_created, gate_passed_and_submitted

THEIRS = "/events/theirs.jsonl"


def read_in(world: FakeLedger, lines: list[bytes], path: str = THEIRS) -> None:
    world.exchange.put(path, lines)
    world.ledger.refresh()


def problems(world: FakeLedger) -> list[tuple[int, str]]:
    with world.store.read() as view:
        return [(problem.line, problem.problem) for problem in view.files.problems()]


def test_the_events_of_a_file_become_tasks() -> None:
    world, session = FakeLedger(), Session()
    for event in (task_added(T1), task_added(T2), task_claimed("Alice"), *gate_passed_and_submitted("Alice")):
        session.write(event)

    read_in(world, session.lines)

    assert world.task(T1).status == Status.PROVISIONAL
    assert world.ready() == [T2]


def test_reading_appends_nothing() -> None:
    world, session = FakeLedger(), Session()
    for event in (task_added(), task_claimed("Alice"), task_claimed("Bob", H2)):
        session.write(event)

    read_in(world, session.lines)

    assert world.task(T1).inbox.conflicts
    assert list(world.exchange.contents) == [THEIRS]
    assert len(world.events()) == 3


def test_a_file_is_read_once_and_again_only_when_it_has_changed() -> None:
    world, session = FakeLedger(), Session()
    session.write(task_added())
    read_in(world, session.lines)

    with world.store.read() as view:
        assert changed_event_files(view, world.exchange) == []
    world.exchange.grow(THEIRS, b"\n")
    with world.store.read() as view:
        assert [mark.path for mark in changed_event_files(view, world.exchange)] == [THEIRS]


def test_the_open_segment_of_ones_own_is_no_news() -> None:
    world = FakeLedger()
    world.add("One")

    with world.store.read() as view:
        assert changed_event_files(view, world.exchange) == []


def test_copies_of_an_event_count_once() -> None:
    world, session = FakeLedger(), Session()
    for event in (task_added(), dependency_created(T1, T2), task_claimed("Alice")):
        session.write(event)

    read_in(world, session.lines + session.lines)
    read_in(world, session.lines[::-1], "/events/copy.jsonl")

    assert len(world.events()) == 3
    assert world.task(T1).inbox.conflicts == ()
    assert world.task(T1).claims.attempt_count == 1


def test_files_of_windows_and_files_without_an_end_are_read() -> None:
    world, session = FakeLedger(), Session()
    for n in range(3):
        session.write(task_added(task_id(n)))
    read_in(world, [])
    world.exchange.grow(THEIRS, b"\r\n".join(session.lines))
    world.ledger.refresh()

    assert len(world.tasks()) == 3
    assert problems(world) == []


def test_what_is_wrong_is_told_by_line_and_the_good_events_are_kept() -> None:
    world, session = FakeLedger(), Session()
    for n in range(3):
        session.write(task_added(task_id(n)))
    one, two, three = session.event_lines
    groups = session.lines[::2]

    read_in(
        world,
        [
            *(b"<<<<<<< HEAD", one, b"=======", b"", two, b">>>>>>> topic", three[:-9], b"\x00" * 8, b"null"),
            *groups,
            groups[2][:-9],
        ],
    )

    assert set(world.tasks()) == {task_id(0), task_id(1)}
    assert sorted(line for line, _ in problems(world)) == [1, 3, 6, 7, 8, 9, 13]
    assert any("conflict marker" in problem for line, problem in problems(world) if line == 1)


def test_a_file_that_was_mended_has_nothing_wrong_any_more() -> None:
    world, session = FakeLedger(), Session()
    session.write(task_added())
    read_in(world, [b"odd", *session.lines])
    assert problems(world)

    read_in(world, session.lines)

    assert problems(world) == []


def test_a_file_that_cannot_be_read_is_told_and_others_are_read() -> None:
    world, session = FakeLedger(), Session()
    session.write(task_added())
    world.exchange.put("/events/a.jsonl", [])
    world.exchange.put(THEIRS, session.lines)
    reading = world.exchange.read
    world.exchange.read = lambda path: (
        iter([(0, "is a FIFO")]) if path == "/events/a.jsonl" else reading(path)
    )

    world.ledger.refresh()

    assert problems(world) == [(0, "is a FIFO")]
    assert T1 in world.tasks()


def test_the_clock_is_moved_by_what_others_wrote() -> None:
    world, session = FakeLedger(), Session(clock=FakeClock("2026-11-15T09:09:00.000000Z"))
    ahead = session.write(task_added())
    read_in(world, session.lines)

    world.add("Mine")

    assert world.events()[-1].ts > ahead.ts or world.events()[0].ts > ahead.ts


def test_an_event_too_far_ahead_has_no_effect_and_does_not_move_the_clock() -> None:
    world, session = FakeLedger(), Session(clock=FakeClock("2026-11-16T09:00:01.000000Z"))
    session.write(task_added())
    read_in(world, session.lines)
    world.add("Mine")

    assert T1 not in world.tasks()
    assert all(event.ts < "2026-11-15T10" for event in world.events())


def test_an_event_that_was_ahead_counts_when_its_time_has_come() -> None:
    world, session = FakeLedger(), Session(clock=FakeClock("2026-11-18T09:00:00.000000Z"))
    session.write(task_added())
    read_in(world, session.lines)
    world.add("Mine")
    world.add("Mine too")

    world.clock.advance(71 * 3600)
    world.ledger.refresh()
    assert T1 not in world.tasks()
    world.clock.advance(3600)
    world.ledger.refresh()

    assert T1 in world.tasks()


def test_what_is_too_far_ahead_is_told_by_line() -> None:
    world, session = FakeLedger(), Session(clock=FakeClock("2026-11-18T09:00:00.000000Z"))
    session.write(task_added(), at=NOW)
    session.write(task_added(T2))
    world.exchange.put(THEIRS, session.lines)

    (problem,) = file_problems(world.exchange, THEIRS, world.clock.now())

    assert (problem.file, problem.line) == (THEIRS, 4)
    assert "ahead" in problem.problem


def test_how_far_each_session_was_seen_is_remembered() -> None:
    world = FakeLedger()
    one, two = Session("one"), Session("two")
    for session in (one, two, two):
        session.write(task_added(task_id(session.seq)))

    read_in(world, two.lines + one.lines)

    assert world.marks.all() == {"one": (1, one.tip), "two": (2, two.tip)}


def test_events_of_one_task_in_many_files_are_folded_in_their_order() -> None:
    world, clock = FakeLedger(), FakeClock()
    one, two = Session("one", clock), Session("two", clock)
    one.write(task_added())
    two.write(task_claimed("Bob", H2))
    one.write(task_claimed("Alice", H1))

    read_in(world, one.lines, "/events/b.jsonl")
    assert world.task(T1).claim.agent == "Alice"
    read_in(world, two.lines, "/events/a.jsonl")

    assert world.task(T1).claim.agent == "Bob"
    assert [conflict.event for conflict in world.task(T1).inbox.conflicts] == ["task.claim"]


def test_a_fork_of_ones_own_session_loses_nothing() -> None:
    world = FakeLedger()
    mine = world.add("Mine")
    copy = Session(world.events()[0].meta.session, FakeClock("2026-11-15T09:05:00.000000Z"))
    copy.write(task_added(T1))

    read_in(world, copy.lines)

    assert set(world.tasks()) == {mine, T1}
    world.add("Mine too")
    assert len(world.tasks()) == 3


def old(name: str, **fields: object) -> bytes:
    return json.dumps(
        {"ts": "2025-12-20T00:00:00Z", "event": name, "meta": {"session": "s"}, **fields}
    ).encode()


@pytest.mark.parametrize("is_split", [False, True], ids=["one file", "two files"])
def test_an_old_handoff_belongs_to_the_task_its_beginning_named(is_split: bool) -> None:
    world = FakeLedger()
    begun, answered = [], []
    for n in ("1", "2"):
        begun.append(old("node.create", id=f"T-{n}", type="TASK", data={"title": "a"}))
        begun.append(old("handoff.initiate", handoff_id=f"H-{n}", task_id=f"task:T-{n}", target_agent="sub"))
        answered.append(old("handoff.accept", handoff_id=f"H-{n}", agent="sub"))
        answered.append(old("handoff.complete", handoff_id=f"H-{n}", agent="sub"))

    files = {THEIRS: begun, "/events/a.jsonl": answered} if is_split else {THEIRS: begun + answered}
    for path, lines in files.items():
        read_in(world, lines, path)
    assert world.tasks() == {}, "nobody has imported them"
    import_lines(world.ledger, [read_legacy_file(world.exchange, path) for path in files], THE_USER)

    with world.store.read() as view:
        for n, first in (("1", 0), ("2", 2)):
            expected = {*begun[first : first + 2], *answered[first : first + 2]}
            assert set(view.events.of_task(f"T-{n}")) == expected
            assert view.names.find_task_id(f"H-{n}") == f"T-{n}"


def test_an_imported_line_that_is_gone_is_named() -> None:
    world = FakeLedger()
    lines = [old("node.create", id=f"T-{n}", type="TASK", data={"title": "a"}) for n in ("1", "2")]
    read_in(world, lines)
    import_lines(world.ledger, [read_legacy_file(world.exchange, THEIRS)], THE_USER)
    assert set(world.tasks()) == {"T-1", "T-2"}
    world.exchange.put(THEIRS, lines[:1])

    again = FakeLedger(exchange=world.exchange, session="20261117-090000-00000000")
    again.ledger.refresh()
    with again.store.read() as view:
        verifier = again.ledger.verifier(view)
        (problem,) = verify_log(view, again.exchange, again.marks, again.clock, verifier).problems

    assert set(again.tasks()) == {"T-1"}
    assert "a line of a GoT tool about T-2" in problem.problem


def test_many_events_at_once_come_to_the_same_as_few() -> None:
    session = Session()
    for n in range(700):
        session.write(task_added(task_id(n)))
        session.write(TaskEdited(id=task_node_id(task_id(n)), changes=TaskChanges(title=f"Task {n}")))
    few, many = FakeLedger(), FakeLedger()
    few.add("Own")
    many.add("Own")

    for n in range(0, 2800, 200):
        read_in(few, session.lines[n : n + 200], f"/events/{n}.jsonl")
    read_in(many, session.lines)

    assert few.tasks() == many.tasks()
    assert few.ready() == many.ready()


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("dies_after", [1, 3, 6])
def test_what_a_killed_process_has_read_is_kept_and_another_goes_on_from_there(
    monkeypatch: pytest.MonkeyPatch, dies_after: int
) -> None:
    """Files are read in changes of a few lines here. The outcome is that of reading them in one go."""
    session = Session()
    for number in range(12):
        session.write(task_added(task_id(number)))
    session.lines.insert(3, b"not JSON")
    whole = FakeLedger()
    read_in(whole, session.lines)
    monkeypatch.setattr(intake, "_BATCH", 2)
    monkeypatch.setattr(ledger, "PART_BYTES", 1)
    world, seen = FakeLedger(), []

    def note(text: str) -> None:
        seen.append(text)
        if len(seen) == dies_after:
            raise Killed

    world.ledger.intake = intake.FileIntake(world.exchange, world.clock, world.marks, note)
    with pytest.raises(Killed):
        read_in(world, session.lines)
    with world.store.read() as view:
        kept = view.events.count()
    world.reopen().refresh()

    assert kept >= dies_after - 1, "each change but the last was kept"
    with world.store.read() as view, whole.store.read() as other:
        assert state_digest(view) == state_digest(other)
        assert not view.files.place
    assert problems(world) == problems(whole) == [(4, "is not JSON: Expecting value at column 1")]
    assert world.ready() == whole.ready()


def test_the_size_of_all_files_is_the_same_in_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    for number in range(12):
        session.write(task_added(task_id(number), title="x" * (200 << 10)))
    monkeypatch.setattr(intake, "_BATCH", 2)
    monkeypatch.setattr(ledger, "PART_BYTES", 1)
    world, seen = FakeLedger(), []
    world.ledger.intake = intake.FileIntake(world.exchange, world.clock, world.marks, seen.append)

    read_in(world, session.lines)

    totals = {text.partition(" of ")[2] for text in seen if text.startswith("reading")}
    assert len(seen) > 3
    assert totals == {"2 MB"}


def test_nothing_is_decided_while_a_part_of_the_files_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    for number in range(12):
        session.write(task_added(task_id(number)))
    monkeypatch.setattr(intake, "_BATCH", 2)
    monkeypatch.setattr(ledger, "PART_BYTES", 1)
    world = FakeLedger()
    world.exchange.put(THEIRS, session.lines)
    with world.store.write() as tx:
        verifier = world.ledger.verifier(tx)
        assert not world.ledger.read_files(tx, world.exchange.files(), verifier, most=1)
    world.reopen()

    world.claim(by="Alice")

    assert len(world.tasks()) == 12


@pytest.fixture
def big_file(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Lines of twelve tasks, which take many changes to read."""
    monkeypatch.setattr(intake, "_BATCH", 2)
    monkeypatch.setattr(ledger, "PART_BYTES", 1)
    session = Session()
    for number in range(12):
        session.write(task_added(task_id(number)))
    return session.lines


def between_parts(world: FakeLedger, happens: Callable[[int], object], most: int = 60) -> None:
    """Has something happen after each change that files are read in; fails when there are too many."""
    read, count = world.ledger.read_files, 0

    def read_files(*arguments: Any, **options: Any) -> bool:
        nonlocal count
        count += 1
        assert count <= most, "it never ends"
        is_done = read(*arguments, **options)
        happens(count)
        return is_done

    world.ledger.read_files = read_files  # type: ignore[method-assign]


def test_files_that_change_faster_than_they_are_read_in_parts_are_read_all_the_same(
    big_file: list[bytes],
) -> None:
    world, other = FakeLedger(), Session("other")
    for number in range(12, 24):
        other.write(task_added(task_id(number)))
    world.exchange.put("/events/other.jsonl", other.lines)
    between_parts(world, lambda _: world.exchange.grow("/events/other.jsonl", b"\n"))

    read_in(world, big_file)

    assert len(world.tasks()) == 24


@pytest.mark.parametrize("is_trusted_first", [True, False])
def test_tables_follow_a_trust_that_changes_between_two_parts(
    big_file: list[bytes], is_trusted_first: bool
) -> None:
    world, parts = FakeLedger(), 0
    real = world.ledger._trust

    def trust(tx: Transaction) -> tuple[Verifier, str]:
        verifier, untrusted = real(tx)
        if (parts < 3) == is_trusted_first:
            return verifier, untrusted
        return Verifier(replace(verifier.trust, keys=()), world.keys), untrusted

    def count_part(count: int) -> None:
        nonlocal parts
        parts = count

    world.ledger._trust = trust  # type: ignore[method-assign]
    between_parts(world, count_part)

    read_in(world, big_file)

    assert len(world.tasks()) == (0 if is_trusted_first else 12)
