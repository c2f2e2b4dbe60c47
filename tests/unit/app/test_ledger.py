"""Holds that what was answered stays, whatever befalls the process, the files or the clock."""

import threading
from collections.abc import Callable
from datetime import datetime

import pytest

from remand.app.errors import EnvironmentFault
from remand.app.events.intake import changed_event_files
from remand.app.log.verification import verify_log
from remand.app.requests import Acceptance, Request
from remand.domain import commands as c
from remand.domain.access.team import Actor, Role
from remand.domain.events.log import PauseBegun, PauseEnded
from remand.domain.refusals import Refused
from remand.domain.task import Status
from remand.ledger import codec
from remand.ledger.problems import Problem
from remand.testing.builders import ALICE, LATER, T1, T2, Session, actor, task_added
from remand.testing.fakes import FakeClock
from tests.support.builders import THE_USER, FakeLedger
from tests.support.fakes import ProcessKilled

THEIRS = "/events/theirs.jsonl"


def segment(world: FakeLedger) -> str:
    with world.store.read() as view:
        return world.exchange.path(view.head.segment)


def problems(world: FakeLedger) -> tuple[Problem, ...]:
    with world.store.read() as view:
        return verify_log(
            view, world.exchange, world.marks, world.clock, world.ledger.verifier(view)
        ).problems


def assert_sound(world: FakeLedger) -> None:
    """Ledger and files hold the same events, in one whole chain."""
    assert problems(world) == ()
    in_files = {codec.decode_line(line).meta.id for line in world.exchange.lines()}
    assert in_files == {event.meta.id for event in world.events()}


def killed(world: FakeLedger, ask: c.Command, by: str = "user", key: str = "") -> None:
    """The process dies when the lines are written, and another opens the ledger."""
    world.exchange.die_after_next_append()
    with pytest.raises(ProcessKilled):
        world.ledger.ask(Request(command=ask, actor=by, key=key))
    world.reopen()


def foreign(task: str = T1, clock: FakeClock | None = None) -> list[bytes]:
    session = Session(clock=clock)
    session.write(task_added(task))
    return session.lines


# Answered is written.


def test_every_event_stands_in_the_open_segment_before_it_is_answered() -> None:
    world = FakeLedger()

    answer = world.ask(c.AddTask(title="One"))

    (line,) = world.exchange.lines()
    assert (codec.decode_line(line),) == answer.events


def test_an_answer_is_safe_from_a_power_cut() -> None:
    world = FakeLedger()
    for n in range(5):
        world.add(f"Task {n}")
        world.exchange.cut_power()

    assert len(world.exchange.lines()) == 5
    assert_sound(world)


def test_an_answer_waits_for_the_sync_and_the_commit_whichever_ends_last() -> None:
    world = FakeLedger()
    world.add("One")
    done: list[str] = []
    writing, syncing = world.store.write, world.exchange.sync
    has_committed = threading.Event()

    def sync(segment: str) -> None:
        assert has_committed.wait(60), "the rows are committed while the lines are synced"
        syncing(segment)
        done.append("synced")

    world.store.write = lambda: Followed(writing(), has_committed.set)
    world.exchange.sync = sync
    world.add("Two")

    assert done == ["synced"]


def test_an_answer_whose_commit_ends_after_the_sync_waits_for_the_commit() -> None:
    world = FakeLedger()
    world.add("One")
    done: list[str] = []
    writing, syncing = world.store.write, world.exchange.sync
    has_synced = threading.Event()

    def sync(segment: str) -> None:
        syncing(segment)
        has_synced.set()

    world.store.write = lambda: Followed(
        writing(), lambda: done.append("committed"), before=lambda: has_synced.wait(60)
    )
    world.exchange.sync = sync
    world.add("Two")

    assert has_synced.is_set()
    assert done == ["committed"]


