"""What every store must hold to about files: those it has read, and those made from it."""

from __future__ import annotations

from remand.domain.gate.state import GateState, Outage
from remand.domain.run import Run, RunCosts
from remand.domain.task import Escalation, Status, Submission
from remand.ledger.event_tables import FileMark
from remand.ledger.problems import Problem
from remand.ledger.store import LogLine, Store
from remand.testing.builders import LATER, MUCH_LATER, NOW, T1, T2, T3, Session, a_task, task_added, task_id


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
    """What was noted is found until it is cleared; a day's lines stand in their order, whichever task's they are."""

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
        asked = Escalation(id="E-1", reason="why", opened_at=NOW, deadline=LATER)
        with store.write() as tx:
            tx.tasks.put(a_task(T1, status=Status.ESCALATED, escalation=asked))
            tx.tasks.put(a_task(T2, status=Status.ESCALATED, escalation=asked))
            tx.tasks.put(a_task(T3, escalation=asked))
            tx.tasks.put(a_task(T2, status=Status.REJECTED, escalation=asked))

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
