"""A pytest plugin, supplied by Remand, that reports results and assertions through a pipe as they happen."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from functools import wraps
from typing import Any

import pytest

from remand.adapters.gates import python_results as sender

_PIPE = os.environ.pop("REMAND_RESULTS", "")
_FILES = [name for name in os.environ.pop("REMAND_TEST_FILES", "").split("\n") if name]
_NOTE = "_note_held"


class _RunState:
    """Further state of pytest's run."""

    def __init__(self) -> None:
        self.session: Any = None
        self.is_called = False
        """True if the test was called in this process; assertions noted in another process are not known here."""
        self.read: set[str] = set()
        """The files in which every assertion is noted."""


_state = _RunState()


def _leave_no_trace() -> None:
    """Removes what loaded this plugin from the environment, so that programs started by tests do not load it."""
    own = os.path.dirname(os.path.abspath(__file__))
    os.environ.pop("PYTEST_PLUGINS", None)
    rest = [name for name in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if name not in ("", own)]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    sys.path[:] = [name for name in sys.path if name != own]


def _watch_statements() -> None:
    """Makes pytest's assertion rewriting note every assertion that passes, with no other effect."""
    from _pytest.assertion import rewrite

    original = rewrite.AssertionRewriter.visit_Assert

    @wraps(original)
    def visit(self: Any, assert_: ast.Assert) -> list[ast.stmt]:
        statements = original(self, assert_)
        path = os.path.abspath(self.module_path or "")
        noted = ast.Call(
            func=ast.Attribute(ast.Name("@pytest_ar", ast.Load()), _NOTE, ast.Load()),
            args=[ast.Constant(path), ast.Constant(assert_.lineno)],
            keywords=[],
        )
        statement = ast.copy_location(ast.Expr(noted), assert_)
        return [*statements, ast.fix_missing_locations(statement)]

    run_original = rewrite.AssertionRewriter.run

    @wraps(run_original)
    def run(self: Any, mod: ast.Module) -> None:
        _state.read.add(os.path.abspath(self.module_path or ""))
        run_original(self, mod)

    # Rewritten code looks it up under this name in that module; a nested pytest does not find it.
    setattr(rewrite, _NOTE, sender.note)
    rewrite._write_pyc = lambda *args: False  # noqa: SLF001, ARG005 - as below
    rewrite.AssertionRewriter.visit_Assert = visit  # type: ignore[method-assign]  # pytest has no hook for it
    rewrite.AssertionRewriter.run = run  # type: ignore[method-assign]  # as above


if _PIPE:
    _leave_no_trace()
    try:
        sender.open_pipe(_PIPE)
        _watch_statements()
        sender.watch_methods()
    except (OSError, ImportError, AttributeError):
        pass
    sender.send_record(kind="start", takes_files=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Deselects items outside the requested files."""
    wanted = {os.path.abspath(name) for name in _FILES}
    asked = [item for item in items if not wanted or _path_of(item) in wanted]
    if asked and len(asked) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if _path_of(item) not in wanted])
        items[:] = asked


def _path_of(item: Any) -> str:
    """The file of a test; pytest 6 knows it only under the older name."""
    return os.path.abspath(str(getattr(item, "path", None) or item.fspath))


def pytest_collection_finish(session: Any) -> None:
    sender.send_collected([item.nodeid for item in session.items])


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    sender.state.path = _path_of(item)
    sender.state.held = set()
    _state.is_called = False
    yield
    sender.state.path = ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    _state.is_called = True


def pytest_runtest_logreport(report: Any) -> None:
    is_read = sender.state.path in _state.read and _state.is_called
    sender.send_record(
        kind="result",
        id=report.nodeid,
        when=report.when,
        outcome=report.outcome,
        is_part=type(report).__name__ != "TestReport",
        lines=sorted(sender.state.held) if is_read else None,
        text=str(getattr(getattr(report.longrepr, "reprcrash", None), "message", ""))[: sender.MAX_TEXT],
    )


def pytest_collectreport(report: Any) -> None:
    if report.outcome == "failed":
        sender.send_record(kind="uncollected", id=report.nodeid)


def pytest_sessionstart(session: Any) -> None:
    _state.session = session


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    sender.send_record(kind="end", status=int(getattr(_state.session, "exitstatus", -1)))
