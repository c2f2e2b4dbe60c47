"""The live view's loop: reads the board when it has changed, draws it, and handles keys and signals."""

from __future__ import annotations

import os
import select
import signal
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Protocol, Self

from msgspec.structs import replace
from rich.console import Console
from rich.live import Live

from remand.app.board import MAX_WITH_HISTORY, Board, BoardAlert
from remand.app.errors import RemandError
from remand.app.inbox.questions import Question
from remand.domain.instant import Instant
from remand.interfaces.cli.terminal import state
from remand.interfaces.cli.terminal.screen import render_screen
from remand.ledger.problems import BadLine

_END_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_HANDLED_SIGNALS = (*_END_SIGNALS, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)
_PASTES_APART, _PASTES_AS_KEYS = "\x1b[?2004h", "\x1b[?2004l"
_READ = 4096


class Signals:
    """Signals as a queue, while this context is active; the previous handlers are restored afterwards.

    Ignored signals stay ignored. Only a process's main thread can use this.
    """

    def __init__(self) -> None:
        self._came: set[int] = set()
        self._before: dict[int, Any] = {}
        self._is_asked_to_stop = False

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in _HANDLED_SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._came.add(number)

    @property
    def wakes(self) -> int:
        """A file that becomes readable when a signal arrives."""
        return self._reader

    def take(self) -> set[int]:
        """The signals that arrived since the last call."""
        with suppress(BlockingIOError):
            while os.read(self._reader, _READ):
                pass
        came, self._came = self._came, set()
        self._is_asked_to_stop |= signal.SIGTSTP in came
        return came

    def suspend_if_asked(self) -> None:
        """Suspends this process until it is continued, if the terminal asked for that."""
        if self._is_asked_to_stop:
            before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, before)
            self.take()
            self._is_asked_to_stop = False


@contextmanager
def raw_keys(keyboard: int, write: Callable[[str], object]) -> Iterator[None]:
    """Delivers keys as they are pressed, without echo, and marks pasted text."""
    try:
        before = termios.tcgetattr(keyboard)
    except termios.error as error:
        raise OSError(*error.args) from None
    try:
        tty.setcbreak(keyboard, termios.TCSADRAIN)
        write(_PASTES_APART)
        yield
    finally:
        # A terminal that has gone needs nothing back.
        with suppress(OSError, ValueError):
            write(_PASTES_AS_KEYS)
        with suppress(termios.error):
            termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)


def wait_for_input(keyboard: int, wakes: int, seconds: float) -> bytes | None:
    """The input within that time; empty if there was none or a signal arrived, None if the terminal is gone."""
    ready, _, _ = select.select([keyboard, wakes], [], [], seconds)
    if keyboard not in ready:
        return b""
    try:
        return os.read(keyboard, _READ) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None


TICK_SECONDS = 0.1
ESCAPE_SECONDS = 0.05
LOOK_AGAIN_SECONDS = 5.0
"""How often the board is read at least: leases end and files arrive without notice."""
LEAST_SECONDS = 0.2
SHARE = 10
"""Reading takes at most this part of the time, however large the ledger is."""


class ExitReason(StrEnum):
    QUIT = "quit"
    STOPPED = "stopped"
    """The process that started the view asked it to stop."""
    SIGNALLED = "signalled"
    GONE = "gone"
    """The terminal is gone."""


class BoardSource(Protocol):
    """The source of the board, and the way to answer."""

    name: str
    why_not: str
    """Why nothing can be answered from here; empty when it can."""

    def now(self) -> Instant:
        """The current time."""

    def has_changed(self) -> bool:
        """True if something has changed since the last read."""

    def read_board(self, focus: str, *, is_thorough: bool = False) -> Board:
        """The current board; `thoroughly` first reads event files from outside."""

    def answer(self, question: Question, option: str, guidance: str) -> str:
        """Answers a question, and returns the outcome or the refusal as text."""


class Terminal(NamedTuple):
    keyboard: int
    """The file that keys are read from."""
    write: Any
    """The stream on which the view draws."""
    environment: Mapping[str, str]
    """The kind of terminal, and whether colours are wanted."""


def show_view(
    source: BoardSource, terminal: Terminal, stop: Callable[[], bool] = lambda: False
) -> ExitReason:
    """Shows the board until the user quits, and restores the terminal in any case.

    It must run in the main thread, and checks `stop` ten times a second.
    """
    view = _View(source, terminal)
    try:
        with Signals() as signals:
            while (ending := view.watch(signals, stop)) is None:
                signals.suspend_if_asked()
    except OSError:
        return ExitReason.GONE
    return ending


