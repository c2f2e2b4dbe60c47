"""The contract of every store. A backend's test inherits `StoreContract` and provides its fixtures."""

from __future__ import annotations

import random

from remand.domain.access.team import look_keys, name_key
from remand.domain.events.tasks import TaskClaimed
from remand.domain.gate.state import GateState, Outage
from remand.domain.run import Run, RunCosts
from remand.domain.task import Escalation, Status, Submission
from remand.ledger import codec
from remand.ledger.event_tables import EventEntry, FileMark
from remand.ledger.problems import Problem
from remand.ledger.signatures import Doubt
from remand.ledger.store import LedgerHead, LogLine, Store, Transaction
from remand.testing.builders import (
    H1,
    LATER,
    MUCH_LATER,
    NOW,
    T1,
    T2,
    T3,
    Session,
    a_claim,
    a_lockout,
    a_task,
    assert_raises,
    got_tool_entry,
    rejection_answered,
    task_added,
    task_claimed,
    task_id,
)
from remand.testing.queue_contract import (
    DependencyContract,
    Opener,
    OutstandingWorkContract,
    PageContract,
    QueueContract,
)
from remand.testing.rejection_contract import RejectedTasksContract, TraceContract
from remand.testing.signature_contract import MissingLinesContract, UnconfirmedEventsContract


class FileContract:
    """A store knows which files it read, what was wrong with them, and what came too early."""

    def test_a_file_is_known_as_it_was_last_read(self, store: Store) -> None:
        before, after, other = FileMark("a", 1, 2, 3), FileMark("a", 4, 5, 6), FileMark("b", 1, 1, 1)

        with store.write() as tx:
            for mark in (before, other, after):
                tx.files.note(mark, ())

            assert tx.files.marks() == {"a": after, "b": other}

    def test_only_what_was_wrong_at_the_last_reading_is_wrong(self, store: Store) -> None:
        old, new, other = (Problem(file=file, line=7, problem=file) for file in ("a", "a", "b"))

        with store.write() as tx:
            tx.files.note(FileMark("b", 1, 1, 1), [other])
            tx.files.note(FileMark("a", 1, 1, 1), [old, old])
            tx.files.note(FileMark("a", 2, 2, 2), [new])

            assert tx.files.problems() == [new, other]

    def test_what_came_too_early_is_given_out_once_its_time_is_near(self, store: Store) -> None:
        session = Session()
        soon, late = (
            session.entry(task_added(task_id(n)), at=at) for n, at in enumerate((LATER, MUCH_LATER))
        )

        with store.write() as tx:
            for entry in (soon, late, soon):
                tx.held.add(entry.event, entry.line)

            assert tx.held.take_due(NOW) == []
            assert sorted(tx.held.lines()) == sorted([soon.line, late.line])
            assert tx.held.take_due(LATER) == [soon.line]
            assert tx.held.take_due(MUCH_LATER) == [late.line]
            assert tx.held.take_due(MUCH_LATER) == []


MONDAY, TUESDAY = "2026-11-16", "2026-11-17"


def _line(day: str, number: int) -> LogLine:
    return LogLine(f"{day}T09:00:00.{number:06d}Z s", f"{day} line {number}")


