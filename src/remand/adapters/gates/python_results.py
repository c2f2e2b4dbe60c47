"""What the plugins for pytest and unittest have in common: they report results and assertions through a pipe.

It is placed next to the pipe and loaded by whatever Python the project has, so it imports nothing else of Remand.
Nothing that a test does to its process may make it fail: it stores the functions it calls before the first test runs.
"""

from __future__ import annotations

import json
import os
import sys
from functools import wraps
from typing import Any

PROCESS = os.getpid()
ASSERTIONS = [
    "assertEqual",
    "assertNotEqual",
    "assertTrue",
    "assertFalse",
    "assertIs",
    "assertIsNot",
    "assertIsNone",
    "assertIsNotNone",
    "assertIn",
    "assertNotIn",
    "assertIsInstance",
    "assertNotIsInstance",
    "assertAlmostEqual",
    "assertNotAlmostEqual",
    "assertGreater",
    "assertGreaterEqual",
    "assertLess",
    "assertLessEqual",
    "assertRegex",
    "assertNotRegex",
    "assertCountEqual",
    "assertMultiLineEqual",
    "assertSequenceEqual",
    "assertListEqual",
    "assertTupleEqual",
    "assertSetEqual",
    "assertDictEqual",
]
MAX_IDS = 200
MAX_TEXT = 500


class RunState:
    """The state of the run, and of the current test.

    The functions are stored here, where tests that replace the originals do not affect them.
    """

    def __init__(self) -> None:
        self.write = os.write
        self.process_id = os.getpid
        self.encode = json.JSONEncoder().encode
        self.pipe = -1
        self.path = ""
        """The file of the current test."""
        self.held: set[int] = set()


state = RunState()


def open_pipe(path: str) -> None:
    """Opens the pipe for reporting; raises OSError if there is none."""
    state.pipe = os.open(path, os.O_WRONLY | os.O_CLOEXEC)


def send_record(**record: Any) -> None:
    """Sends one record; if nobody reads the pipe, no test fails because of that."""
    if state.pipe < 0 or state.process_id() != PROCESS:
        return
    line = state.encode({"pid": PROCESS, **record}).encode() + b"\n"
    try:
        while line:
            line = line[state.write(state.pipe, line) :]
    except OSError:
        state.pipe = -1


def send_collected(ids: list[str]) -> None:
    """Reports the ids of the tests before the first one runs."""
    for at in range(0, len(ids), MAX_IDS):
        send_record(kind="collected", ids=ids[at : at + MAX_IDS])


def note(path: str, line: int) -> None:
    """Notes an assertion that passed."""
    if path == state.path:
        state.held.add(line)


def watch_methods() -> None:
    """Makes unittest's assertion methods note each assertion that passes."""
    from unittest import TestCase

    for name in ASSERTIONS:
        setattr(TestCase, name, _watched_method(getattr(TestCase, name)))


def _watched_method(original: Any) -> Any:
    @wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        answer = original(self, *args, **kwargs)
        frame = sys._getframe(1)  # noqa: SLF001 - the cheapest way to the line that asserts
        note(frame.f_code.co_filename, frame.f_lineno)
        return answer

    return method