class _View:
    """A board on a screen, and the viewer's state."""

    def __init__(self, source: BoardSource, terminal: Terminal) -> None:
        self._source = source
        self._terminal = terminal
        self._console = _console(terminal)
        self._read = self._board = source.read_board("")
        self._state = state.initial_state(self._board.questions, why_not=source.why_not)
        self._looked = time.monotonic()
        self._rest = LEAST_SECONDS
        self._drawn: tuple[object, ...] = ()

    def watch(self, signals: Signals, stop: Callable[[], bool]) -> ExitReason | None:
        """Shows the board until it ends; None if the terminal has to be set up again."""
        keyboard, self._drawn = state.Keyboard(), ()
        live_display = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with raw_keys(self._terminal.keyboard, self._send), live_display as live:
            while not stop():
                self._draw(live)
                seconds = ESCAPE_SECONDS if keyboard.is_waiting else TICK_SECONDS
                typed = wait_for_input(self._terminal.keyboard, signals.wakes, seconds)
                if typed is None:
                    return ExitReason.GONE
                came = signals.take()
                if came & {*_END_SIGNALS}:
                    return ExitReason.SIGNALLED
                if self._handle_keys(keyboard.feed(typed) if typed else keyboard.rest(), live):
                    return ExitReason.QUIT
                if came & {signal.SIGTSTP, signal.SIGCONT}:
                    return None  # the terminal was or is to be somebody else's for a while
                self._refresh_if_due()
        return ExitReason.STOPPED

    def _send(self, text: str) -> None:
        self._terminal.write.write(text)
        self._terminal.write.flush()

    def _draw(self, live: Live) -> None:
        """Draws if something is new: the board, the typed text, the size, or the second that ages show."""
        now, size = self._source.now(), self._console.size
        drawn = (now[:19], self._board, self._state, size)
        if drawn != self._drawn:
            live.update(render_screen(self._board, self._state, size, now, self._source.name), refresh=True)
            self._drawn = drawn

    def _handle_keys(self, presses: Sequence[state.KeyPress], live: Live) -> bool:
        """Handles key presses; True when the viewer quits."""
        for press in presses:
            was = self._state.selected
            self._state, request = state.handle_key(
                self._state, self._board.questions, press, time.monotonic()
            )
            if self._state.selected != was and len(self._board.questions) > MAX_WITH_HISTORY:
                self._read_board()
            if request is not None and request.kind == "quit":
                return True
            if request is not None:
                self._handle_request(request, live)
        return False

    def _handle_request(self, request: state.ViewRequest, live: Live) -> None:
        if request.question is not None:
            self._state = replace(self._state, message="Asking …")
            self._draw(live)
            message = self._source.answer(request.question, request.option, request.guidance)
            self._state = replace(self._state, message=message)
        self._read_board(is_thorough=request.kind == "refresh")

    def _refresh_if_due(self) -> None:
        """Reads again if something has changed, or after a while."""
        passed = time.monotonic() - self._looked
        if passed >= LOOK_AGAIN_SECONDS:
            self._read_board(is_thorough=True)
        elif passed >= self._rest and self._source.has_changed():
            self._read_board()

    def _read_board(self, *, is_thorough: bool = False) -> None:
        """Reads the board. If that fails, the last one stays, with the error above it."""
        begun_at = time.monotonic()
        before = self._board
        try:
            self._read = self._board = self._source.read_board(self._state.selected, is_thorough=is_thorough)
        except (RemandError, BadLine, OSError) as error:
            fault = BoardAlert(kind="system", text=str(error))
            self._board = replace(self._read, troubles=(fault, *self._read.troubles))
        self._looked = time.monotonic()
        self._rest = max(LEAST_SECONDS, SHARE * (self._looked - begun_at))
        self._state = state.update_questions(
            self._state, before.questions, self._board.questions, self._looked
        )


class _Console(Console):
    """A console that leaves a closed pipe to the caller."""

    def on_broken_pipe(self) -> None:
        """Raises, instead of leaving the program."""
        raise BrokenPipeError


def _console(terminal: Terminal) -> Console:
    """A console as wide as its terminal, whatever width it was given before."""
    fixed = ("COLUMNS", "LINES")
    return _Console(
        file=terminal.write,
        force_terminal=True,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={name: value for name, value in terminal.environment.items() if name not in fixed},
    )