class RecordsContract:
    """Notes are found until they are cleared; a day's lines keep their order across tasks."""

    def test_a_task_is_out_of_date_until_all_are_cleared(self, store: Store) -> None:
        with store.write() as tx:
            tx.outdated.note(T2)
            tx.outdated.note(T1)
            tx.outdated.note(T1)
            tx.outdated.note()
        with store.write() as tx:
            assert tx.outdated.every() == ["", T1, T2]
            tx.outdated.clear()
        with store.read() as view:
            assert view.outdated.every() == []

    def test_how_the_folders_were_left_is_remembered(self, store: Store) -> None:
        with store.write() as tx:
            assert tx.outdated.mark == ""
            tx.outdated.mark = "one"
            tx.outdated.mark = "two"
        with store.read() as view:
            assert view.outdated.mark == "two"

    def test_the_lines_of_a_day_stand_in_their_order_whichever_task_they_are_of(self, store: Store) -> None:
        with store.write() as tx:
            tx.log_lines.put(T2, [_line(MONDAY, 2), _line(TUESDAY, 1)])
            tx.log_lines.put(T1, [_line(MONDAY, 3), _line(MONDAY, 1)])

            assert tx.log_lines.day(MONDAY) == [f"{MONDAY} line {n}" for n in (1, 2, 3)]
            assert tx.log_lines.days() == [MONDAY, TUESDAY]

    def test_a_tasks_lines_are_replaced_and_every_day_they_were_on_is_told(self, store: Store) -> None:
        with store.write() as tx:
            tx.log_lines.put(T1, [_line(MONDAY, 1)])
            tx.log_lines.put(T2, [_line(MONDAY, 2)])

            assert tx.log_lines.put(T1, [_line(TUESDAY, 1)]) == {MONDAY, TUESDAY}
            assert tx.log_lines.day(MONDAY) == [f"{MONDAY} line 2"]
            tx.log_lines.clear()
            assert tx.log_lines.days() == []

    def test_the_tasks_that_wait_for_the_user_are_found(self, store: Store) -> None:
        escalation = Escalation(id="E-1", reason="why", opened_at=NOW, deadline=LATER)
        with store.write() as tx:
            tx.tasks.put(a_task(T1, status=Status.ESCALATED, escalation=escalation))
            tx.tasks.put(a_task(T2, status=Status.ESCALATED, escalation=escalation))
            tx.tasks.put(a_task(T3, escalation=escalation))
            tx.tasks.put(a_task(T2, status=Status.REJECTED, escalation=escalation))

            assert [task.id for task in tx.task_lists.with_status(Status.ESCALATED)] == [T1]

    def test_the_tasks_are_found_that_a_commit_or_a_pull_request_was_handed_in_for(
        self, store: Store
    ) -> None:
        work = Submission(commit="a" * 40, agent="Alice", handoff_id="H-1", at=NOW)
        with store.write() as tx:
            tx.tasks.put(a_task(T1, submission=work))
            tx.tasks.put(a_task(T2, submission=work, pr=7))
            tx.tasks.put(a_task(T3, title='"pr":7, "submission":{"commit":"aaaa"}'))

            assert [task.id for task in tx.names.find_submitted("a" * 40, 0)] == [T1, T2]
            assert [task.id for task in tx.names.find_submitted("b" * 40, 7)] == [T2]
            tx.tasks.put(a_task(T1, pr=7))
            assert [task.id for task in tx.names.find_submitted("a" * 40, 7)] == [T1, T2]
            assert tx.names.find_submitted("b" * 40, 0) == []

    def test_the_tasks_for_which_a_gate_could_not_be_measured_are_found(self, store: Store) -> None:
        outage = Outage(gate="tests", cause="no pytest", text="no pytest")
        with store.write() as tx:
            tx.tasks.put(a_task(T1, gates=GateState(outages=(outage,))))
            tx.tasks.put(a_task(T2, title='"outages":['))
            tx.tasks.put(a_task(T3, gates=GateState(outages=(outage,))))
            tx.tasks.put(a_task(T3))

            assert [task.id for task in tx.task_lists.with_outages()] == [T1]

    def test_the_tasks_that_somebody_is_at_work_on_are_found(self, store: Store) -> None:
        run = Run(id="RUN-20261115-090000-00000001", agent="Alice", purpose="work", started_at=NOW)
        with store.write() as tx:
            tx.tasks.put(a_task(T1, status=Status.CLAIMED, runs=(run,)))
            tx.tasks.put(a_task(T2, status=Status.CLAIMED))
            tx.tasks.put(a_task(T3, status=Status.PROVISIONAL, runs=(run,)))
            tx.tasks.put(a_task(T3, status=Status.PROVISIONAL, spent=RunCosts(runs=1)))

            assert [task.id for task in tx.task_lists.running_tasks()] == [T1]
            assert [task.id for task in tx.task_lists.with_status(Status.CLAIMED)] == [T1, T2]
            assert [tx.queue.count(one) for one in (Status.PROVISIONAL, Status.BLOCKED)] == [1, 0]


