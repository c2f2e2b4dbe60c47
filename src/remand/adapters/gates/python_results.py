"""What the plugins for pytest and unittest have in common: they tell results and assertions through a pipe.

It is put beside the pipe and loaded in whatever Python the project has, so it imports nothing of ours. Nothing that a
test does to its process may make it fail: what it calls while tests run, it took before the first one began.
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


class RunState:
    """What is known of the run, and of the test that runs now.

    The functions are kept here, where those that tests put in their place do not reach them.
    """

    def __init__(self) -> None:
        self.write = os.write
        self.process_id = os.getpid
        self.encode = json.JSONEncoder().encode
        self.pipe = -1
        self.path = ""
        """The file of the test that runs."""
        self.held: set[int] = set()


state = RunState()


def open_pipe(path: str) -> None:
    """Begins to tell; raises OSError where there is no pipe."""
    state.pipe = os.open(path, os.O_WRONLY | os.O_CLOEXEC)


def tell(**record: Any) -> None:
    """Sends one record; nobody who listens is no reason for a test to fail."""
    if state.pipe < 0 or state.process_id() != PROCESS:
        return
    line = state.encode({"pid": PROCESS, **record}).encode() + b"\n"
    try:
        while line:
            line = line[state.write(state.pipe, line) :]
    except OSError:
        state.pipe = -1


def tell_collected(ids: list[str]) -> None:
    """Names the tests before the first one runs."""
    for at in range(0, len(ids), MAX_IDS):
        tell(kind="collected", ids=ids[at : at + MAX_IDS])


def note(path: str, line: int) -> None:
    """An assertion held."""
    if path == state.path:
        state.held.add(line)


def watch_methods() -> None:
    """Notes unittest's assertions that hold."""
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
