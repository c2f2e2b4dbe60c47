"""A terminal of its own for a program: a real pseudo-terminal, what is drawn on it, and keys pressed at it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.integration.machine import PATIENCE, Machine, end

_CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_HOME = "\x1b[H"


class Terminal:
    """A terminal at which one program runs, as the leader of its own session."""

    def __init__(
        self,
        machine: Machine,
        folder: Path,
        command: Sequence[str],
        *,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._master, self._slave = pty.openpty()
        self.resize(*size)
        self.before = self.modes()
        self.sent = ""
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            cwd=folder,
            env=machine.environment | {"TERM": "xterm-256color"} | dict(env or {}),
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no other thread runs
        )

    def modes(self) -> list[Any]:
        """How the terminal is set."""
        return termios.tcgetattr(self._slave)

    def resize(self, columns: int, rows: int) -> None:
        """Makes the terminal another size."""
        self._height = rows
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Types something."""
        os.write(self._master, keys.encode())

    def rows(self) -> list[str]:
        """What is on the screen: the last thing that was drawn on it whole."""
        self._read()
        frames = self.sent.split(_HOME)
        drawn = (_CODES.sub("", frame).replace("\r", "").split("\n") for frame in reversed(frames[1:]))
        whole = next((rows for rows in drawn if len(rows) == self._height), [])
        return [row.rstrip() for row in whole]

    def wait_for(self, what: str) -> list[str]:
        """Waits until something is on the screen."""
        found = self._wait(lambda: self.rows() if any(what in row for row in self.rows()) else None)
        assert found, f"{what!r} is not on the screen:\n" + "\n".join(self.rows()) + self.sent[-2000:]
        rows: list[str] = found
        return rows

    def wait_for_text(self, what: str) -> None:
        """Waits until something was sent to the terminal, drawn or not."""
        assert self._wait(lambda: self._read() or what in self.sent), f"no {what!r} in {self.sent[-2000:]!r}"

    def code(self) -> int:
        """Waits for the program to end; its exit status."""
        assert self._wait(lambda: self._read() or self.process.poll() is not None), "it goes on"
        self._read()
        assert self.process.returncode is not None
        return self.process.returncode

    def hang_up(self) -> None:
        """Closes the terminal under the program."""
        os.close(self._slave)
        os.close(self._master)
        self._master = self._slave = -1

    def close(self) -> None:
        """Ends the program and takes the terminal away."""
        end(self.process)  # type: ignore[arg-type]
        for handle in (self._master, self._slave):
            with suppress(OSError):
                os.close(handle)

    def _read(self) -> None:
        waiting = select.poll()
        if self._master >= 0:
            waiting.register(self._master, select.POLLIN)
        while waiting.poll(0):
            self.sent += os.read(self._master, 65536).decode(errors="replace")

    def _wait(self, condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if found := condition():
                return found
            time.sleep(0.02)
        return None
