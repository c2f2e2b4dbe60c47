"""What a launcher says about its job, a line of JSON each."""

from __future__ import annotations

import time
from io import FileIO

import msgspec

from remand.adapters.sandbox.polling import is_ready
from remand.domain.record import Record

_MAX = 1 << 16


class Said(Record, kw_only=True, rename="kebab"):
    """One line; bubblewrap says the first, our own launcher any."""

    child_pid: int = 0
    exit_code: int | None = None
    signal: int | None = None
    fault: str = ""


class Status:
    """What is known of a job by what has been said."""

    def __init__(self) -> None:
        self.is_closed = False
        """True once nobody is left to say anything."""
        self.child = 0
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.fault = ""

    @property
    def has_ended(self) -> bool:
        """True when nothing more is to come that matters."""
        return self.is_closed or self.exit_code is not None or self.signal is not None or bool(self.fault)


class StatusPipe(Status):
    """Reads what is said, and keeps what has been."""

    def __init__(self, pipe: FileIO) -> None:
        super().__init__()
        self.pipe = pipe
        self._unread = b""

    def read(self) -> None:
        """Takes in what is there; to be called when something is."""
        part = self.pipe.read(_MAX) or b""
        self.is_closed = not part
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            said = msgspec.json.decode(line, type=Said)
        except msgspec.MsgspecError:
            return
        self.child = said.child_pid or self.child
        self.exit_code = said.exit_code if said.exit_code is not None else self.exit_code
        self.signal = said.signal if said.signal is not None else self.signal
        self.fault = said.fault or self.fault

    def await_child(self, seconds: float) -> bool:
        """True when the job's first process is there within so many seconds."""
        deadline = time.monotonic() + seconds
        while not self.child and not self.has_ended:
            left = deadline - time.monotonic()
            if left <= 0 or not is_ready(self.pipe.fileno(), left):
                return False
            self.read()
        return bool(self.child) and not self.has_ended
