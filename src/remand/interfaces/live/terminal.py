"""A terminal that is lent for a while: keys come one by one, signals as news, and everything is given back."""

from __future__ import annotations

import os
import select
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_NEWS = (*_ENDING, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)
_PASTES_APART, _PASTES_AS_KEYS = "\x1b[?2004h", "\x1b[?2004l"
_READ = 4096


class Signals:
    """Signals as news, each told once, while this is entered; the handlers that were there come back.

    What is ignored stays ignored. Only a process's main thread can have them.
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
        for number in _NEWS:
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
        """A file that can be read from when a signal came."""
        return self._reader

    def take(self) -> set[int]:
        """The signals that came since it was last asked."""
        with suppress(BlockingIOError):
            while os.read(self._reader, _READ):
                pass
        came, self._came = self._came, set()
        self._is_asked_to_stop |= signal.SIGTSTP in came
        return came

    def let_go(self) -> None:
        """Stops this process until it is continued, if the terminal asked for that."""
        if self._is_asked_to_stop:
            before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, before)
            self.take()
            self._is_asked_to_stop = False


def is_ending(came: set[int]) -> bool:
    """True when one of the signals asks the process to end."""
    return any(number in came for number in _ENDING)


def is_interruption(came: set[int]) -> bool:
    """True when the terminal was or is to be somebody else's for a while, and has to be taken again."""
    return signal.SIGTSTP in came or signal.SIGCONT in came


@contextmanager
def keys_one_by_one(keyboard: int, write: Callable[[str], object]) -> Iterator[None]:
    """Has keys come as they are pressed and unseen, and what is pasted told apart from them."""
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


def wait(keyboard: int, wakes: int, seconds: float) -> bytes | None:
    """What was typed within that time; empty when nothing was or a signal came, None when the terminal has gone."""
    ready, _, _ = select.select([keyboard, wakes], [], [], seconds)
    if keyboard not in ready:
        return b""
    try:
        return os.read(keyboard, _READ) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None
