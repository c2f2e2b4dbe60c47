"""High-water marks: how far each session was read, kept outside the repository to detect a rollback."""

from __future__ import annotations

import json
import os
import threading

from remand.adapters.system.files import atomic_write, lock_handle, read_start, unlock_handle

_SEQ_WIDTH, _TIP_WIDTH = 20, 32


class NoMarks:
    """For a ledger in a database: all machines share one state, so none compares it with its own memory."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def raise_to(self, session: str, seq: int, tip: str) -> None:
        """Does nothing."""

    def all(self) -> dict[str, tuple[int, str]]:
        return {}

    def close(self) -> None:
        """Does nothing."""


class FileMarks:
    """Two small files per ledger: its own session's mark, written in place, and those of other sessions.

    Both also name the ledger's root, so that a ledger recreated at the same place still has the old marks.
    """

    def __init__(self, folder: str, ledger_id: str, root: str) -> None:
        os.makedirs(folder, exist_ok=True, mode=0o700)
        self.folder = folder
        self._own = ledger_id
        self._root = root
        self._mark = os.path.join(folder, f"{ledger_id}.mark")
        self._others = os.path.join(folder, f"{ledger_id}.seen")
        if not os.path.exists(self._mark):
            inherited = _inherited_marks(folder, root)
            self._write(self._mark, {ledger_id: (0, "")})
            self._write(self._others, inherited)
        self._thread_lock = threading.Lock()
        """The file's own lock keeps other processes away, but no other thread that uses the same handle."""
        self._file = os.open(self._mark, os.O_RDWR | os.O_CLOEXEC)

    def raise_to(self, session: str, seq: int, tip: str) -> None:
        """Records that a session was read that far; never lowers a mark."""
        with self._thread_lock:
            lock_handle(self._file)
            try:
                if session == self._own:
                    self._raise_own(seq, tip)
                else:
                    self._raise_other(session, seq, tip)
            finally:
                unlock_handle(self._file)

    def _raise_own(self, seq: int, tip: str) -> None:
        known = os.pread(self._file, _SEQ_WIDTH, len(self._own) + 1)
        if not known.isdigit() or int(known) < seq:
            os.pwrite(self._file, _line(self._own, seq, tip).encode(), 0)

    def _raise_other(self, session: str, seq: int, tip: str) -> None:
        marks = _read(self._others)
        if marks.get(session, (0, ""))[0] < seq:
            self._write(self._others, marks | {session: (seq, tip)})

    def all(self) -> dict[str, tuple[int, str]]:
        return _read(self._others) | _read(self._mark)

    def close(self) -> None:
        os.close(self._file)

    def _write(self, path: str, marks: dict[str, tuple[int, str]]) -> None:
        rows = [_line(session, *mark) for session, mark in sorted(marks.items())]
        atomic_write(path, "".join([*rows, f"root {json.dumps(self._root)}\n"]).encode("ascii"))


def _line(session: str, seq: int, tip: str) -> str:
    return f"{session} {seq:0{_SEQ_WIDTH}d} {tip:-<{_TIP_WIDTH}}\n"


def _rows(path: str) -> list[str]:
    return read_start(path).decode("ascii", "replace").split("\n")


def _read(path: str) -> dict[str, tuple[int, str]]:
    marks: dict[str, tuple[int, str]] = {}
    for row in _rows(path):
        session, _, rest = row.partition(" ")
        seq, _, tip = rest.partition(" ")
        if session != "root" and seq.isdecimal() and int(seq):
            marks[session] = (int(seq), tip.strip("-"))
    return marks


def _inherited_marks(folder: str, root: str) -> dict[str, tuple[int, str]]:
    """The marks of earlier ledgers at this place: deleting a ledger must not erase the memory of its events."""
    marks: dict[str, tuple[int, str]] = {}
    names = [name for name in os.listdir(folder) if name.endswith((".mark", ".seen"))]
    for path in (os.path.join(folder, name) for name in names):
        if f"root {json.dumps(root)}" in _rows(path):
            for session, mark in _read(path).items():
                marks[session] = max(mark, marks.get(session, (0, "")))
    return marks
