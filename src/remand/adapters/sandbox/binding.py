"""Bubblewrap, bound to this process: whenever that ends, nothing of the sandbox goes on.

Bubblewrap's parts die with one another only once each has asked the kernel for it. One that has not yet goes on when the
other is gone, or waits for it for ever. So while a sandbox is made nobody is ended: bubblewrap is started by a shell that
outlives us, and its first process inside asks us for leave. By then all are bound to one another. Is nobody there to ask,
it ends by itself. Else the kernel is told to kill that shell as soon as we are gone; only then leave is given.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec

from remand.adapters.sandbox.ending import Handle
from remand.adapters.sandbox.pipes import file_of
from remand.adapters.sandbox.polling import is_ready
from remand.adapters.sandbox.setting import encoded
from remand.adapters.sandbox.status import Said, Status

HOLDER = '"$@"; exit $?'
"""What starts bubblewrap, and ends as it does."""

# The first process inside. It reads its leave, then starts the program and fetches orphans; it takes everything inside
# with it when the program ends.
FIRST = (
    "echo >&0 && read -r leave || exit 125;"
    ' exec 3>&2 2>/dev/null <"$1"; shift; (exec "$@" 2>&3 3>&-); exit $?'
)
NAME = "remand-sandbox"
"""How the first process calls itself when it has to say that a program cannot be run."""
CANNOT_RUN = (126, 127)
MAX_TOLD = 4096


class Binding(Status):
    """The ties to one bubblewrap: what its first process asks, and what ends it with us."""

    def __init__(self, stack: ExitStack, path: str, plan: bytes, entry: str, program: Sequence[str]) -> None:
        """`plan` are bubblewrap's arguments, `entry` is the file inside that the program reads as its input."""
        super().__init__()
        first = encoded(["/bin/sh", "-c", FIRST, NAME, entry, *program])
        self.pipe, self._theirs = (stack.enter_context(end) for end in socket.socketpair())
        # A file, not a pipe: should nobody be left to hear it, bubblewrap would end before what it has begun.
        self._told, asked = (stack.enter_context(file_of(content)) for content in (b"", plan))
        self._tether, self._held = socket.socketpair()
        stack.enter_context(self._held)
        # Nothing is ever said on it: bubblewrap takes it for a list of no arguments, and lets go of it.
        self._tether.shutdown(socket.SHUT_WR)
        self.stdin = self._theirs.fileno()
        self.given = (self._told, self._held.fileno(), asked)
        """The descriptors to be inherited."""
        told, *lists = map(str, self.given)
        options = ("--info-fd", told, *(word for each in lists for word in ("--args", each)), "--")
        self.command = [*encoded(["/bin/sh", "-c", HOLDER, "sh", path, *options]), *first]

    def hand_over(self) -> None:
        """Leaves their end of what is said to them alone."""
        self._theirs.close()

    def await_child(self, seconds: float) -> bool:
        """True when the first process asks for leave within so many seconds."""
        if not self.child and is_ready(self.pipe.fileno(), seconds):
            self.read()
            self.child = 0 if self.is_closed else self._first()
        return bool(self.child)

    def read(self) -> None:
        """Takes in what is said; to be called when something is. When all have ended, nobody is left to say anything."""
        try:
            self.is_closed = not self.pipe.recv(1)
        except ConnectionError:
            self.is_closed = True

    def give_leave(self, holder: subprocess.Popen[bytes]) -> None:
        """Binds the holder to this process, and lets the program begin."""
        fcntl.fcntl(self._held, fcntl.F_SETOWN, holder.pid)
        fcntl.fcntl(self._held, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(self._held, fcntl.F_SETFL, fcntl.fcntl(self._held, fcntl.F_GETFL) | os.O_ASYNC)
        self._held.close()
        if holder.poll() is not None:
            raise ChildProcessError("what holds the sandbox was ended")
        self.pipe.sendall(b"leave\n")

    def give_up(self) -> None:
        """Ends what has yet to be given leave, should it take too long to end by itself."""
        self.pipe.close()
        if not self.is_closed and (first := self._first()):
            handle = Handle(first)
            handle.kill()
            handle.close()

    def let_go(self) -> None:
        """Ends whatever is still bound."""
        self._tether.close()

    def _first(self) -> int:
        """The first process inside, as seen from here; 0 while there is none."""
        try:
            return msgspec.json.decode(os.pread(self._told, MAX_TOLD, 0), type=Said).child_pid
        except msgspec.MsgspecError:
            return 0