class EventContract:
    """Events are stored once, each session's together, and found by task and key."""

    def test_an_event_is_kept_once_however_often_it_comes(self, store: Store) -> None:
        entry = Session().entry(task_added())

        with store.write() as tx:
            tx.events.add([entry, entry])
        with store.write() as tx:
            tx.events.add([entry])

            assert tx.events.count() == 1
            assert tx.events.of_task(T1) == [entry.line]

    def test_a_change_finds_its_own_events_beside_those_kept_before(self, store: Store) -> None:
        session = Session()
        before, own = session.entry(task_added()), session.entry(task_claimed())
        with store.write() as tx:
            tx.events.add([before])

        with store.write() as tx:
            tx.events.add([own])

            assert tx.events.of_task(T2) == []
            assert tx.events.of_task(T1) == [before.line, own.line]

    def test_a_line_of_a_got_tool_is_kept_once(self, store: Store) -> None:
        line = b'{"ts":"2026-01-01T00:00:00Z","event":"node.delete","meta":{"session":"s"},"id":"T-1"}'
        entry = EventEntry(codec.decode_line(line), line, "T-1")

        with store.write() as tx:
            tx.events.add([entry, entry])

            assert list(tx.events.lines()) == [line]

    def test_a_line_of_a_got_tool_is_given_to_its_task_once_that_is_known(self, store: Store) -> None:
        entry, other = (
            got_tool_entry("handoff.reject", handoff_id=name, agent="Bob") for name in ("H-1", "H-2")
        )
        with store.write() as tx:
            tx.events.add([entry, other, Session().entry(task_added(T2))])
            tx.event_rows.assign(lambda line: T1 if line == entry.line else "")

            assert (tx.events.of_task(T1), len(tx.events.of_task(T2))) == ([entry.line], 1)
            tx.event_rows.assign(lambda _: T2)
            assert tx.events.of_task(T1) == [entry.line]
            assert other.line in tx.events.of_task(T2)

    def test_the_lines_of_each_task_are_read_together(self, store: Store) -> None:
        events = (task_added(T2), task_added(T1), task_claimed(task_id=T2))
        two, one, claim = map(Session().entry, events)
        lone = got_tool_entry("handoff.reject", handoff_id="H-1", agent="Bob")
        with store.write() as tx:
            tx.events.add([two, one, lone, claim])

        with store.read() as view:
            found = [(row.subject, row.line) for row in view.event_rows.rows(have_task=True)]
            assert [name for name, _ in found] == [T1, T2, T2]
            assert set(found) == {(T1, one.line), (T2, two.line), (T2, claim.line)}
            assert [row.line for row in view.event_rows.rows(have_task=False)] == [lone.line]

    def test_what_a_copied_ledger_wrote_differently_is_kept_beside(self, store: Store) -> None:
        first, second = (
            Session("s").entry(task_added(title="One")),
            Session("s").entry(task_added(title="Another")),
        )

        with store.write() as tx:
            tx.events.add([first])
            tx.events.add([second])
            tx.events.add([second, first])

            assert tx.events.count() == 2
            assert set(tx.events.of_task(T1)) == {first.line, second.line}
            assert list(tx.events.lines("s")) == [first.line, second.line]

    def test_very_many_events_of_one_number_are_kept_once_each(self, store: Store) -> None:
        entries = [Session("s").entry(task_added(title=f"Task {n}")) for n in range(50)]

        with store.write() as tx:
            for _ in range(2):
                for entry in entries:
                    tx.events.add([entry])

            assert tx.events.count() == 50
            assert sorted(tx.events.lines("s", 1)) == sorted(entry.line for entry in entries)
            assert tx.unconfirmed.verdict(entries[-1]) is Doubt.NONE

    def test_the_lines_of_a_session_stand_together_in_their_order(self, store: Store) -> None:
        one, two = Session("one"), Session("two")
        mixed = [session.entry(task_added(task_id(n))) for n in range(20) for session in (one, two)]
        random.Random(1).shuffle(mixed)  # noqa: S311 - repeatable by intent

        with store.write() as tx:
            tx.events.add(mixed)

            assert list(tx.events.lines()) in (
                one.event_lines + two.event_lines,
                two.event_lines + one.event_lines,
            )

    def test_a_sessions_own_lines_can_be_had_from_a_number_on(self, store: Store) -> None:
        session, other = Session("one"), Session("two")
        entries = [session.entry(task_added(task_id(n))) for n in range(5)]

        with store.write() as tx:
            tx.events.add([*entries, other.entry(task_added(T1))])

            assert list(tx.events.lines("one", 3)) == session.event_lines[2:]
            assert list(tx.events.lines("nobody", 1)) == []

    def test_the_events_of_a_key_come_in_their_order(self, store: Store) -> None:
        session = Session()
        entries = [session.entry(task_added(task_id(n)), key="k" if n % 2 else "") for n in range(6)]

        with store.write() as tx:
            tx.events.add(entries)

            assert tx.events.of_key("k") == [entries[n].line for n in (1, 3, 5)]
            assert tx.events.of_key("") == []

    def test_an_event_that_was_removed_can_be_kept_again(self, store: Store) -> None:
        session = Session()
        entries = [session.entry(task_added(T1)), session.entry(task_added(T2))]
        old = b'{"ts":"2025-12-20T00:00:00Z","event":"node.create","meta":{},"id":"task:T-9","type":"TASK","data":{}}'
        legacy = EventEntry(codec.decode_line(old), old, "T-9")

        with store.write() as tx:
            tx.events.add([*entries, legacy])
            tx.event_rows.remove([entries[1].line, legacy.line])
            assert list(tx.events.lines()) == [entries[0].line]
            assert tx.events.of_task(T2) == []
            tx.events.add([*entries, legacy])

            assert sorted(tx.events.lines()) == sorted([*session.event_lines, old])
            assert tx.events.of_task(T2) == [entries[1].line]

    def test_rows_are_found_by_kind_and_by_line(self, store: Store) -> None:
        session = Session()
        entries = [
            session.entry(task_added(T1)),
            session.entry(task_claimed(T1)),
            session.entry(task_added(T2)),
        ]
        old = b'{"ts":"2025-12-20T00:00:00Z","event":"node.create","meta":{},"id":"task:T-9","type":"TASK","data":{}}'
        legacy = EventEntry(codec.decode_line(old), old, "T-9")

        with store.write() as tx:
            tx.events.add([*entries, legacy])
            claims = tx.event_rows.rows(kind=TaskClaimed)
            assert sorted(row.line for row in claims) == sorted([entries[1].line, old])
            rows = list(tx.event_rows.rows(lines=[entries[2].line, old, entries[0].line]))
            assert sorted((row.line, row.subject) for row in rows) == sorted(
                [(entries[0].line, T1), (entries[2].line, T2), (old, "T-9")]
            )
            assert list(tx.event_rows.rows(lines=[])) == []
            assert len(list(tx.event_rows.rows())) == 4

    def test_the_tail_has_the_latest_lines(self, store: Store) -> None:
        clock = Session().clock
        sessions = [Session(name, clock) for name in ("one", "two")]
        entries = [sessions[n % 2].entry(task_added(task_id(n))) for n in range(20)]

        with store.write() as tx:
            tx.events.add(entries)

            assert {entry.line for entry in entries[-5:]} <= set(tx.event_rows.tail(5))

    def test_the_events_of_a_task_are_counted_with_the_groups_that_name_it(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            tx.events.add([session.entry(task_added(task)) for task in (T1, T2)])
        with store.write() as tx:
            tx.events.add([session.entry(task_added(T2))])
            assert (tx.events.count(T1), tx.events.count(T2), tx.events.count()) == (1, 2, 3)


class TaskContract:
    """Tasks are stored unchanged, and found by all of their names."""

    def test_a_task_comes_back_as_it_was_put(self, store: Store) -> None:
        task = a_task(claim=a_claim(), status=Status.CLAIMED, lockouts=(a_lockout("Bob"),), depends_on=(T2,))

        with store.write() as tx:
            tx.tasks.put(a_task())
            tx.tasks.put(task)
        with store.read() as view:
            assert view.tasks.get(T1) == task
            assert view.tasks.get(T2) is None

    def test_all_tasks_come_by_id(self, store: Store) -> None:
        with store.write() as tx:
            for name in (T3, T1, T2):
                tx.tasks.put(a_task(name))

            assert [task.id for task in tx.tasks.every()] == [T1, T2, T3]

    def test_tasks_are_counted_by_their_status(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1))
            tx.tasks.put(a_task(T2))
            tx.tasks.put(a_task(T3, status=Status.DONE))
            tx.tasks.put(a_task(T2, status=Status.DONE))

            assert tx.queue.counts() == {"incoming": 1, "done": 2}

    def test_no_more_tasks_of_a_status_are_read_than_are_asked_for(self, store: Store) -> None:
        with store.write() as tx:
            for name in (T3, T1, T2):
                tx.tasks.put(a_task(name, status=Status.FAILED))

            assert [task.id for task in tx.task_lists.with_status(Status.FAILED, 2)] == [T1, T2]

    def test_a_task_is_found_by_its_alias_until_it_loses_it(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(aliases=("#1", "#2")))
            tx.tasks.put(a_task(aliases=("#2", "H-house#3")))

            assert [tx.names.find_task_id(name) for name in ("#1", "#2", "H-house#3")] == ["", T1, T1]

    def test_ids_are_found_by_their_ends(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1))
            tx.tasks.put(a_task(T2))
        with store.read() as tx:
            assert tx.names.ids_with_end(T1[-6:]) == [T1]
            assert T2 not in tx.names.ids_with_end(T1[-6:])
            assert tx.names.ids_with_end("%") == tx.names.ids_with_end(T1[-6:], are_handoffs=True) == []

    def test_of_two_tasks_with_one_alias_the_oldest_has_it(self, new_store: Opener) -> None:
        for order in ((T1, T2), (T2, T1)):
            with new_store().write() as tx:
                for name in order:
                    tx.tasks.put(a_task(name, aliases=("#1",)))

                assert tx.names.find_task_id("#1") == T1, order
                tx.tasks.put(a_task(T1))
                assert tx.names.find_task_id("#1") == T2, order

    def test_everyone_with_a_part_in_a_task_is_found_by_spelling_and_looks(self, store: Store) -> None:
        with store.write() as tx:
            tx.tasks.put(a_task(T1, created_by="user"))
            tx.tasks.put(a_task(T1, created_by="user", holders=("Fenster",)))
            tx.tasks.put(a_task(T2, lockouts=(a_lockout("fenster"),)))

            assert tx.names.names_with_key(name_key(" FENSTER")) == ["Fenster", "fenster"]
            assert tx.names.names_with_key(look_keys("Fenst\u0435r")[0]) == ["Fenster"]
            assert tx.names.names_with_key(name_key("User")) == ["user"]
            assert tx.names.names_with_key(name_key("Keyser")) == []
            tx.tasks.replace_all([a_task(T2, holders=("Keyser",))], [])
            assert tx.names.names_with_key(name_key("Fenster")) == []
            assert tx.names.names_with_key(name_key("Keyser")) == ["Keyser"]

    def test_a_task_is_found_by_its_handoffs(self, store: Store) -> None:
        with store.write() as tx:
            tx.events.add([Session().entry(task_claimed(handoff_id=H1))])

            assert tx.names.find_task_id(H1) == T1
            assert tx.names.find_task_id("H-nothing") == ""

    def test_what_is_asked_in_a_change_knows_the_events_of_that_change(self, store: Store) -> None:
        added, claimed = map(Session().entry, (task_added(), task_claimed()))

        with store.write() as tx:
            tx.events.add([added])
            tx.events.add([claimed])
            assert tx.names.find_task_id(H1) == T1
            assert tx.events.of_task(T1) == [added.line, claimed.line]
            tx.events.add([claimed])
        with store.read() as view:
            assert view.names.find_task_id(H1) == T1
            assert list(view.events.lines()) == [added.line, claimed.line]

    def test_events_of_a_change_that_fails_do_not_come_with_the_next_one(self, store: Store) -> None:
        added, other = (Session(name).entry(task_added()) for name in ("one", "other"))

        def fail() -> None:
            with store.write() as tx:
                tx.events.add([added])
                raise ZeroDivisionError

        with assert_raises(ZeroDivisionError):
            fail()
        with store.write() as tx:
            tx.events.add([other])
        with store.read() as view:
            assert list(view.events.lines()) == [other.line]

    def test_a_task_is_known_by_those_that_wait_for_it_or_were_split_into_it_or_reformulated_as_it(
        self, store: Store
    ) -> None:
        names = [f"T-{number}" for number in range(5)]
        with store.write() as tx:
            tx.tasks.put(a_task(names[3], status=Status.INFEASIBLE, superseded_by=T1))
            tx.events.add(
                [Session().entry(rejection_answered("ACCEPT_AND_REFORMULATE", names[3], created=(T1,)))]
            )
            tx.tasks.put(a_task(names[2], depends_on=(T1,)))
            tx.tasks.put(a_task(names[1], status=Status.DEFERRED, waits_for=(T2, T1)))
            tx.tasks.put(a_task(names[0], status=Status.DECOMPOSED, children=(T1, T2)))
            tx.tasks.put(a_task(names[4], depends_on=(T3,)))

            assert [task.id for task in tx.dependencies.predecessors(T1, 9)] == names[:4]
            assert [task.id for task in tx.dependencies.predecessors(T1, 2)] == names[:2]
            assert tx.dependencies.predecessors("T-none", 9) == []

    def test_replacing_everything_leaves_nothing_of_what_was(self, store: Store) -> None:
        with store.write() as tx:
            tx.events.add([Session().entry(task_claimed(handoff_id=H1))])
            tx.tasks.put(a_task(T1, aliases=("#1",)))
            tx.tasks.put(a_task(T2, depends_on=(T1,)))
            tx.tasks.replace_all([a_task(T2, aliases=("#2",)), a_task(T3)], [("H-new", T3)])

            assert [task.id for task in tx.tasks.every()] == [T2, T3]
            assert [tx.names.find_task_id(name) for name in ("#1", "#2", H1, "H-new")] == ["", T2, "", T3]
            assert tx.queue.ready() == [T2, T3]
            assert tx.dependencies.path(T2, T1) == ()


