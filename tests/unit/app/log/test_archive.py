"""Holds that archived tasks are as they were, that late events wait for their lines, and that nothing counts unsigned."""

from __future__ import annotations

import tracemalloc
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.events.missing_lines import waiting_tasks
from remand.app.events.task_folds import SignedTasks, TaskSource, task_events
from remand.app.log.archive import ArchiveResult, archive_log, fetch_archive
from remand.app.log.repair import missing_lines, rebuild_from_files
from remand.app.log.verification import VerificationReport, state_digest, verify_log
from remand.app.ports import Keys
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.keys import ChainEnd
from remand.domain.events.event import Event
from remand.domain.events.log import ArchivedFile, ArchivedSession, LogArchived, TaskArchived
from remand.domain.events.reviews import Finding, LockoutSet
from remand.domain.evolve import short_id
from remand.domain.instant import add_seconds
from remand.domain.task import Status, Task
from remand.ledger import codec, signatures
from remand.ledger.order import order_key
from remand.testing.builders import MACHINE, Session, task_added
from remand.testing.fakes import FakeClock, FakeKeys
from tests.support.builders import THE_USER, FakeLedger
from tests.support.fakes import MemoryExchange, ProcessKilled
from tests.support.log_check import log_faults

PROJECT = "0123456789abcdef"
SECOND, THIRD = FakeKeys("second machine"), FakeKeys("third machine")
EVERYONE = (MACHINE, SECOND, THIRD)


