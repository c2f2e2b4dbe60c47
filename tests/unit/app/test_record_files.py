"""The files beside the ledger are as the ledger has it, whatever happens to them."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from remand.app.events.orchestration_log import log_lines
from remand.app.events.task_folds import rebuild_tables, task_events
from remand.app.log.repair import rebuild_from_files
from remand.app.record_files import RecordFileUpdater, RecordKind
from remand.app.requests import Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import USER, Role, Team
from remand.domain.events.reviews import Finding
from remand.testing.fakes import FakeClock
from tests.support.builders import FakeLedger, member
from tests.support.fakes import MemoryRecordFiles

RULES = Rules(gates=(), team=Team((member("Fenster", Role.AGENT), member("Lead", Role.LEAD))))
NO = (Finding(text="no label", path="a.py", line=1),)


class Kept:
    """A ledger with its files."""

    def __init__(self) -> None:
        self.world = FakeLedger(rules=RULES)
        self.files = MemoryRecordFiles()
        self.records = RecordFileUpdater(self.world.store, lambda: self.files, lambda: RULES.team)

    def escalated(self, title: str = "Mend the roof") -> str:
        """A task whose only agent was rejected: it asks the user."""
        task = self.world.add(title)
        self.world.claim(task, "Fenster")
        self.world.submit(task, "Fenster", commit=f"work on {task}")
        self.world.ask(c.RejectReview(task_id=task, commit=f"work on {task}", findings=NO), "Lead")
        return task

    def question(self, task: str) -> str:
        asked = self.world.task(task).open_escalation
        assert asked is not None
        return asked.id

    def keep(self) -> None:
        assert self.records.update() == ""

    def whole_log(self) -> list[str]:
        """Every line of the log as it follows from the ledger alone."""
        with self.world.store.read() as view:
            lines = [line for task in view.tasks.every() for line in log_lines(task_events(view, task.id))]
        return [line.text for line in sorted(lines)]

    def written_log(self) -> list[str]:
        days = sorted(self.files.of(RecordKind.LOG).items())
        return [line for _, text in days for line in text.splitlines()]


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_a_task_that_asks_the_user_has_a_message_a_page_and_its_lines(kept: Kept) -> None:
    task = kept.escalated()
    kept.keep()

    name = kept.question(task)
    message = kept.files.of(RecordKind.MESSAGE)[name]
    assert f"remand inbox answer {name} unlock:Fenster" in message
    assert f"remand inbox answer {name} wontfix" in message
    assert "Lead rejected Fenster's work: a.py:1: no label" in message
    assert "## Review Feedback (rejection #1)" in kept.files.of(RecordKind.TASK)[task]
    assert [line.split(": ")[0][22:] for line in kept.written_log()] == ["REVIEW", "LOCKOUT", "ESCALATE"]


def test_a_task_that_nobody_rejected_has_no_file(kept: Kept) -> None:
    kept.world.claim(kept.world.add(), "Fenster")
    kept.keep()

    assert kept.files.texts == {}


def test_an_answered_question_has_no_message_any_more(kept: Kept) -> None:
    task = kept.escalated()
    kept.keep()
    kept.world.ask(c.AnswerEscalation(task_id=task, option="fix"))
    kept.keep()

    assert kept.files.of(RecordKind.MESSAGE) == {}
    assert "## Review Feedback" in kept.files.of(RecordKind.TASK)[task]


def test_only_the_files_of_tasks_that_changed_are_written(kept: Kept) -> None:
    kept.escalated("One")
    task = kept.escalated("Another")
    kept.keep()
    before = kept.files.writes
    kept.world.ask(c.AnswerEscalation(task_id=task, option="fix"))
    kept.keep()

    assert kept.files.writes == before + 2, "its own page, and the day's log"
    kept.keep()
    assert kept.files.writes == before + 2


def test_a_log_that_goes_on_is_neither_read_nor_written_anew(kept: Kept) -> None:
    kept.escalated()
    kept.keep()
    kept.files.whole_logs = 0

    for number in range(5):
        kept.escalated(f"Mend roof {number}")
        kept.keep()

    assert kept.files.whole_logs == 0
    assert kept.written_log() == kept.whole_log()


def test_a_log_that_somebody_changed_is_written_anew(kept: Kept) -> None:
    kept.escalated()
    kept.keep()
    ((day, text),) = kept.files.of(RecordKind.LOG).items()
    kept.files.texts[RecordKind.LOG, day] = f"{text}mine\n"

    kept.escalated("Mend the gutter")
    kept.keep()

    assert kept.written_log() == kept.whole_log()


def test_a_file_that_was_taken_away_comes_back(kept: Kept) -> None:
    task = kept.escalated()
    kept.keep()
    whole = dict(kept.files.texts)
    for gone in list(whole):
        kept.files.drop(*gone)
        kept.keep()
        assert kept.files.texts == whole
    assert (RecordKind.MESSAGE, kept.question(task)) in whole


def test_a_file_that_nothing_in_the_ledger_stands_for_is_taken_away(kept: Kept) -> None:
    kept.escalated()
    kept.keep()
    kept.files.put(RecordKind.MESSAGE, "E-0123456789ab", "forged")
    kept.keep()

    assert "E-0123456789ab" not in kept.files.of(RecordKind.MESSAGE)


def test_what_could_not_be_written_is_said_and_written_the_next_time(kept: Kept) -> None:
    kept.escalated()
    kept.files.failure = OSError(28, "No space left on device")

    assert "No space left" in kept.records.update()
    kept.files.failure = None
    kept.keep()
    assert kept.written_log() == kept.whole_log() != []


def test_rebuilding_the_ledger_makes_the_same_files_again(kept: Kept) -> None:
    kept.escalated()
    kept.keep()
    whole = dict(kept.files.texts)
    kept.files.texts[RecordKind.TASK, "T-none"] = "left over"
    with kept.world.store.write() as tx:
        rebuild_tables(tx)
    kept.keep()

    assert kept.files.texts == whole


def test_a_rebuild_that_finds_nothing_new_writes_files_only_if_a_row_or_a_file_was_changed(
    kept: Kept,
) -> None:
    task, other = kept.escalated("One"), kept.escalated("Two")
    kept.keep()
    whole, writes = dict(kept.files.texts), kept.files.writes
    rebuild_from_files(kept.world.ledger)
    kept.keep()
    assert kept.files.writes == writes

    page = RecordKind.TASK, task
    kept.files.texts[page] = kept.files.texts[RecordKind.TASK, other] = "edited"
    forged = replace(kept.world.task(task), title="forged")
    with kept.world.store.write() as tx:
        tx.tasks.put(forged)
    rebuild_from_files(kept.world.ledger)
    kept.keep()
    assert kept.files.texts[page] == whole[page]
    assert kept.files.texts != whole

    kept.files.is_edited = True
    rebuild_from_files(kept.world.ledger)
    kept.keep()
    assert kept.files.texts == whole


def test_a_rebuild_restores_lines_that_the_table_of_the_log_lost(kept: Kept) -> None:
    task = kept.escalated()
    kept.keep()
    whole, lines = dict(kept.files.texts), kept.whole_log()
    with kept.world.store.write() as tx:
        tx.log_lines.put(task, [])
    rebuild_from_files(kept.world.ledger)
    kept.keep()

    assert kept.files.texts == whole
    with kept.world.store.read() as view:
        assert [line.text for line in view.log_lines.of_task(task)] == lines


def test_older_events_of_another_ledger_find_their_place_in_the_log(kept: Kept) -> None:
    there = Kept()
    there.world = FakeLedger(
        rules=RULES, session="20261115-080000-0000ffff", clock=FakeClock("2026-11-15T08:59:59.000000Z")
    )
    theirs = there.escalated("Two")
    mine = kept.escalated("One")
    kept.keep()
    for path in list(there.world.exchange.contents):
        lines = [line for _, line in there.world.exchange.read(path) if isinstance(line, bytes)]
        kept.world.exchange.put(f"/events/theirs-{path.rsplit('/', 1)[1]}", lines)
    kept.world.ledger.refresh()
    kept.keep()

    assert kept.written_log() == kept.whole_log()
    assert len(kept.written_log()) == 6
    assert theirs in kept.written_log()[0], "theirs was first"
    assert {theirs, mine} == set(kept.files.of(RecordKind.TASK))


def test_after_any_mix_of_commands_the_log_is_what_follows_from_the_ledger(kept: Kept) -> None:
    chance = random.Random(5)
    tasks = [kept.escalated(f"Task {n}") for n in range(4)]
    for _ in range(60):
        task, choice = chance.choice(tasks), chance.randrange(6)
        asks: list[c.Command] = [
            c.AnswerEscalation(task_id=task, option="fix"),
            c.Unlock(task_id=task, agent="Fenster", reason="better guidance", guidance="use aria"),
            c.EscalateTask(task_id=task, reason="stuck"),
            c.LockOut(task_id=task, agent="Fenster", reason="no"),
            c.RetractReview(task_id=task, reason="my mistake"),
            c.AcknowledgeEscalation(task_id=task),
        ]
        kept.world.ledger.ask(Request(command=asks[choice], actor=USER))
        kept.world.clock.advance(chance.choice((1, 3600, 40_000)))
        if chance.random() < 0.7:
            kept.keep()
    kept.keep()

    assert kept.written_log() == kept.whole_log()
    assert len(kept.files.of(RecordKind.LOG)) > 1, "one file a day"
    assert set(kept.files.of(RecordKind.MESSAGE)) == {
        one.inbox.escalation.id
        for one in kept.world.tasks().values()
        if one.open_escalation and one.inbox.escalation
    }