class TransactionContract:
    """A change happens completely or not at all."""

    def test_the_head_is_kept(self, store: Store) -> None:
        head = LedgerHead(
            session="s", seq=3, tip="t", clock=NOW, segment="g", first=2, size=9, inode=7, bounded_from=NOW
        )

        with store.write() as tx:
            tx.head = head
        with store.read() as view:
            assert view.head == head

    def test_a_change_is_seen_by_a_number_that_reading_leaves_alone(self, store: Store) -> None:
        before = store.changes()
        with store.read() as view:
            list(view.tasks.every())
        was_read = store.changes()
        with store.write() as tx:
            tx.tasks.put(a_task(T1))

        assert was_read == before
        assert store.changes() != before

    def test_a_change_that_fails_leaves_nothing(self, store: Store) -> None:
        session = Session()
        with store.write() as tx:
            _change(tx, session.entry(task_added(T1)), T1, "a")
            before = _all_tables(tx)

        def fail() -> None:
            with store.write() as tx:
                _change(tx, session.entry(task_added(T2)), T2, "b")
                tx.tasks.put(a_task(T1, status=Status.DONE, aliases=()))
                assert tx.held.take_due(MUCH_LATER)
                raise ZeroDivisionError

        with assert_raises(ZeroDivisionError):
            fail()
        with store.write() as tx:
            assert _all_tables(tx) == before
            assert tx.held.take_due(MUCH_LATER) == list(tx.events.lines())

    def test_what_was_done_outside_is_taken_back_last_first_when_a_change_fails(self, store: Store) -> None:
        undone: list[int] = []

        def change(number: int) -> None:
            with store.write() as tx:
                tx.on_rollback(lambda: undone.append(1))
                tx.on_rollback(lambda: undone.append(2))
                assert 1 / number

        change(1)
        assert undone == []
        with assert_raises(ZeroDivisionError):
            change(0)
        assert undone == [2, 1]


