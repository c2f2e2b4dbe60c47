"""Runs a function in a child process and kills it at one of its system calls, by ptrace."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from typing import NamedTuple

_TRACE_ME, _TO_NEXT_CALL = 0, 24
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class Stepped(NamedTuple):
    """How far a child came: whether it said that it was done, and at how many stops it was looked at."""

    has_answered: bool
    stops: int
    is_killed: bool


def run_until(stop: int, prepare: Callable[[], Callable[[], object]]) -> Stepped:
    """Lets a child prepare something and do it, and kills it at that stop: before or after one of its system calls.

    A negative number lets it come to its end. What it prepares does not count.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        _live(theirs, prepare)
    os.close(theirs)
    try:
        return _step(child, stop, ours)
    finally:
        os.close(ours)


def _live(answer: int, prepare: Callable[[], Callable[[], object]]) -> None:
    """The child's life. It never returns."""
    status = 1
    try:
        act = prepare()
        if _libc.ptrace(_TRACE_ME, 0, None, None):
            status = 77
            return
        os.kill(os.getpid(), signal.SIGSTOP)
        act()
        os.write(answer, b"x")
        status = 0
    finally:
        os._exit(status)


def _step(child: int, stop: int, answer: int) -> Stepped:
    stops = 0
    while True:
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            code = os.WEXITSTATUS(status)
            assert code == 0, "there is no ptrace here" if code == 77 else f"the child ended with {code}"
            return Stepped(os.read(answer, 1) == b"x", stops, is_killed=False)
        if stops == stop:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Stepped(os.read(answer, 1) == b"x", stops, is_killed=True)
        stops += 1
        _libc.ptrace(_TO_NEXT_CALL, child, None, None)
