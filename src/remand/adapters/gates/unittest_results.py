"""A script, run by Remand in place of `python -m unittest`, that also reports results and assertions as they happen.

It is placed next to the pipe and run by whatever Python the project has, so it imports nothing else of Remand.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
import unittest
from collections.abc import Iterator
from functools import wraps
from inspect import unwrap
from traceback import format_exception_only
from types import CodeType
from typing import Any

from remand.adapters.gates import python_results as sender

_PIPE = os.environ.pop("REMAND_RESULTS", "")
_FILES = {os.path.abspath(name) for name in os.environ.pop("REMAND_TEST_FILES", "").split("\n") if name}
_NAME = "_remand_name"
_RAISES_ASSERTION = ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT")


class _RunState:
    """Further state of unittest's run."""

    def __init__(self) -> None:
        self.clock = time.monotonic
        self.depth = 0
        """The nesting depth of runs: the results of runs that tests start are not reported."""
        self.result: Any = None
        self.test: Any = None
        self.begun = 0.0
        self.outcome = ""
        self.text = ""
        """What its first failure says."""


_state = _RunState()


def _path_of(test: Any) -> str:
    """The file of the module that contains a test."""
    module = sys.modules.get(type(test).__module__)
    return os.path.abspath(getattr(module, "__file__", None) or "")


def _name_tests(suite: Any) -> list[str]:
    """The ids of all tests. Tests of a class imported by a second module legitimately run twice and get two ids."""
    names: list[str] = []
    known: dict[str, int] = {}
    for test in _tests_of(suite):
        name = _id_of(test)
        known[name] = count = known.get(name, 0) + 1
        names.append(name if count == 1 else f"{name}#{count}")
        test.__dict__[_NAME] = names[-1]
    return names


def _id_of(test: Any) -> str:
    if _NAME in getattr(test, "__dict__", {}):
        return str(test.__dict__[_NAME])
    name = f"{type(test).__qualname__}::{getattr(test, '_testMethodName', '')}"
    return f"{_path_of(test)}::{name.replace('.', '::')}"


def _tests_of(suite: Any) -> Iterator[Any]:
    for one in suite if isinstance(suite, unittest.BaseTestSuite) else ():
        yield from _tests_of(one)
    if not isinstance(suite, unittest.BaseTestSuite):
        yield suite


def _leave_out_files(suite: Any) -> None:
    """Removes the tests outside the requested files."""
    if not isinstance(suite, unittest.BaseTestSuite):
        return
    rest: Any = [one for one in suite if isinstance(one, unittest.BaseTestSuite) or _path_of(one) in _FILES]
    suite._tests[:] = rest  # noqa: SLF001 - unittest has no hook for it
    for one in suite:
        _leave_out_files(one)


def _has_statements(code: CodeType) -> bool:
    """True for code with an `assert` statement, which is not noted here."""
    from dis import get_instructions

    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return any(
        one.opname in _RAISES_ASSERTION and one.argrepr in ("", "AssertionError")
        for one in get_instructions(code)
    ) or any(map(_has_statements, inner))


def _held_lines(test: Any) -> list[int] | None:
    """The lines where assertions of a test passed; None if not all of its assertions are noted."""
    method = getattr(test, getattr(test, "_testMethodName", ""), None)
    code = getattr(unwrap(method), "__code__", None) if method else None
    is_watched = code is not None and code.co_filename == sender.state.path and not _has_statements(code)
    return sorted(sender.state.held) if is_watched else None


def _begin(result: Any, test: Any) -> None:
    if _state.test is None and _state.depth == 1:
        _state.result, _state.test, _state.outcome, _state.text = result, test, "", ""
        _state.begun = _state.clock()
        sender.state.path, sender.state.held = _path_of(test), set()


def _end(result: Any, test: Any) -> None:
    if result is _state.result and test is _state.test and _state.outcome:
        sender.send_record(
            kind="result",
            when="call",
            id=_id_of(test),
            outcome=_state.outcome,
            lines=_held_lines(test),
            seconds=_state.clock() - _state.begun,
            text=_state.text,
        )
    if test is _state.test:
        _state.test, sender.state.path = None, ""


def _add(outcome: str, result: Any, test: Any, *rest: Any) -> None:
    """Records one outcome of a test: a failure overrides everything; otherwise the first outcome counts."""
    if _state.test is None and outcome == "failed" and _state.depth == 1:
        sender.send_record(kind="uncollected", id=str(test))  # the setup of a class or a module failed
    elif result is _state.result and test is _state.test and (rest[1:] != (None,)):
        _state.outcome = "failed" if outcome == "failed" else _state.outcome or outcome
        if outcome == "failed" and rest and isinstance(rest[-1], tuple) and not _state.text:
            _state.text = "".join(format_exception_only(*rest[-1][:2]))[: sender.MAX_TEXT]


_METHODS = {
    "addSuccess": "passed",
    "addFailure": "failed",
    "addError": "failed",
    "addSkip": "skipped",
    "addExpectedFailure": "skipped",
    "addUnexpectedSuccess": "failed",
    "addSubTest": "failed",
}


def _watch_results() -> None:
    """Makes unittest's result classes report what they are told; a project's own classes call them too."""
    for name, outcome in _METHODS.items():
        setattr(unittest.TestResult, name, _watched_addition(name, outcome))
    for name, take in (("startTest", _begin), ("stopTest", _end)):
        setattr(unittest.TestResult, name, _watched_call(getattr(unittest.TestResult, name), take))


def _watched_addition(name: str, outcome: str) -> Any:
    return _watched_call(getattr(unittest.TestResult, name), lambda *words: _add(outcome, *words))


def _watched_call(original: Any, take: Any) -> Any:
    @wraps(original)
    def method(self: Any, *words: Any, **named: Any) -> Any:
        take(self, *words, *named.values())
        return original(self, *words, **named)

    return method


def _watch_program() -> None:
    original = unittest.TestProgram.runTests

    @wraps(original)
    def run_tests(self: Any) -> None:
        _state.depth += 1
        try:
            if _state.depth == 1:
                if _FILES:
                    _leave_out_files(self.test)
                sender.send_collected(_name_tests(self.test))
            original(self)
        finally:
            result = getattr(self, "result", None)
            if _state.depth == 1 and result is not None:
                # If no test ran, the exit code depends on the Python release, so the record has none.
                sender.send_record(
                    kind="end", status=int(not result.wasSuccessful()) if result.testsRun else -1
                )
            _state.depth -= 1

    unittest.TestProgram.runTests = run_tests  # type: ignore[method-assign]  # unittest has no hook for it


if _PIPE:
    try:
        sender.open_pipe(_PIPE)
        sender.watch_methods()
        _watch_results()
        _watch_program()
    except (OSError, ImportError, AttributeError):
        pass
    sender.send_record(kind="start", takes_files=True)
    # As `-m` sets it, instead of the folder of this script.
    sys.path[0] = os.getcwd()
    runpy.run_module("unittest", run_name="__main__", alter_sys=True)
