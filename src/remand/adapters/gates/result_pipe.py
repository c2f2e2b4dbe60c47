"""The pipe through which test runners tell results as they happen; Remand reads and numbers what arrives."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from secrets import token_hex

import msgspec

from remand.app.gates.ports import MIB, ResultWatch
from remand.integrity.result_records import ResultRecord

PLUGIN = os.path.join(os.path.dirname(__file__), "pytest_results.py")
_LOADED = """with open(__file__ + ".txt", encoding="utf-8") as _file:
    exec(compile(_file.read(), "<results>", "exec"))
"""
"""Code of no file is measured by no coverage tool."""
VARIABLE, FILES_VARIABLE = "REMAND_RESULTS", "REMAND_TEST_FILES"
MAX_RECORDS, MAX_LINE = 64 * MIB, MIB
_ISOLATED = ("-I", "-E")
_decode = msgspec.json.Decoder(ResultRecord).decode


@contextmanager
def watch_results(
    command: Sequence[str], folder: str, files: Sequence[str] = ()
) -> Iterator[ResultWatch | None]:
    """What a command is to be given so that its results are told; None for one that cannot tell them."""
    if not is_watchable(command):
        yield None
        return
    place = os.path.join(folder, "results")
    os.mkdir(place, 0o700)
    pipe = os.path.join(place, "pipe")
    os.mkfifo(pipe, 0o600)
    # A name that no file of the project can take: its own folder comes before ours.
    name = f"remand_results_{token_hex(8)}"
    plugin = os.path.join(place, f"{name}.py")
    for path, text in ((plugin, _LOADED), (f"{plugin}.txt", _plugin_text())):
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    reader = _PipeReader(pipe)
    environment = {VARIABLE: pipe, "PYTEST_PLUGINS": name, "PYTHONPATH": place}
    if files:
        environment[FILES_VARIABLE] = "\n".join(files)
    try:
        yield ResultWatch(environment, reader.records)
    finally:
        reader.records()


@cache
def _plugin_text() -> str:
    with open(PLUGIN, encoding="utf-8") as file:
        return file.read()


def is_watchable(command: Sequence[str]) -> bool:
    """True for pytest, called by name or as a module of a Python that takes our plugin."""
    for place, word in enumerate(command):
        name = os.path.basename(word)
        if name in ("pytest", "py.test"):
            return place == 0 or command[place - 1] == "-m" or command[place - 1] in ("run", "--")
        if name in _ISOLATED or name in ("sh", "bash", "make", "tox", "nox", "unittest"):
            return False
    return False


class _PipeReader:
    """Reads a pipe in a thread of its own until it is told that nobody writes any more."""

    def __init__(self, path: str) -> None:
        # With an end to write of our own there is no end of file, however often others open and close it.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._lines: list[bytes] = []
        self._size = 0
        self._is_open = True
        self._thread = threading.Thread(target=self._read, name="remand-results", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        rest = b""
        while not (rest.endswith(_LAST) and not self._is_open):
            # A line without an end is no record of ours, and is not gathered for ever.
            rest = self._keep(rest[-MAX_LINE:] + os.read(self._descriptor, 1 << 16))

    def _keep(self, content: bytes) -> bytes:
        *lines, rest = content.split(b"\n")
        self._size += sum(map(len, lines))
        if self._size <= MAX_RECORDS:
            self._lines += lines
        return rest

    def records(self) -> tuple[ResultRecord, ...]:
        """Everything that arrived, in its order; closes the pipe."""
        if self._is_open:
            self._is_open = False
            os.write(self._descriptor, _LAST)
            self._thread.join()
            os.close(self._descriptor)
        found: list[ResultRecord] = []
        for line in self._lines:
            with suppress(msgspec.DecodeError, ValueError):
                found.append(_decode(line))
        return tuple(found)


_LAST = b"\0end\0"
"""What we write ourselves when the command has ended, so that the reader does."""
