"""Progress: what a call is at is shown once it takes long, to people, and never in the answer."""

from __future__ import annotations

from io import StringIO

import pytest

from remand.interfaces.cli import output
from remand.interfaces.cli.output import ProgressLines


class Terminal(StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """The seconds that have passed."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(output, "time", found)
    return found


def test_nothing_is_shown_of_a_call_that_is_over_within_a_second(clock: Clock) -> None:
    for stream in (StringIO(), Terminal()):
        progress = ProgressLines(stream)
        progress.show("reading event files, 1 of 2 MB")
        progress.close()

        assert not stream.getvalue()


def test_a_pipe_gets_a_whole_line_every_few_seconds(clock: Clock) -> None:
    stream = StringIO()
    progress = ProgressLines(stream)
    for second in range(1, 12):
        clock.now = second
        progress.show(f"pull request #{second}, {second} of 11")
    progress.close()

    assert stream.getvalue().splitlines() == [
        "remand: pull request #1, 1 of 11 (1 s)",
        "remand: pull request #6, 6 of 11 (6 s)",
        "remand: pull request #11, 11 of 11 (11 s)",
    ]


def test_a_terminal_has_one_line_that_changes_and_is_gone_at_the_end(clock: Clock) -> None:
    stream = Terminal()
    progress = ProgressLines(stream)
    clock.now = 2
    progress.show("checking events, 5,000")
    clock.now = 3
    progress.show("checking events, 10,000")
    progress.close()

    assert "\n" not in stream.getvalue()
    assert stream.getvalue().split("\r\x1b[K") == [
        "",
        "remand: checking events, 5,000 (2 s)",
        "remand: checking events, 10,000 (3 s)",
        "",
    ]


def test_steps_of_gates_come_before_what_the_call_is_at(clock: Clock) -> None:
    stream = StringIO()
    progress = ProgressLines(stream)
    progress.show("doctor")
    progress("tests", "prepare")
    clock.now = 4
    progress.show("doctor")
    progress("tests", "prepare", 4.0)
    progress.close()

    assert stream.getvalue().splitlines() == [
        "  tests (installing, 4 s)",
        "  tests: installed in 4 s",
        "remand: doctor (4 s)",
    ]


def test_what_a_call_is_at_has_no_control_characters(clock: Clock) -> None:
    stream = StringIO()
    progress = ProgressLines(stream)
    clock.now = 2
    progress.show("reading \x1b[31mevil\n.jsonl")
    progress.close()

    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_items_that_take_long_are_counted_as_they_come(clock: Clock) -> None:
    stream = StringIO()
    progress = ProgressLines(stream)
    for _ in progress.each(["a", "b", "c"], "examining commit"):
        clock.now += 10
    progress.close()

    assert stream.getvalue().splitlines() == [
        "remand: examining commit 2 of 3 (10 s)",
        "remand: examining commit 3 of 3 (20 s)",
    ]
