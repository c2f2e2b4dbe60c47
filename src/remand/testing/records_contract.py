"""How a store keeps the lines of the orchestration log, and whose files are out of date. A part of `store_contract`."""

from __future__ import annotations

from remand.domain.gates.outages import Outage
from remand.domain.gates.standing import Gating
from remand.domain.runs import Run, Spent
from remand.domain.task import Escalation, Status, Submission
from remand.ledger.record_tables import LogLine
from remand.ledger.store import Store
from remand.testing.builders import LATER, NOW, T1, T2, T3, a_task

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

            assert [task.id for task in tx.tasks.escalated()] == [T1]

    def test_the_tasks_are_found_that_a_commit_or_a_pull_request_was_handed_in_for(
        self, store: Store
    ) -> None:
        work = Submission(commit="a" * 40, agent="Alice", handoff_id="H-1", at=NOW)
        with store.write() as tx:
            tx.tasks.put(a_task(T1, submission=work))
            tx.tasks.put(a_task(T2, submission=work, pr=7))
            tx.tasks.put(a_task(T3, title='"pr":7, "submission":{"commit":"aaaa"}'))

            assert [task.id for task in tx.tasks.handed_in("a" * 40, 0)] == [T1, T2]
            assert [task.id for task in tx.tasks.handed_in("b" * 40, 7)] == [T2]
            tx.tasks.put(a_task(T1, pr=7))
            assert [task.id for task in tx.tasks.handed_in("a" * 40, 7)] == [T1, T2]
            assert tx.tasks.handed_in("b" * 40, 0) == []

    def test_the_tasks_for_which_a_gate_could_not_be_measured_are_found(self, store: Store) -> None:
        outage = Outage(gate="tests", cause="no pytest", text="no pytest")
        with store.write() as tx:
            tx.tasks.put(a_task(T1, gating=Gating(outages=(outage,))))
            tx.tasks.put(a_task(T2, title='"outages":['))
            tx.tasks.put(a_task(T3, gating=Gating(outages=(outage,))))
            tx.tasks.put(a_task(T3))

            assert [task.id for task in tx.tasks.with_outages()] == [T1]

    def test_the_tasks_that_somebody_is_at_work_on_are_found(self, store: Store) -> None:
        run = Run(id="RUN-20261115-090000-00000001", agent="Alice", purpose="work", started_at=NOW)
        with store.write() as tx:
            tx.tasks.put(a_task(T1, status=Status.CLAIMED, runs=(run,)))
            tx.tasks.put(a_task(T2, status=Status.CLAIMED))
            tx.tasks.put(a_task(T3, status=Status.PROVISIONAL, runs=(run,)))
            tx.tasks.put(a_task(T3, status=Status.PROVISIONAL, spent=Spent(runs=1)))

            assert [task.id for task in tx.tasks.running()] == [T1]
            assert [task.id for task in tx.tasks.active(Status.CLAIMED)] == [T1, T2]
            assert [tx.tasks.count_active(one) for one in (Status.PROVISIONAL, Status.BLOCKED)] == [1, 0]
