"""Holds the plain lines that are written where nobody looks at a terminal."""

from typing import Any

from remand.app.history.activity import activity_entry
from remand.app.scheduler.ports import BreachStatus, SchedulerStatus
from remand.interfaces.cli.terminal.screen import activity_line, status_lines
from remand.testing.builders import LATER, NOW, Session, task_added, task_claimed
from tests.unit.interfaces.cli.terminal.test_screen import HOSTILE

DISK = BreachStatus(cause="disk", message="The disk is full", since=NOW)


def a_status(**fields: Any) -> SchedulerStatus:
    return SchedulerStatus(**{"pid": 4711, "started_at": NOW, "tick_at": LATER, **fields})


def test_an_event_is_one_line_with_its_time_its_task_and_what_happened() -> None:
    event = Session().write(task_claimed(), at=NOW)

    assert activity_line(activity_entry(event, "issue #42")) == (
        "2026-11-15T09:00:00Z  issue #42                        Alice claimed it, attempt 1"
    )


def test_whatever_an_event_says_it_is_one_line_that_commands_nothing() -> None:
    line = activity_line(activity_entry(Session().write(task_added(title=HOSTILE), at=NOW), HOSTILE))

    assert line.isprintable()
    assert "evil" in line


def test_what_keeps_one_member_names_it() -> None:
    stuck = a_status(breaker=(BreachStatus(cause="runs of Bob", message="It failed", since=NOW),))

    assert [line.split(maxsplit=2)[2] for line in status_lines(None, stuck)] == [
        "does not start Bob (runs of Bob): It failed"
    ]


def test_what_changes_about_the_scheduler_is_said_once() -> None:
    stuck = a_status(breaker=(DISK,), waiting="ten wait for review", forge="it does not answer")

    assert list(status_lines(None, a_status())) == []
    assert [line.split(maxsplit=1)[1] for line in status_lines(None, stuck)] == [
        "scheduler                        starts nothing (disk): The disk is full",
        "scheduler                        waits: ten wait for review",
        "forge                            it does not answer",
    ]
    assert list(status_lines(stuck, stuck)) == []
    assert [line.split(maxsplit=2)[2] for line in status_lines(stuck, a_status())] == [
        "starts agents again (disk)",
        "no longer waits",
        "answers again",
    ]
    assert list(status_lines(stuck, None)) == []
