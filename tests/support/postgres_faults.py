"""What befalls a PostgreSQL server: it is killed and started again, and its connections are cut by a proxy."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from remand.testing import postgres

_PATIENCE = 600.0


class CrashableServer:
    """A private server that is killed and comes back."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.folder = dict(part.split("=", 1) for part in address.split())["host"]
        self.socket = os.path.join(self.folder, ".s.PGSQL.5432")
        self._data = os.path.join(self.folder, "data")
        self.crashes = 0

    def crash(self, *, is_kill: bool) -> None:
        """Kills the server, or has it end at once without writing anything down, and starts it again."""
        with open(os.path.join(self._data, "postmaster.pid"), encoding="ascii") as file:
            pid = int(file.readline())
        os.kill(pid, signal.SIGKILL if is_kill else signal.SIGQUIT)
        self.crashes += 1
        self._start()

    def _start(self) -> None:
        """Starts it, as soon as what is left of the old one is gone."""
        programs = postgres.find_programs()
        user = postgres.server_user() or None
        log = os.path.join(self.folder, "log")
        command = [
            os.path.join(programs, "pg_ctl"),
            "-D",
            self._data,
            "-w",
            "-s",
            "-t",
            "300",
            "-l",
            log,
            "start",
        ]
        deadline = time.monotonic() + _PATIENCE
        while subprocess.run(
            command, user=user, cwd="/", capture_output=True, timeout=_PATIENCE, check=False
        ).returncode:
            if time.monotonic() > deadline:
                raise AssertionError("PostgreSQL did not come back")
            time.sleep(0.1)


@contextmanager
def crashable_server() -> Iterator[CrashableServer | None]:
    """Runs a server of its own; None where no PostgreSQL is installed."""
    with postgres.server() as address:
        yield CrashableServer(address) if address else None


class CuttingProxy:
    """Passes connections of a loopback port on to a server's socket, and cuts some of them when told."""

    def __init__(self, target: str, seed: int) -> None:
        self._target = target
        self._chance = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._target)
            except OSError:
                client.close()
                server.close()
                continue
            with self._lock:
                self._open |= {client, server}
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        self._end(source, target)

    def _end(self, *ends: socket.socket) -> None:
        for one in ends:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            with self._lock:
                self._open.discard(one)
            one.close()

    def cut(self, part: float) -> None:
        """Cuts a part of the ends that are open, whatever is on its way."""
        with self._lock:
            found = [one for one in self._open if self._chance.random() < part]
        for one in found:
            self.cuts += 1
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends everything."""
        self._listener.close()
        self.cut(1.0)
