"""Holds the loop of the live view on a terminal of its own: it looks when something changed, and outlives failures."""

import os
import pty
import re
import termios
from collections.abc import Callable, Iterator
from typing import TextIO

import pytest

from remand.app.board import MAX_WITH_HISTORY, Board
from remand.app.errors import EnvironmentFault
from remand.app.inbox.questions import Question
from remand.domain.instant import Instant
from remand.interfaces.cli.terminal.view import BoardSource, ExitReason, Terminal, show_view
from remand.testing.builders import NOW
from tests.unit.interfaces.cli.terminal.example_boards import a_board, a_question


class FakeBoardSource:
    """A source of boards that a test sets; whoever looks is counted."""

    name = "shop"
    why_not = ""

    def __init__(self, *questions: Question) -> None:
        self.board = a_board(questions=questions)
        self.looks: list[tuple[str, bool]] = []
        self.answers: list[tuple[str, str, str]] = []
        self.is_changed = False
        self.fault = ""

    def now(self) -> Instant:
        return NOW

    def has_changed(self) -> bool:
        return self.is_changed

    def read_board(self, focus: str, *, is_thorough: bool = False) -> Board:
        self.looks.append((focus, is_thorough))
        self.is_changed = False
        if self.fault:
            raise EnvironmentFault(self.fault)
        return self.board

    def answer(self, question: Question, option: str, guidance: str) -> str:
        self.answers.append((question.escalation_id, option, guidance))
        return f"{option} it is"


class ViewTerminal:
    """A terminal, and whoever sits at it: does one thing after the other, each time the view asks whether to stop."""

    def __init__(self, stream: TextIO, master: int) -> None:
        self.terminal = Terminal(stream.fileno(), stream, {"TERM": "xterm"})
        self.drawn = ""
        self._master = master

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def watch(self, source: BoardSource, *steps: Callable[[], object]) -> ExitReason:
        """Shows the source; each step is taken again and again until it gives something true."""
        left = list(steps)

        def stop() -> bool:
            self._read()
            while left and left[0]():
                left.pop(0)
            return not left

        ending = show_view(source, self.terminal, stop)
        self._read()
        return ending

    def has_drawn(self, text: str) -> Callable[[], bool]:
        return lambda: text in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.drawn)

    def _read(self) -> None:
        try:
            while found := os.read(self._master, 65536):
                self.drawn += found.decode(errors="replace")
        except BlockingIOError:
            pass


@pytest.fixture
def terminal() -> Iterator[ViewTerminal]:
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    with (
        os.fdopen(slave, "r+b", buffering=0) as raw,
        open(slave, "w", encoding="utf-8", closefd=False) as stream,
    ):
        before = termios.tcgetattr(raw)
        yield ViewTerminal(stream, master)
        assert termios.tcgetattr(raw) == before
    os.close(master)


def pressing(terminal: ViewTerminal, keys: str) -> Callable[[], bool]:
    return lambda: terminal.press(keys) is None


def test_the_view_ends_when_whoever_started_it_says_so(terminal: ViewTerminal) -> None:
    assert terminal.watch(FakeBoardSource(), terminal.has_drawn("no scheduler")) is ExitReason.STOPPED


def test_the_board_is_read_once_more_when_something_has_changed(terminal: ViewTerminal) -> None:
    source = FakeBoardSource()

    def change() -> bool:
        source.board = a_board(questions=(a_question(7),))
        source.is_changed = True
        return True

    terminal.watch(source, terminal.has_drawn("no scheduler"), change, terminal.has_drawn("Mend roof 7"))

    assert source.looks == [("", False), ("", False)]


def test_what_a_key_asks_for_is_carried_out_and_what_came_of_it_said(terminal: ViewTerminal) -> None:
    source = FakeBoardSource(a_question())
    terminal.watch(
        source,
        terminal.has_drawn("Mend roof 1"),
        pressing(terminal, "3"),
        terminal.has_drawn("reassign:Bob it is"),
    )

    assert source.answers == [("E-000000000001", "reassign:Bob", "")]


def test_two_quick_keys_answer_one_question_and_not_the_next(terminal: ViewTerminal) -> None:
    source = FakeBoardSource(a_question(1), a_question(2))
    real = source.answer

    def answer(question: Question, option: str, guidance: str) -> str:
        source.board = a_board(questions=(a_question(2),))
        return real(question, option, guidance)

    source.answer = answer  # type: ignore[method-assign]
    terminal.watch(
        source,
        terminal.has_drawn("Mend roof 1"),
        pressing(terminal, "11"),
        terminal.has_drawn("has just changed"),
    )

    assert source.answers == [("E-000000000001", "fix", "")]


def test_a_ledger_that_cannot_be_read_is_said_and_the_last_board_stays(terminal: ViewTerminal) -> None:
    source = FakeBoardSource(a_question())

    def fail() -> bool:
        source.fault = "The disk is full."
        source.is_changed = True
        return True

    terminal.watch(source, terminal.has_drawn("Mend roof 1"), fail, terminal.has_drawn("! The disk is full."))

    last = terminal.drawn.rpartition("\x1b[H")[2]
    assert "Mend roof 1" in last


def test_looking_again_is_thorough(terminal: ViewTerminal) -> None:
    source = FakeBoardSource()
    terminal.watch(
        source, terminal.has_drawn("no scheduler"), pressing(terminal, "r"), lambda: len(source.looks) > 1
    )

    assert source.looks[1] == ("", True)


def test_of_many_questions_the_story_of_the_one_looked_at_is_read(terminal: ViewTerminal) -> None:
    source = FakeBoardSource(*(a_question(number) for number in range(MAX_WITH_HISTORY + 1)))
    terminal.watch(
        source, terminal.has_drawn("Mend roof 0"), pressing(terminal, "j"), lambda: len(source.looks) > 1
    )

    assert source.looks[1] == ("E-000000000001", False)


def test_the_view_is_left_by_its_key(terminal: ViewTerminal) -> None:
    assert terminal.watch(FakeBoardSource(), pressing(terminal, "q"), lambda: False) is ExitReason.QUIT


def test_where_the_terminal_has_gone_the_view_ends(terminal: ViewTerminal) -> None:
    reader, writer = os.pipe()
    os.close(writer)

    ending = show_view(FakeBoardSource(), terminal.terminal._replace(keyboard=reader))
    os.close(reader)

    assert ending is ExitReason.GONE


def test_a_ledger_that_cannot_be_read_at_all_is_left_to_whoever_called(terminal: ViewTerminal) -> None:
    source = FakeBoardSource()
    source.fault = "The disk is full."

    with pytest.raises(EnvironmentFault):
        show_view(source, terminal.terminal)