class MemoryArchive:
    """Archived files in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put(self, files: Mapping[str, bytes]) -> None:
        self.files |= files

    def get(self, file: ArchivedFile) -> bytes:
        if file.name not in self.files:
            raise EnvironmentFault("There is no archive.")
        return self.files[file.name]


class MemoryPublisher:
    """A branch that has what the folder of event files has."""

    def __init__(self, exchange: MemoryExchange) -> None:
        self._exchange = exchange
        self.published: dict[str, bytes] = {}

    def current_branch(self) -> str:
        return "main"

    def sizes(self, branch: str) -> dict[str, int]:
        return {name: len(content) for name, content in self.published.items()}

    def read(self, branch: str, name: str) -> bytes:
        return self.published[name]

    def deleted_files(self, branch: str, names: set[str]) -> dict[str, bytes]:
        return {}

    def commit(
        self, branch: str, files: Mapping[str, bytes], message: str, removed: Sequence[str] = ()
    ) -> str:
        for name, content in files.items():
            self.published[name] = content
            if f"/events/{name}" not in self._exchange.contents:
                self._exchange.put(f"/events/{name}", [])
                self._exchange.contents[f"/events/{name}"].data = content
        for name in removed:
            self.published.pop(name, None)
            if f"/events/{name}" in self._exchange.contents:
                self._exchange.lose(f"/events/{name}")
        self._exchange.track()
        return "c0ffee"


class World(FakeLedger):
    """A ledger on fakes with a branch and an archive."""

    def __init__(self, keys: Keys = MACHINE, trusted: Collection[Keys] = EVERYONE, number: int = 0) -> None:
        super().__init__(rules=rules(trusted), keys=keys, session=f"20261115-090000-0000000{number}")
        self.publisher = MemoryPublisher(self.exchange)
        self.archived = MemoryArchive()

    def archive(self, before: str = "") -> ArchiveResult:
        """Archives what ended before a time; without one, before now."""
        return archive_log(
            self.ledger,
            self.publisher,
            self.archived,
            before=before or self.clock.now(),
            actor=THE_USER,
            base="main",
        )

    def fetch(self, archive: MemoryArchive) -> ArchiveResult:
        return fetch_archive(self.ledger, archive)

    def files(self) -> dict[str, bytes]:
        return {path: file.data for path, file in self.exchange.contents.items()}

    def read(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            if path not in self.exchange.contents:
                self.exchange.put(path, [])
                self.exchange.contents[path].data = content
        self.ledger.refresh()

    def digest(self) -> str:
        with self.store.read() as view:
            return state_digest(view)[0]

    def waiting(self) -> list[str]:
        with self.store.read() as view:
            return waiting_tasks(view)

    def check(self) -> VerificationReport:
        with self.store.read() as view:
            return verify_log(view, self.exchange, self.marks, self.clock, self.ledger.verifier(view))

    def archives(self) -> list[LogArchived]:
        with self.store.read() as view:
            events = map(codec.decode_stored_line, view.events.lines())
            return [event for event in events if isinstance(event, LogArchived)]


def rules(trusted: Collection[Keys]) -> Rules:
    return Rules(gates=(), project=PROJECT, trusted=tuple(keys.ensure_key() for keys in trusted))


def clone(
    *worlds: World, keys: Keys = SECOND, number: int = 1, trusted: Collection[Keys] = EVERYONE
) -> World:
    """A fresh clone of what others have published."""
    fresh = World(keys, trusted, number)
    fresh.clock.time = max(world.clock.now() for world in worlds)
    for world in worlds:
        fresh.read(world.files())
    return fresh


def a_year(keys: Keys = MACHINE, number: int = 0) -> tuple[World, str, str]:
    """A task that was sent back once and is done, and one that is open, with the time between them and now."""
    world = World(keys, number=number)
    done = world.add("Mend the roof")
    world.claim(done)
    world.submit(done)
    world.ask(c.RejectReview(task_id=done, commit="work", findings=(Finding(text="It leaks"),)))
    world.claim(done, "Bob")
    world.submit(done, "Bob", "better", "tree of better")
    world.ask(c.ApproveReview(task_id=done, commit="better"))
    still_open = world.add("Paint the door")
    world.claim(still_open, "Carol")
    world.clock.advance(86_400)
    return world, done, still_open


def test_a_fresh_clone_of_an_archived_log_has_the_same_state() -> None:
    world, done, still_open = a_year()
    before = world.digest()

    result = world.archive()
    fresh = clone(world)

    assert result.tasks == 1
    assert result.events > 8
    assert fresh.task(done) == world.task(done)
    assert fresh.task(done).is_locked_out("Alice")
    assert fresh.task(still_open).claims.attempt_count == 1
    assert fresh.digest() == world.digest()
    assert before != world.digest(), "the archive is an event of no task"
    assert world.check().ok, world.check().problems
    assert fresh.check().ok, fresh.check().problems
    assert not missing_lines(fresh.ledger)


def test_the_files_of_archived_tasks_leave_the_branch_and_are_in_the_archive() -> None:
    world, done, still_open = a_year()
    with world.store.read() as view:
        lines = set(view.events.of_task(done))
        kept = set(view.events.of_task(still_open))

    world.archive()

    left = {line for content in world.files().values() for line in codec.split_lines(content)}
    assert not lines & left
    assert kept <= left
    assert lines <= {line for content in world.archived.files.values() for line in codec.split_lines(content)}
    assert world.publisher.published.keys() == {path.removeprefix("/events/") for path in world.files()}


def test_traces_and_handoffs_of_archived_tasks_are_found() -> None:
    world, done, _ = a_year()
    handoffs = {h for one in world.task(done).people.holders for h in (one,)}
    with world.store.read() as view:
        traces = set(view.traces.every("lockout.set", "handoff.reject", "escalation.open"))
    world.archive()
    fresh = clone(world)

    with fresh.store.read() as view:
        assert set(view.traces.every("lockout.set", "handoff.reject", "escalation.open")) == traces
        (archived,) = (e for e in task_events(view, done) if isinstance(e, TaskArchived))
        assert archived.handoffs
        assert all(view.names.find_task_id(name) == done for name in archived.handoffs)
    assert traces
    assert handoffs


def test_a_rebuild_of_a_clone_without_the_lines_changes_nothing() -> None:
    world, _, _ = a_year()
    world.archive()
    fresh = clone(world)
    before = fresh.digest()

    rebuild_from_files(fresh.ledger)

    assert fresh.digest() == before == world.digest()
    assert fresh.check().ok, fresh.check().problems


def a_late_file(world: World, task: str, at: str) -> bytes:
    """A file of another machine, which locked an agent out of a task at that time."""
    session = Session("20261115-080000-000000aa", FakeClock(at), keys=THIRD, project=PROJECT)
    session.write(LockoutSet(task_id=task, agent="Dave"), at=at)
    return b"".join(line + b"\n" for line in session.lines)


def late_time(world: World, task: str) -> str:
    """A time between the first and the last event of a task."""
    with world.store.read() as view:
        return add_seconds(task_events(view, task)[0].ts, 0.000001)


LATE = "/events/20261115-080000-000000aa.jsonl"


def test_a_late_event_waits_where_the_lines_are_not_and_counts_where_they_are() -> None:
    world, done, _ = a_year()
    late = a_late_file(world, done, late_time(world, done))
    world.archive()
    fresh = clone(world)

    world.read({LATE: late})
    fresh.read({LATE: late})

    assert world.task(done).is_locked_out("Dave")
    assert not world.waiting()
    assert not fresh.task(done).is_locked_out("Dave")
    assert fresh.waiting() == [done]
    assert fresh.digest() != world.digest()
    refused = fresh.refusal(c.Unlock(task_id=done, agent="Alice", reason="x"))
    assert refused.code == "lines_missing"
    assert "log archive --fetch" in refused.message
    assert any("log archive --fetch" in problem.problem for problem in fresh.check().problems)


def test_fetched_lines_let_a_late_event_count() -> None:
    world, done, _ = a_year()
    late = a_late_file(world, done, late_time(world, done))
    world.archive()
    fresh = clone(world)
    world.read({LATE: late})
    fresh.read({LATE: late})

    result = fresh.fetch(world.archived)

    assert result.tasks == 1
    assert not fresh.waiting()
    assert fresh.task(done) == world.task(done)
    assert fresh.digest() == world.digest()
    assert fresh.check().ok, fresh.check().problems


def test_an_event_after_the_last_archived_one_needs_no_lines() -> None:
    world, done, _ = a_year()
    world.archive()
    fresh = clone(world)
    late = a_late_file(world, done, world.clock.now())

    world.read({LATE: late})
    fresh.read({LATE: late})

    assert fresh.task(done).is_locked_out("Dave")
    assert not fresh.waiting()
    assert fresh.digest() == world.digest()
    assert fresh.check().ok, fresh.check().problems


def test_a_child_of_a_task_that_waits_is_not_released() -> None:
    world = World()
    parent = world.add("Big")
    late_at = late_time(world, parent)
    world.ask(c.CancelTask(task_id=parent, reason="x"))
    world.clock.advance(86_400)
    split = Session("20261115-080000-000000bb", FakeClock(), keys=THIRD, project=PROJECT)
    added = task_added("T-20261116-080000-00000001")
    split.write(replace(added, data=replace(added.data, parent=parent)), at=world.clock.now())
    world.read({"/events/20261115-080000-000000bb.jsonl": b"".join(line + b"\n" for line in split.lines)})
    assert world.archive(world.clock.time).tasks == 1
    fresh = clone(world)

    fresh.read({LATE: a_late_file(world, parent, late_at)})

    assert fresh.waiting() == [parent]
    claim = c.ClaimTask(task_id="T-20261116-080000-00000001", agent="Carol")
    assert fresh.refusal(claim, "Carol").code == "lines_missing"


def test_two_clones_may_archive_at_once() -> None:
    first, done, still_open = a_year()
    second = clone(first, keys=SECOND, number=1)
    third = second.add("Sweep")
    second.ask(c.CancelTask(task_id=third, reason="x"))
    second.clock.advance(86_400)
    first.clock.time = second.clock.time

    first.archive()
    second.archive()
    fresh = clone(first, second, keys=THIRD, number=2)
    files = {"first": first.files(), "second": second.files()}
    first.read(files["second"])
    second.read(files["first"])

    assert fresh.digest() == first.digest() == second.digest()
    assert fresh.task(done) == first.task(done)
    assert not fresh.waiting()
    for world in (fresh, first, second):
        assert world.check().ok, world.check().problems
        assert world.task(still_open).claims.attempt_count == 1


def test_two_archives_of_a_task_of_which_neither_has_all_events_wait() -> None:
    first, done, _ = a_year()
    at = late_time(first, done)
    second = clone(first, keys=SECOND, number=1)
    second.read({LATE: a_late_file(first, done, at)})
    other = Session("20261115-080000-000000bb", FakeClock(at), keys=THIRD, project=PROJECT)
    other.write(LockoutSet(task_id=done, agent="Erin"), at=add_seconds(at, 0.000001))
    first.read({"/events/20261115-080000-000000bb.jsonl": b"".join(line + b"\n" for line in other.lines)})
    first.archive()
    second.archive()
    fresh = clone(first, second, keys=THIRD, number=2)

    assert fresh.waiting() == [done]
    fresh.archived.files = first.archived.files | second.archived.files
    fresh.fetch(fresh.archived)

    assert not fresh.waiting()
    assert fresh.task(done).is_locked_out("Dave")
    assert fresh.task(done).is_locked_out("Erin")


def test_a_branch_from_before_the_archive_may_be_merged_after_it() -> None:
    world, done, _ = a_year()
    world.ledger.closed_files()
    old = {f"{path}.old.jsonl": content for path, content in world.files().items()}
    world.archive()
    fresh = clone(world)
    half = {path: b"\n".join(content.split(b"\n")[:9]) + b"\n" for path, content in old.items()}

    fresh.read(half)

    assert fresh.task(done) == world.task(done)
    assert fresh.digest() == world.digest()
    assert not missing_lines(fresh.ledger)
    assert not fresh.waiting()
    assert fresh.check().ok, fresh.check().problems
    fresh.ask(c.Unlock(task_id=done, agent="Alice", reason="x"))
    world.read(fresh.files())
    fresh.read({path.replace("old", "older"): content for path, content in old.items()})
    assert fresh.digest() == world.digest()
    assert fresh.check().ok, fresh.check().problems


def test_an_archive_of_a_key_that_is_not_trusted_does_not_count() -> None:
    world, done, still_open = a_year()
    world.archive()

    stranger = clone(world, trusted=(SECOND, THIRD))

    assert done not in stranger.tasks()
    assert still_open not in stranger.tasks()
    assert not stranger.archives() or not stranger.check().ok or done not in stranger.tasks()


def test_a_revoked_archivers_archive_does_not_count_until_the_lines_are_fetched() -> None:
    world, done, still_open = a_year()
    world.ledger.closed_files()
    before = world.clock.now()
    recent = world.add("Recent")
    theirs = clone(world, keys=SECOND, number=1)
    theirs.archive(before)
    fresh = clone(theirs, keys=THIRD, number=2)
    assert fresh.task(done).status is Status.DONE
    assert fresh.claim(recent, "Carol").status is Status.CLAIMED

    fresh.rules = rules((MACHINE, THIRD))
    fresh.ledger.refresh()

    assert done not in fresh.tasks()
    assert missing_lines(fresh.ledger)
    fresh.fetch(theirs.archived)
    assert fresh.task(done) == world.task(done)
    assert fresh.task(still_open).claims.attempt_count == 1
    assert not missing_lines(fresh.ledger)


@pytest.mark.parametrize("is_cut", [True, False], ids=["up to a place", "at all"])
def test_an_archived_state_does_not_outlive_the_trust_in_what_it_rests_on(is_cut: bool) -> None:
    theirs, done, _ = a_year(SECOND, 1)
    with theirs.store.read() as view:
        group = next(one.group for one in view.groups.every() if one.group.last >= 4)
    end = ChainEnd(session=group.session, number=group.last, chain=group.after)
    world = clone(theirs, keys=MACHINE, number=0)
    world.clock.advance(86_400)
    assert world.archive().tasks == 1
    fresh = clone(world, keys=THIRD, number=2)
    assert fresh.task(done).status is Status.DONE

    cut = (replace(SECOND.ensure_key(), until=(end,)),) if is_cut else ()
    fresh.rules = Rules(gates=(), project=PROJECT, trusted=(MACHINE.ensure_key(), THIRD.ensure_key(), *cut))
    fresh.ledger.refresh()

    assert fresh.waiting() == [done]
    assert done not in fresh.tasks()
    with fresh.store.read() as view:
        source = TaskSource(view, SignedTasks(), fresh.ledger.verifier(view))
        assert source.get(done, is_verified=True) is None
    fresh.fetch(world.archived)
    assert not fresh.waiting()
    assert done not in fresh.tasks() or fresh.task(done).status is not Status.DONE
    assert (done in fresh.tasks()) == is_cut


def test_lines_that_stay_are_missed_when_they_are_cut_out() -> None:
    world, _, still_open = a_year()
    world.archive()
    files = world.files()
    (kept,) = (path for path, content in files.items() if codec.is_packed(content))
    lines = list(codec.split_lines(files[kept]))
    place = next(n for n, line in enumerate(lines) if b'"log.archive"' in line) - 1
    fresh = World(SECOND, number=1)
    fresh.clock.time = world.clock.now()

    fresh.read(files | {kept: b"".join(line + b"\n" for line in lines[place:])})

    assert missing_lines(fresh.ledger)
    assert not fresh.check().ok
    fresh.read({"/events/whole.gz.jsonl": files[kept]})
    assert not missing_lines(fresh.ledger)
    assert fresh.task(still_open) == world.task(still_open)


def test_one_line_that_stays_is_missed_when_it_is_cut_out() -> None:
    world, _, still_open = a_year()
    world.archive()
    files = world.files()
    (kept,) = (path for path, content in files.items() if codec.is_packed(content))
    lines = list(codec.split_lines(files[kept]))
    cut = next(line for line in lines if b'"task.claim"' in line and not signatures.is_group(line))
    files[kept] = b"\n".join(line for line in lines if line != cut)
    fresh = World(SECOND, number=1)
    fresh.clock.time = world.clock.now()

    fresh.read(files)

    assert [one.task for one in missing_lines(fresh.ledger)] == [still_open]


def test_a_file_that_is_not_the_one_that_was_archived_is_not_read() -> None:
    world, done, _ = a_year()
    late = a_late_file(world, done, late_time(world, done))
    world.archive()
    fresh = clone(world)
    fresh.read({LATE: late})
    (name, content), *_ = world.archived.files.items()
    forged = Session("20261115-080000-000000cc", FakeClock(), keys=THIRD, project=PROJECT)
    forged.write(LockoutSet(task_id=done, agent="Mallory"))
    extra = b"".join(line + b"\n" for line in forged.lines)

    for hostile in (content + extra, content[:-1], b"", b"x" * len(content)):
        world.archived.files[name] = hostile
        with pytest.raises(EnvironmentFault, match="is not the file that was archived"):
            fresh.fetch(world.archived)
        assert fresh.waiting() == [done]
        assert not fresh.task(done).is_locked_out("Mallory")


def test_what_was_archived_is_not_archived_again() -> None:
    world, _, still_open = a_year()
    world.archive()

    assert world.archive().tasks == 0
    assert len(world.archives()) == 1
    fresh = clone(world, keys=SECOND, number=1)
    fresh.ask(c.CancelTask(task_id=still_open, reason="x"))
    fresh.clock.advance(86_400)
    assert fresh.archive().tasks == 1
    last = clone(fresh, keys=THIRD, number=2)
    assert last.digest() == fresh.digest()
    assert last.check().ok, last.check().problems


def test_a_task_that_went_on_is_archived_again_on_top_of_its_archive() -> None:
    world, done, _ = a_year()
    world.archive()
    fresh = clone(world, keys=SECOND, number=1)
    fresh.read({LATE: a_late_file(world, done, world.clock.now())})
    fresh.clock.advance(86_400)

    assert fresh.archive().tasks == 1
    last = clone(fresh, keys=THIRD, number=2)

    assert last.task(done).is_locked_out("Dave")
    assert last.digest() == fresh.digest()
    assert last.check().ok, last.check().problems


def test_tasks_that_are_open_or_recent_stay() -> None:
    world, done, still_open = a_year()
    world.ledger.closed_files()
    before = world.clock.now()
    recent = world.add("Recent")
    world.ask(c.CancelTask(task_id=recent, reason="x"))

    world.archive(before)

    with world.store.read() as view:
        events = map(codec.decode_stored_line, view.events.lines())
        assert {event.task_id for event in events if isinstance(event, TaskArchived)} == {done}
    fresh = clone(world)
    assert fresh.task(recent).status is Status.CANCELLED
    assert fresh.task(still_open).claims.attempt_count == 1
    assert fresh.digest() == world.digest()


def test_a_task_with_an_event_that_does_not_count_stays() -> None:
    world, done, _ = a_year()
    stranger = Session("20261115-080000-000000dd", FakeClock(), keys=FakeKeys("a stranger"), project=PROJECT)
    stranger.write(LockoutSet(task_id=done, agent="Dave"), at=late_time(world, done))
    world.read({"/events/20261115-080000-000000dd.jsonl": b"".join(line + b"\n" for line in stranger.lines)})

    assert world.archive().tasks == 0


def test_a_task_of_which_lines_may_be_missing_stays() -> None:
    world, done, still_open = a_year()
    other = Session(
        "20261115-080000-000000ee", FakeClock(late_time(world, done)), keys=THIRD, project=PROJECT
    )
    for _ in range(3):
        other.write(LockoutSet(task_id=still_open, agent="Dave"))
    whole = b"".join(line + b"\n" for line in other.lines)
    world.read({"/events/gap.jsonl": b"".join(line + b"\n" for line in other.lines[4:])})
    assert missing_lines(world.ledger)

    assert world.archive().tasks == 0
    world.read({"/events/whole.jsonl": whole})
    assert world.archive().tasks == 1


def test_killed_before_it_is_kept_the_log_is_whole_and_the_next_call_ends_it() -> None:
    for is_closed in (True, False):
        world, done, still_open = a_year()
        if is_closed:
            world.ledger.closed_files()
        world.exchange.die_after_next_append()
        with suppress(ProcessKilled):
            world.archive()
        world.exchange.die_after_next_append(False)
        world.reopen()
        world.ledger.refresh()
        assert world.check().ok, world.check().problems
        assert clone(world).check().ok
        world.archive()
        fresh = clone(world)
        assert fresh.digest() == world.digest()
        assert fresh.task(done) == world.task(done)
        assert fresh.task(still_open).claims.attempt_count == 1
        assert fresh.check().ok, fresh.check().problems


FORGED = "/events/20261115-080000-000000bb.jsonl"


def read_forged(world: World, *events: Event, keys: Keys = THIRD, path: str = FORGED) -> None:
    """Has a file of another machine read in, with events of its own making."""
    session = Session(f"20261115-080000-{len(path):08x}", FakeClock(), keys=keys, project=PROJECT)
    for event in events:
        session.write(event, at=world.clock.now(), actor="user")
    world.read({path: b"".join(line + b"\n" for line in session.lines)})


def an_archive(world: World, task: str, told: Task, **fields: Any) -> TaskArchived:
    """What claims that a task was archived in that state, with an event that nobody has."""
    with world.store.read() as view:
        events = task_events(view, task)
        keys = {one.group.session: one.group.key for one in view.groups.every()}
    ends = {event.meta.session: event.meta.seq for event in events}
    found = TaskArchived(
        task_id=task,
        archive="0" * 64,
        state=msgspec.json.encode(told).decode(),
        last=order_key(events[-1]),
        ids="".join(short_id(event.meta.id) for event in events) + "ffffff",
        signed=tuple((session, keys[session], number) for session, number in ends.items()),
    )
    return replace(found, **fields)


@pytest.mark.parametrize(
    "fields", [{"signed": ()}, {"signed": (("another", "key", 9),)}, {"ids": "ffffff"}, {"state": "{}"}, {}]
)
def test_an_archive_of_an_open_task_changes_nothing_and_is_reported(fields: dict[str, Any]) -> None:
    world, done, still_open = a_year()
    before = world.task(still_open)
    other = clone(world)

    for one in (world, other):
        read_forged(one, an_archive(one, still_open, before, **fields))

    for one in (world, other):
        assert one.task(still_open) == before
        assert one.waiting() == [still_open]
        assert any(still_open in problem.problem for problem in one.check().problems)
        assert one.task(done).status is Status.DONE


def test_an_archived_end_that_the_lines_do_not_tell_of_waits() -> None:
    world, done, still_open = a_year()
    world.ask(c.LockOut(task_id=still_open, agent="Alice", reason="x"))
    next_one = world.add("Hang the door", depends_on=(still_open,))
    ended, before = replace(world.task(done), id=still_open), world.task(still_open)

    read_forged(world, an_archive(world, still_open, ended))

    for _ in range(2):
        assert world.task(still_open) == before, "nothing is believed of an archive that the lines contradict"
        with world.store.read() as view:
            assert next_one not in view.queue.ready()
        rebuild_from_files(world.ledger)
    assert world.waiting() == [still_open]
    refused = world.refusal(c.Unlock(task_id=still_open, agent="Alice", reason="x"))
    assert refused.code == "lines_missing"
    assert not world.check().ok


def test_an_archived_state_that_cannot_be_read_waits_and_is_reported() -> None:
    world, done, _ = a_year()
    archive = an_archive(world, done, world.task(done), state="{}")
    fresh = World(SECOND, number=1)
    fresh.clock.time = world.clock.now()

    read_forged(fresh, archive)

    assert fresh.waiting() == [done]
    assert done not in fresh.tasks()
    assert any(done in problem.problem for problem in fresh.check().problems)
    rebuild_from_files(fresh.ledger)
    assert fresh.waiting() == [done]


def test_a_late_event_waits_where_no_event_names_archived_sessions() -> None:
    world, done, _ = a_year()
    late = a_late_file(world, done, late_time(world, done))
    world.archive()
    with world.store.read() as view:
        lines = [line for line in view.events.lines() if codec.may_have_kinds([line], (TaskArchived,))]
    fresh = World(SECOND, number=1)
    fresh.clock.time = world.clock.now()
    read_forged(fresh, *map(codec.decode_stored_line, lines))
    assert fresh.task(done).status is Status.DONE

    fresh.read({LATE: late})

    assert fresh.waiting() == [done]
    assert not fresh.check().ok


def without(files: Mapping[str, bytes], *, is_group_cut: bool) -> dict[str, bytes]:
    """Event files from which a rejection was cut out, with its group or without."""
    found: dict[str, bytes] = {}
    for path, content in files.items():
        left: list[bytes] = []
        lines = content.splitlines(keepends=True)
        for number, line in enumerate(lines):
            if signatures.is_group(line):
                count = len(signatures.decode_group(line.rstrip()).events)
                is_rejection = any(
                    b'"review.reject"' in one for one in lines[number + 1 : number + 1 + count]
                )
            if not is_rejection or (signatures.is_group(line) and not is_group_cut):
                left.append(line)
        found[path] = b"".join(left)
    return found


@pytest.mark.parametrize("is_group_cut", [True, False])
@pytest.mark.parametrize("is_key_known", [True, False])
def test_lines_that_were_cut_out_are_missed_whatever_an_archive_says(
    is_group_cut: bool, is_key_known: bool
) -> None:
    world, _, _ = a_year()
    with world.store.read() as view:
        groups = [one.group for one in view.groups.every()]
    fresh = World(SECOND, number=1)
    fresh.clock.time = world.clock.now()
    fresh.read(without(world.files(), is_group_cut=is_group_cut))
    missed = missing_lines(fresh.ledger)
    assert missed

    key = groups[-1].key if is_key_known else "k"
    chain = groups[-1].after if is_key_known and not is_group_cut else "0" * 32
    number = groups[-1].last if is_key_known and not is_group_cut else 1_000_000
    end = ArchivedSession(session=groups[-1].session, key=key, number=number, chain=chain)
    read_forged(fresh, LogArchived(archive="0" * 64, before=fresh.clock.now(), sessions=(end,)))

    assert missing_lines(fresh.ledger) == missed
    assert not fresh.check().ok
    rebuild_from_files(fresh.ledger)
    assert missing_lines(fresh.ledger)


def test_an_archive_that_is_here_hides_no_gap() -> None:
    world, _, _ = a_year()
    with world.store.read() as view:
        last = [one.group for one in view.groups.every()][-1]
    fresh = World(SECOND, number=1)
    fresh.clock.time = world.clock.now()
    fresh.read(without(world.files(), is_group_cut=True))
    missed = missing_lines(fresh.ledger)
    end = ArchivedSession(session=last.session, key=last.key, number=last.last, chain=last.after)
    file = ArchivedFile(name="a.jsonl", size=0, sha256=sha256(b"").hexdigest())

    told = LogArchived(archive="1" * 64, before=fresh.clock.now(), sessions=(end,))
    read_forged(fresh, told)
    assert missing_lines(fresh.ledger) == missed, "an archive without files has no lines"

    read_forged(fresh, told, replace(told, archive="2" * 64, files=(file,)), path="/events/more.jsonl")
    assert not missing_lines(fresh.ledger), "the lines may be in the archive"
    fresh.archived.files[file.name] = b""
    fresh.fetch(fresh.archived)
    assert missing_lines(fresh.ledger) == missed, "the archive is here, and does not have them"
    rebuild_from_files(fresh.ledger)
    assert missing_lines(fresh.ledger) == missed


@pytest.mark.parametrize("size", [-5000, 7])
def test_a_file_that_no_trusted_key_names_does_not_keep_the_others_from_being_fetched(size: int) -> None:
    world, done, _ = a_year()
    late = a_late_file(world, done, late_time(world, done))
    world.archive()
    fresh = clone(world)
    fresh.read({LATE: late})
    real, *_ = world.archives()
    wrong = [replace(file, size=size, sha256="0" * 64) for file in real.files]
    files = (*wrong, ArchivedFile(name="nowhere", size=size, sha256="0" * 64))
    read_forged(fresh, replace(real, files=files), keys=FakeKeys("a stranger"))

    fresh.fetch(world.archived)

    assert not fresh.waiting()


def test_a_packed_file_is_read_line_by_line() -> None:
    size = 8 << 20
    packed = codec.pack(b"\n" * size)
    tracemalloc.start()
    count = sum(1 for _ in codec.iterate_lines(packed))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == size + 1
    assert most < size * 4


def checked(*files: Mapping[str, bytes]) -> list[str]:
    """What the checker that shares no code with the package finds in event files."""
    return log_faults(
        line for part in files for content in part.values() for line in codec.split_lines(content)
    )


def test_the_independent_checker_understands_an_archived_log() -> None:
    world, _, _ = a_year()
    assert checked(world.files()) == []
    world.archive()
    assert checked(world.files()) == [], "of the archived task its state is here"
    assert checked(world.files(), world.archived.files) == [], "with the archive every line is here"
    world.claim(world.add("Sweep"), "Bob")
    assert checked(world.files(), world.archived.files) == checked(world.files()) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"status":"done"', '"status":"claimed"', "the archived task is claimed"),
        ('"approved_commit":"', '"approved_commit":"0', "done without a passed verdict and an approval"),
        ('"id":"T-', '"id":"T-0', "does not say which events it stands for"),
    ],
    ids=["not ended", "not approved", "of another task"],
)
def test_the_independent_checker_finds_an_archived_state_that_cannot_be(
    old: str, new: str, fault: str
) -> None:
    world, _, _ = a_year()
    world.archive()
    session = Session(keys=MACHINE, project=PROJECT, name="20261117-090000-0000000f")
    lines = []
    for line in (line for content in world.files().values() for line in codec.split_lines(content)):
        if codec.may_have_kinds([line], (TaskArchived,)):
            event = codec.decode_stored_line(line)
            assert isinstance(event, TaskArchived)
            session.write(replace(event, state=event.state.replace(old, new)))
        else:
            lines.append(line)

    assert any(fault in found for found in checked({"lines": b"\n".join([*lines, *session.lines])}))
