"""The live view's loop: looks when something has changed, draws, and carries out what keys ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace
from rich.console import Console
from rich.live import Live

from remand.app.board import WITH_STORY, Board
from remand.app.errors import RemandError
from remand.app.escalations import Question
from remand.app.troubles import Trouble
from remand.domain.instant import Instant
from remand.interfaces.live.keys import Keyboard, Pressed
from remand.interfaces.live.screen import screen
from remand.interfaces.live.state import Wish, begun, followed, pressed
from remand.interfaces.live.terminal import Signals, is_ending, is_interruption, keys_one_by_one, wait
from remand.ledger.problems import BadLine

TICK_SECONDS = 0.1
ESCAPE_SECONDS = 0.05
LOOK_AGAIN_SECONDS = 5.0
"""The board is read at least so often: leases end and files come without anybody's word."""
LEAST_SECONDS = 0.2
SHARE = 10
"""Reading takes no more than one part in so many of the time, however large the ledger is."""


class Ending(StrEnum):
    """Why the view has ended."""

    QUIT = "quit"
    STOPPED = "stopped"
    """Whoever started it asked."""
    SIGNALLED = "signalled"
    GONE = "gone"
    """The terminal is not there any more."""


class Desk(Protocol):
    """What the view looks at, and how it answers."""

    name: str
    why_not: str
    """Why nothing can be answered from here; empty when it can."""

    def now(self) -> Instant:
        """What time it is."""

    def has_changed(self) -> bool:
        """True when something has changed since it was last looked at."""

    def look(self, focus: str, *, is_thorough: bool = False) -> Board:
        """The board as it is; thoroughly, files that came from outside are read in first."""

    def answer(self, question: Question, option: str, guidance: str) -> str:
        """Answers a question, and says what came of it, or why it was refused."""


class Terminal(NamedTuple):
    """Where the view is shown."""

    keyboard: int
    """The file that keys are read from."""
    write: Any
    """The stream that is drawn on."""
    environment: Mapping[str, str]
    """What kind of terminal it is, and whether colours are wanted."""


def show(desk: Desk, terminal: Terminal, stop: Callable[[], bool] = lambda: False) -> Ending:
    """Shows the board until somebody leaves it, and gives the terminal back as it was, whatever happens.

    It belongs into the main thread, and looks at `stop` ten times a second.
    """
    view = _View(desk, terminal)
    try:
        with Signals() as signals:
            while (ending := view.watch(signals, stop)) is None:
                signals.let_go()
    except OSError:
        return Ending.GONE
    return ending


class _View:
    """A board on a screen, with whoever looks at it."""

    def __init__(self, desk: Desk, terminal: Terminal) -> None:
        self._desk = desk
        self._terminal = terminal
        self._console = _console(terminal)
        self._read = self._board = desk.look("")
        self._state = begun(self._board.questions, why_not=desk.why_not)
        self._looked = time.monotonic()
        self._rest = LEAST_SECONDS
        self._drawn: tuple[object, ...] = ()

    def watch(self, signals: Signals, stop: Callable[[], bool]) -> Ending | None:
        """Shows the board until it ends; None when the terminal has to be taken again."""
        keyboard, self._drawn = Keyboard(), ()
        with keys_one_by_one(self._terminal.keyboard, self._send), self._live() as live:
            while not stop():
                self._draw(live)
                seconds = ESCAPE_SECONDS if keyboard.is_waiting else TICK_SECONDS
                typed = wait(self._terminal.keyboard, signals.wakes, seconds)
                if typed is None:
                    return Ending.GONE
                came = signals.take()
                if is_ending(came):
                    return Ending.SIGNALLED
                if self._is_left(keyboard.feed(typed) if typed else keyboard.rest(), live):
                    return Ending.QUIT
                if is_interruption(came):
                    return None
                self._follow()
        return Ending.STOPPED

    def _live(self) -> Live:
        return Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _send(self, text: str) -> None:
        self._terminal.write.write(text)
        self._terminal.write.flush()

    def _draw(self, live: Live) -> None:
        """Draws what is new: the board, what was typed, the size, or the second that ages are told by."""
        now, size = self._desk.now(), self._console.size
        drawn = (now[:19], self._board, self._state, size)
        if drawn != self._drawn:
            live.update(screen(self._board, self._state, size, now, self._desk.name), refresh=True)
            self._drawn = drawn

    def _is_left(self, presses: Sequence[Pressed], live: Live) -> bool:
        """Carries out what was pressed; True when whoever looks wants to leave."""
        for press in presses:
            was = self._state.selected
            self._state, wish = pressed(self._state, self._board.questions, press, time.monotonic())
            if self._state.selected != was and len(self._board.questions) > WITH_STORY:
                self._look()
            if wish is not None and wish.kind == "quit":
                return True
            if wish is not None:
                self._carry_out(wish, live)
        return False

    def _carry_out(self, wish: Wish, live: Live) -> None:
        if wish.question is not None:
            self._state = replace(self._state, message="Asking …")
            self._draw(live)
            said = self._desk.answer(wish.question, wish.option, wish.guidance)
            self._state = replace(self._state, message=said)
        self._look(is_thorough=wish.kind == "refresh")

    def _follow(self) -> None:
        """Looks again when something has changed, or nothing was heard for a while."""
        passed = time.monotonic() - self._looked
        if passed >= LOOK_AGAIN_SECONDS:
            self._look(is_thorough=True)
        elif passed >= self._rest and self._desk.has_changed():
            self._look()

    def _look(self, *, is_thorough: bool = False) -> None:
        """Reads the board. Should that fail, the last one stays, with what is wrong on top of it."""
        begun_at = time.monotonic()
        before = self._board
        try:
            self._read = self._board = self._desk.look(self._state.selected, is_thorough=is_thorough)
        except (RemandError, BadLine, OSError) as error:
            fault = Trouble(kind="system", text=str(error))
            self._board = replace(self._read, troubles=(fault, *self._read.troubles))
        self._looked = time.monotonic()
        self._rest = max(LEAST_SECONDS, SHARE * (self._looked - begun_at))
        self._state = followed(self._state, before.questions, self._board.questions, self._looked)


class _Console(Console):
    """A console that leaves a reader that has gone to whoever called."""

    def on_broken_pipe(self) -> None:
        """Raises, instead of leaving the program."""
        raise BrokenPipeError


def _console(terminal: Terminal) -> Console:
    """A console as wide as its terminal, whatever it was once said to be."""
    fixed = ("COLUMNS", "LINES")
    return _Console(
        file=terminal.write,
        force_terminal=True,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={name: value for name, value in terminal.environment.items() if name not in fixed},
    )
