"""Runs calls of the command line in processes of their own that start with everything loaded.

`CallServer` starts this file as a program. It loads the package once, and then makes a process by `fork` for each call:
with the folder, the environment and the streams that the call is given, and with a quarter of the CPU time of a new
interpreter. Tests about the start of a process start one themselves.
"""

from __future__ import annotations

import array
import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

PIPE_BYTES = 60_000
"""A pipe holds so much that nobody reads yet."""
STREAMS = 3
AT_START = ("LANG", "LC_", "LD_", "MALLOC_", "PYTHON")
"""How variables begin that an interpreter reads when it starts."""
NUMBER_BYTES = 4


class CallServer:
    """Starts the server, and has it run calls. Threads may use it side by side."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._environment = os.environ | {"LC_ALL": "C.UTF-8"}
        self._address = f"\0remand-calls-{os.getpid()}-{os.urandom(6).hex()}"
        own, theirs = socket.socketpair()
        self._life = own  # the server ends when this is closed, as it is when this process ends
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, self._address[1:], str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=self._environment,
                pass_fds=[theirs.fileno()],
            )
        assert self._life.recv(1) == b"+", "the server of calls did not start"
        atexit.register(self._close)

    def _close(self) -> None:
        self._life.close()
        self._process.wait()

    def may_run(self, folder: str, environment: Mapping[str, str]) -> bool:
        """True when nothing in an environment makes an interpreter start in another way than the server did."""
        ours, theirs = (
            {name: value for name, value in one.items() if name.startswith(AT_START)}
            for one in (self._environment, environment)
        )
        return ours == theirs and os.access(folder, os.X_OK)

    def run(
        self,
        arguments: tuple[str, ...],
        folder: str,
        environment: Mapping[str, str],
        text: bytes,
        timeout: float,
    ) -> tuple[int, bytes, bytes]:
        """Exit code, output and errors. Raises subprocess.TimeoutExpired and kills the process after `timeout` seconds."""
        request = {
            "arguments": [self._program, *arguments],
            "folder": folder,
            "environment": dict(environment),
        }
        with (
            socket.socket(socket.AF_UNIX) as connection,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            _input(text) as given,
        ):
            connection.connect(self._address)
            files = array.array("i", [given.fileno(), output.fileno(), errors.fileno()])
            body = json.dumps(request).encode("utf-8", "surrogatepass")
            head = len(body).to_bytes(NUMBER_BYTES, "big")
            connection.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            connection.sendall(body)
            given.close()
            number = int.from_bytes(_receive(connection, NUMBER_BYTES), "big")
            connection.settimeout(timeout)
            try:
                code = int.from_bytes(_receive(connection, NUMBER_BYTES), "big", signed=True)
            except TimeoutError:
                os.kill(number, signal.SIGKILL)
                raise subprocess.TimeoutExpired([self._program, *arguments], timeout) from None
            return code, _content(output), _content(errors)


def _input(text: bytes) -> Any:
    """A file that gives a text to who reads it: a pipe, as a shell's, for all but a long one."""
    if len(text) > PIPE_BYTES:
        held = tempfile.TemporaryFile()  # noqa: SIM115 - its caller closes it
        held.write(text)
        held.seek(0)
        return held
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    return os.fdopen(reading, "rb")


def _content(file: Any) -> bytes:
    file.seek(0)
    return bytes(file.read())


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError("the server of calls has gone")
        received += part
    return received


# ------------------------------------------------------------------------------------------------- the server


def serve(name: str, life: int) -> None:
    """Runs calls until whoever started this has gone."""
    _load_package()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen(64)
    os.write(life, b"+")
    running: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(life, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == life:
                    return
                if key.fd == listener.fileno():
                    ended, number, connection = _start_call(listener, [life, *running])
                    running[ended] = (number, connection)
                    selector.register(ended, selectors.EVENT_READ)
                else:
                    selector.unregister(key.fd)
                    _end_call(key.fd, *running.pop(key.fd))


def _load_package() -> None:
    from remand import startup
    from remand.interfaces.cli import entry

    entry.load_command_line()
    for name in startup.LAZY_MODULES:
        if not name.startswith(RARE):
            getattr(import_module(name), "loaded", None)  # any name loads it
    gc.freeze()


RARE = (
    "remand.adapters.gates.procrastinate_jobs",
    "remand.adapters.stores.postgres",
    "remand.interfaces.http",
)
"""What few calls need, and takes long to load."""


def _start_call(listener: socket.socket, others: list[int]) -> tuple[int, int, socket.socket]:
    """Starts the process of one call: a descriptor that can be read when it has ended, its number, and who waits for it."""
    connection, _ = listener.accept()
    size = array.array("i")
    head, extra, _, _ = connection.recvmsg(NUMBER_BYTES, socket.CMSG_SPACE(STREAMS * size.itemsize))
    for _, _, data in extra:
        size.frombytes(data)
    request = json.loads(_receive(connection, int.from_bytes(head, "big")).decode("utf-8", "surrogatepass"))
    number = os.fork()
    if not number:
        for one in (connection, listener):
            one.close()
        for other in others:
            os.close(other)
        _run_call(request, list(size))
    for stream in size:
        os.close(stream)
    connection.sendall(number.to_bytes(NUMBER_BYTES, "big"))
    return os.pidfd_open(number), number, connection


def _run_call(request: dict[str, Any], streams: list[int]) -> NoReturn:
    from remand.interfaces.cli import entry

    for wanted, stream in enumerate(streams):
        os.dup2(stream, wanted)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    sys.argv = request["arguments"]
    try:
        entry.main()
    except SystemExit as error:
        os._exit(error.code if isinstance(error.code, int) else 1)
    except BaseException:  # noqa: BLE001 - as an interpreter does with what nobody has caught
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    os._exit(1)


def _end_call(ended: int, number: int, connection: socket.socket) -> None:
    os.close(ended)
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    with connection, suppress(OSError):  # whoever gave up waiting is gone
        connection.sendall(code.to_bytes(NUMBER_BYTES, "big", signed=True))


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