def _change(tx: Transaction, entry: EventEntry, name: str, file: str) -> None:
    """Writes to every table."""
    tx.events.add([entry])
    tx.tasks.put(a_task(name, aliases=(f"#{file}",), depends_on=(T3,)))
    tx.files.note(FileMark(file, 1, 2, 3), [Problem(file=file, line=1, problem="torn")])
    tx.held.add(entry.event, entry.line)
    tx.head = LedgerHead(session=tx.head.session, seq=tx.head.seq + 1, tip=entry.event.meta.id)


def _all_tables(tx: Transaction) -> tuple[object, ...]:
    return (
        list(tx.events.lines()),
        list(tx.tasks.every()),
        [tx.names.find_task_id(name) for name in ("#a", "#b")],
        tx.queue.ready(),
        tx.files.marks(),
        tx.files.problems(),
        tx.head,
    )


class StoreContract(
    EventContract,
    TaskContract,
    QueueContract,
    PageContract,
    DependencyContract,
    OutstandingWorkContract,
    RecordsContract,
    RejectedTasksContract,
    TraceContract,
    UnconfirmedEventsContract,
    MissingLinesContract,
    FileContract,
    TransactionContract,
):
    """All of it, for pytest or another runner that passes fixtures to test methods by name.

    A backend provides two fixtures: `new_store`, which opens an empty store at each call, and `store`, an
    opened one.
    """
