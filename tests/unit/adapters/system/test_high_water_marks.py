"""Holds that no mark is lost when threads raise the marks of other sessions at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from remand.adapters.system import high_water_marks
from remand.adapters.system.high_water_marks import FileMarks

PATIENCE = 120.0


def test_threads_that_raise_marks_at_once_lose_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = FileMarks(str(tmp_path), "own", "/root")
    has_read, may_write = threading.Event(), threading.Event()
    read = high_water_marks._read

    def read_slowly(path: str) -> dict[str, tuple[int, str]]:
        found = read(path)
        if threading.current_thread() is slow:
            has_read.set()
            may_write.wait(0.3)
        return found

    slow = threading.Thread(target=marks.raise_to, args=("one", 1, "a"))
    monkeypatch.setattr(high_water_marks, "_read", read_slowly)
    slow.start()
    assert has_read.wait(PATIENCE)
    marks.raise_to("two", 2, "b")
    may_write.set()
    slow.join(PATIENCE)

    assert marks.all() == {"one": (1, "a"), "two": (2, "b")}
    marks.close()
