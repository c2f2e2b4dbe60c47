"""High-water marks: how far each session was seen, kept outside the repository to show a rollback."""

from __future__ import annotations

import os
from pathlib import Path

_SEQ_WIDTH, _TIP_WIDTH = 20, 32


class FileMarks:
    """One small file per ledger. The ledger's own session is its first line, written in place."""

    def __init__(self, folder: Path, ledger_id: str, root: str) -> None:
        self._path = folder / f"{ledger_id}.mark"
        self._own = ledger_id
        self._root = root
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._path.exists():
            self._write(_inherited(folder, root))
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def raise_to(self, session: str, seq: int, tip: str) -> None:
        """Remembers that a session was seen that far; never takes a mark back."""
        if session == self._own:
            known = os.pread(self._file, _SEQ_WIDTH, len(session) + 1)
            if not known.isdigit() or int(known) < seq:
                os.pwrite(self._file, _line(session, seq, tip).encode(), 0)
            return
        marks = self.all()
        if marks.get(session, (0, ""))[0] < seq:
            self._write(marks | {session: (seq, tip)})
            os.close(self._file)
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def all(self) -> dict[str, tuple[int, str]]:
        """Every session's number and tip as last seen."""
        return _read(self._path)

    def _write(self, marks: dict[str, tuple[int, str]]) -> None:
        own = marks.pop(self._own, (0, ""))
        rows = [_line(self._own, *own), f"root {self._root}\n"]
        rows += [_line(session, seq, tip) for session, (seq, tip) in sorted(marks.items())]
        draft = self._path.with_suffix(f".{os.getpid()}")
        draft.write_text("".join(rows), encoding="utf-8", errors="surrogateescape")
        draft.replace(self._path)


def _line(session: str, seq: int, tip: str) -> str:
    return f"{session} {seq:0{_SEQ_WIDTH}d} {tip:-<{_TIP_WIDTH}}\n"


def _read(path: Path) -> dict[str, tuple[int, str]]:
    marks: dict[str, tuple[int, str]] = {}
    for row in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        session, _, rest = row.partition(" ")
        seq, _, tip = rest.partition(" ")
        if session != "root" and seq.isdecimal() and int(seq):
            marks[session] = (int(seq), tip.strip("-"))
    return marks


def _inherited(folder: Path, root: str) -> dict[str, tuple[int, str]]:
    """The marks of ledgers that were here before: a deleted ledger must not make its events forgotten."""
    marks: dict[str, tuple[int, str]] = {}
    for path in folder.glob("*.mark"):
        rows = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        if f"root {root}" in rows:
            for session, mark in _read(path).items():
                marks[session] = max(mark, marks.get(session, (0, "")))
    return marks