class Followed:
    """A change with something that happens before and after its commit."""

    def __init__(
        self,
        change: object,
        after: Callable[[], object],
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self._change, self._before, self._after = change, before, after

    def __enter__(self) -> object:
        return self._change.__enter__()

    def __exit__(self, *error: object) -> None:
        self._before()
        self._change.__exit__(*error)
        self._after()


def test_an_answer_given_again_is_safe_too() -> None:
    world = FakeLedger()
    world.add("One")
    killed(world, c.AddTask(title="Two"), key="k")

    world.ask(c.AddTask(title="Two"), key="k")
    world.exchange.cut_power()

    assert len(world.exchange.lines()) == 2


def test_what_happened_by_itself_is_safe_though_the_ask_was_refused() -> None:
    world = FakeLedger()
    task = world.add("One")
    world.claim(task)
    world.clock.advance(1801)

    world.refusal(c.CancelTask(task_id="T-none"))
    world.exchange.cut_power()

    assert codec.decode_line(world.exchange.lines()[-1]).name == "task.expire"
    assert world.marks.all()[world.events()[0].meta.session][0] == 3


def test_many_asks_are_answered_in_their_order_by_one_write() -> None:
    world = FakeLedger()
    requests = [Request(command=c.AddTask(title=f"Task {n}"), actor="user") for n in range(5)]
    requests += [
        Request(command=c.ClaimTask(agent="Alice"), actor="Alice"),
        Request(command=c.CancelTask(task_id="T-0"), actor="user"),
    ]

    *accepted, refusal = world.ledger.ask_all(requests)

    assert all(isinstance(answer, Acceptance) for answer in accepted)
    assert accepted[5].task == world.task(accepted[0].task.id)
    assert refusal.code == "unknown_task"
    assert_sound(world)


def test_how_far_the_ledger_has_come_is_remembered_outside() -> None:
    world = FakeLedger()
    world.add("One")
    world.add("Two")
    last = world.events()[-1].meta

    assert world.marks.all() == {last.session: (2, last.id)}


# A process is killed.


def test_what_a_killed_command_wrote_has_happened() -> None:
    world = FakeLedger()
    world.add("One")
    killed(world, c.AddTask(title="Two"))

    world.add("Three")

    assert [task.title for task in world.tasks().values()] == ["One", "Two", "Three"]
    assert_sound(world)


def test_a_reader_sees_what_a_killed_command_wrote() -> None:
    world = FakeLedger()
    world.add("One")
    killed(world, c.AddTask(title="Two"))

    world.ledger.refresh()

    assert len(world.tasks()) == 2


def test_a_killed_command_repeated_under_its_key_happens_once() -> None:
    world = FakeLedger()
    world.add("One")
    killed(world, c.ClaimTask(agent="Alice"), "Alice", "k")

    answer = world.ask(c.ClaimTask(agent="Alice"), "Alice", "k")

    assert answer.task.claims.attempt_count == 1
    assert len(world.events()) == 2
    assert_sound(world)


@pytest.mark.parametrize("is_first", [True, False], ids=["ever", "after git took the segment"])
def test_a_command_killed_as_it_began_a_segment_is_continued_like_any_other(is_first: bool) -> None:
    world = FakeLedger()
    if not is_first:
        world.add("One")
        world.exchange.track()
    killed(world, c.AddTask(title="Two"), key="k")

    world.ask(c.AddTask(title="Two"), key="k")
    world.add("Three")

    assert [task.title for task in world.tasks().values()] == ["One", "Two", "Three"][is_first:]
    assert_sound(world)


def test_processes_killed_one_after_the_other_lose_nothing() -> None:
    world = FakeLedger()
    for n in range(10):
        killed(world, c.AddTask(title=f"Task {n}"), key=f"k{n}")
        if n % 3 == 0:
            world.exchange.track()
    for n in range(10):
        world.ask(c.AddTask(title=f"Task {n}"), key=f"k{n}")

    assert len(world.tasks()) == len(world.events()) == 10
    assert_sound(world)


@pytest.mark.parametrize("kept", range(1, 60, 7))
def test_a_torn_tail_is_set_aside_and_the_next_line_is_not_glued_to_it(kept: int) -> None:
    world = FakeLedger()
    world.add("One")
    torn = Session().entry(task_added(T1)).line[:kept]
    world.exchange.grow(segment(world), torn)
    world.reopen()

    world.add("Two")

    assert world.exchange.set_aside == [torn]
    assert len(world.tasks()) == 2
    assert_sound(world)


def test_a_command_torn_in_its_last_line_has_not_happened() -> None:
    world = FakeLedger()
    one = world.add("One")
    size = len(world.exchange.contents[segment(world)].data)
    killed(world, c.AddTask(title="Two", depends_on=(one,)))
    whole = world.exchange.contents[segment(world)].data
    world.exchange.truncate(segment(world), len(whole) - 10)

    world.add("Three")

    assert size < len(whole)
    assert [(task.title, task.links.depends_on) for task in world.tasks().values()] == [
        ("One", ()),
        ("Three", ()),
    ]
    assert_sound(world)


def test_strange_lines_behind_ones_own_are_told_and_do_no_harm() -> None:
    world = FakeLedger()
    world.add("One")
    world.exchange.grow(segment(world), b"odd\n")
    world.reopen()

    world.add("Two")

    assert len(world.tasks()) == 2
    assert world.exchange.set_aside == [b"odd\n"]
    with world.store.read() as view:
        (problem,) = view.files.problems()
    assert "somebody else wrote it" in problem.problem


# A change does not come to be.


def test_a_command_that_cannot_be_written_leaves_nothing() -> None:
    world = FakeLedger()
    world.add("One")
    world.exchange.fill_up()

    with pytest.raises(EnvironmentFault):
        world.add("Two")
    world.exchange.fill_up(False)

    assert len(world.tasks()) == 1
    world.add("Three")
    assert_sound(world)


@pytest.mark.parametrize("is_new", [True, False], ids=["new segment", "open segment"])
def test_lines_whose_change_did_not_come_to_be_are_taken_back(is_new: bool) -> None:
    world = FakeLedger()
    world.add("One")
    if is_new:
        world.exchange.track()
    writing = world.store.write
    world.store.write = lambda: FailingAtTheEnd(writing())

    with pytest.raises(EnvironmentFault):
        world.add("Two")
    world.store.write = writing

    assert len(world.exchange.lines()) == 1
    world.add("Three")
    assert [task.title for task in world.tasks().values()] == ["One", "Three"]
    assert_sound(world)


class FailingAtTheEnd:
    """A change that fails when it is about to come to be."""

    def __init__(self, change: object) -> None:
        self._change = change

    def __enter__(self) -> object:
        return self._change.__enter__()

    def __exit__(self, *error: object) -> None:
        fault = EnvironmentFault("The disk is full.")
        self._change.__exit__(EnvironmentFault, fault, None)
        raise fault


def test_files_that_came_with_a_command_that_failed_are_read_with_the_next() -> None:
    world = FakeLedger()
    world.add("One")
    world.exchange.put(THEIRS, foreign())
    world.exchange.fill_up()
    with pytest.raises(EnvironmentFault):
        world.add("Two")
    world.exchange.fill_up(False)

    world.add("Three")

    assert T1 in world.tasks()


# Files come, go and change.


def test_a_lost_segment_is_written_anew() -> None:
    world = FakeLedger()
    world.add("One")
    world.add("Two")
    world.exchange.lose(segment(world))

    world.add("Three")

    assert len(world.exchange.lines()) == 3
    assert_sound(world)


def test_segments_lost_one_after_the_other_are_written_anew_each_time() -> None:
    world = FakeLedger()
    world.add("One")
    world.add("Two")
    for n in range(3):
        world.exchange.lose(segment(world))
        world.add(f"Another {n}")

    assert len(world.exchange.lines()) == 5
    assert_sound(world)


def test_only_what_was_lost_is_written_anew() -> None:
    world = FakeLedger()
    world.add("One")
    world.exchange.track()
    for n in range(3):
        world.add(f"Task {n}")
        world.exchange.lose(segment(world))
    world.add("Last")

    assert len(world.exchange.lines()) == len(world.events()) == 5


def test_a_segment_cut_and_lost_is_written_anew() -> None:
    world = FakeLedger()
    for n in range(4):
        world.add(f"Task {n}")
    path = segment(world)
    world.exchange.truncate(path, world.exchange.contents[path].data.index(b"\n") + 1)
    world.add("Another")
    world.exchange.lose(segment(world))
    world.add("And another")

    assert_sound(world)


def test_a_segment_that_lost_its_end_is_made_whole_by_another() -> None:
    world = FakeLedger()
    for n in range(3):
        world.add(f"Task {n}")
    path = segment(world)
    first = world.exchange.contents[path].data.index(b"\n") + 1
    world.exchange.truncate(path, first)

    world.add("Another")

    assert len(world.tasks()) == 4
    assert_sound(world)


def test_a_lost_segment_that_comes_back_brings_nothing_new() -> None:
    world = FakeLedger()
    world.add("One")
    path = segment(world)
    lines = world.exchange.lines()
    world.exchange.lose(path)
    world.add("Two")

    world.exchange.put(path, lines)
    world.add("Three")

    assert len(world.events()) == 3
    assert problems(world) == ()


def test_losing_every_file_loses_no_event() -> None:
    world = FakeLedger()
    for n in range(3):
        world.add(f"Task {n}")
        world.exchange.track()
    for path in list(world.exchange.contents):
        world.exchange.lose(path)

    world.add("Another")

    assert len(world.tasks()) == len(world.events()) == 4


def test_a_segment_that_git_tracks_is_never_written_to() -> None:
    world = FakeLedger()
    world.add("One")
    path = segment(world)
    before = world.exchange.contents[path].data
    world.exchange.track()

    world.add("Two")
    world.add("Three")

    assert world.exchange.contents[path].data == before
    assert segment(world) != path
    assert len(world.exchange.contents) == 2
    assert_sound(world)


def test_a_segment_that_was_closed_to_be_published_is_never_written_to() -> None:
    world = FakeLedger()
    world.add("One")
    path = segment(world)
    world.exchange.put(THEIRS, foreign())

    files = world.ledger.closed_files()
    world.add("Two")

    assert set(files.values()) == {path, THEIRS}
    assert T1 in world.tasks()
    assert len(world.exchange.contents[path].data.splitlines()) == 2, "a group and its event"
    assert segment(world) != path
    assert_sound(world)


def test_a_file_that_is_gone_is_known_to_be() -> None:
    world = FakeLedger()
    world.exchange.put(THEIRS, foreign())
    world.add("One")
    assert world.ledger.deleted_files() == set()

    world.exchange.lose(THEIRS)

    assert world.ledger.deleted_files() == {"theirs.jsonl"}


def test_a_segment_of_ones_own_that_is_closed_is_no_news() -> None:
    world = FakeLedger()
    for n in range(5):
        world.add(f"Task {n}")
        world.exchange.track()

    assert len(world.exchange.contents) == 5
    assert len(world.events()) == 5
    with world.store.read() as view:
        assert changed_event_files(view, world.exchange) == []
    assert world.marks.all()[world.events()[0].meta.session][0] == 5


def test_what_is_wrong_with_a_file_is_known_when_ones_own_segment_closes() -> None:
    world = FakeLedger()
    world.exchange.put(THEIRS, [b"odd"])
    world.add("One")
    world.exchange.track()
    world.add("Two")

    with world.store.read() as view:
        assert [problem.file for problem in view.files.problems()] == [THEIRS]


def test_the_content_of_a_file_is_its_lines() -> None:
    world = FakeLedger()
    world.add("One")
    world.add("Two")

    assert world.ledger.read_content(segment(world)) == world.exchange.contents[segment(world)].data


def test_a_file_of_others_is_read_before_the_next_ask_is_answered() -> None:
    world = FakeLedger()
    world.add("One")
    world.exchange.put(THEIRS, foreign())

    assert world.claim(T1).status == Status.CLAIMED


def test_a_file_that_grows_is_read_on() -> None:
    world, session = FakeLedger(), Session()
    session.write(task_added(T1))
    world.exchange.put(THEIRS, session.lines)
    world.add("One")
    world.add("Two")

    session.write(task_added(T2))
    world.exchange.grow(THEIRS, b"\n".join([*session.lines[-2:], b""]))
    world.ledger.refresh()

    assert T2 in world.tasks()


def test_a_file_that_is_gone_takes_no_event_with_it() -> None:
    world = FakeLedger()
    world.exchange.put(THEIRS, foreign())
    world.add("One")

    world.exchange.lose(THEIRS)
    world.add("Two")

    assert T1 in world.tasks()


def test_a_ledger_lost_whole_is_made_from_its_files() -> None:
    world = FakeLedger()
    task = world.add("One")
    world.claim(task)
    world.submit(task)

    fresh = FakeLedger(session="20261116-000000-00000000", exchange=world.exchange, clock=world.clock)
    fresh.ledger.refresh()

    assert fresh.tasks() == world.tasks()
    fresh.add("Two")
    assert fresh.events()[-1].meta.session != world.events()[0].meta.session


def test_a_log_that_was_set_back_is_told_by_its_mark() -> None:
    world = FakeLedger()
    for n in range(3):
        world.add(f"Task {n}")
    marks = world.marks
    set_back = FakeLedger(session="20261116-000000-00000000", clock=world.clock)
    set_back.marks = marks
    set_back.exchange.put(THEIRS, world.exchange.all_lines()[:2])
    set_back.reopen()
    set_back.ledger.refresh()

    assert any("events 2 to 3 of session" in problem.problem for problem in problems(set_back))


# The clock.


def test_the_time_of_events_never_runs_back() -> None:
    world = FakeLedger()
    world.add("One")
    world.clock.advance(-300)
    world.add("Two")
    world.clock.advance(-299)
    world.add("Three")

    times = [event.ts for event in world.events()]

    assert times == sorted(times)
    assert len(set(times)) == 3


def test_the_time_of_events_is_later_than_any_that_was_read() -> None:
    world = FakeLedger()
    ahead = FakeClock("2026-11-15T09:09:00.000000Z")
    world.exchange.put(THEIRS, foreign(clock=ahead))

    answer = world.ask(c.EditTask(task_id=T1, title="Mine"))

    assert answer.events[0].ts > "2026-11-15T09:09:00.000000Z"
    assert world.task(T1).title == "Mine"


def test_a_lease_lasts_as_long_when_the_log_is_ahead_of_the_clock() -> None:
    world = FakeLedger()
    world.exchange.put(THEIRS, foreign(clock=FakeClock("2026-11-15T09:09:00.000000Z")))
    world.claim(T1)

    world.clock.advance(1700)
    world.add("Anything")
    assert world.task(T1).status == Status.CLAIMED
    world.clock.advance(101)
    world.add("Anything")
    assert world.task(T1).status == Status.INCOMING


def test_an_offer_stands_as_long_when_the_log_is_ahead_of_the_clock() -> None:
    world = FakeLedger()
    world.exchange.put(THEIRS, foreign(clock=FakeClock("2026-11-15T09:09:00.000000Z")))
    world.ask(c.InitiateHandoff(task_id=T1, target="Alice"))

    assert world.refusal(c.ClaimTask(task_id=T1, agent="Bob"), "Bob").code == "waits_on_other"
    assert world.claim(T1, "Alice").inbox.conflicts == ()


def test_an_event_too_far_ahead_is_held_back_shown_and_counts_later() -> None:
    world = FakeLedger()
    ahead = FakeClock("2026-11-17T10:00:00.000000Z")
    world.exchange.put(THEIRS, foreign(clock=ahead))
    world.add("One")
    world.add("Two")

    assert T1 not in world.tasks()
    assert any("ahead" in problem.problem for problem in problems(world))
    assert datetime.fromisoformat(world.events()[-1].ts) < datetime.fromisoformat(
        "2026-11-15T10:00:00.000000Z"
    )

    world.clock.advance(49 * 3600)
    world.add("Three")

    assert T1 in world.tasks()
    assert problems(world) == ()


def test_a_pause_and_its_end_are_events_by_the_user_and_about_no_task() -> None:
    world = FakeLedger()
    task = world.add()
    before = world.task(task)

    world.ledger.record([PauseBegun(until=LATER, reason="The disk is full")], THE_USER)
    world.ledger.record([PauseEnded()], THE_USER)

    *_, begun, ended = world.events()
    assert (begun.name, begun.meta.actor, ended.name) == ("pause.begin", "user", "pause.end")
    assert world.task(task) == before
    with world.store.read() as view:
        assert view.unconfirmed.every() == []
        assert verify_log(view, world.exchange, world.marks, world.clock, world.ledger.verifier(view)).ok


@pytest.mark.parametrize("by", [ALICE, actor("u", Role.USER, confined=True)], ids=["agent", "agent's place"])
def test_nobody_but_the_user_notes_a_pause(by: Actor) -> None:
    world = FakeLedger()

    with pytest.raises(Refused, match="Only user may do this"):
        world.ledger.record([PauseBegun(until=LATER, reason="x")], by)

    assert world.events() == []
