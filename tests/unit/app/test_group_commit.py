"""Requests of many threads are answered in groups; when whoever decides fails, nobody is left without an answer."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from remand.app.errors import RemandError
from remand.app.group_commit import GroupCommit
from remand.app.ledger import UnsyncedAnswers
from remand.app.requests import Request
from remand.domain import commands as c
from remand.domain.refusals import Refused


class FailingLedger:
    """A ledger whose first group is small, and whose second fails by a slip of its own."""

    def __init__(self) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.groups: list[int] = []

    def decide_all(self, requests: Sequence[Request], on_decided: Callable[[], None]) -> Any:
        self.groups.append(len(requests))
        if len(self.groups) == 1:
            self.begun.set()
            assert self.goes_on.wait(120)
        raise KeyError("a slip")

    def sync(self, head: object) -> None:
        """Nothing was recorded."""

    def update_files(self) -> None:
        """No file is outdated."""


def test_a_slip_in_a_group_is_an_error_for_all_of_it_and_for_nobody_a_turn() -> None:
    ledger = FailingLedger()
    commit = GroupCommit(ledger)
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            commit.ask(Request(command=c.CancelTask(task_id="T", reason=""), actor="user"))
        except (RemandError, KeyError, ValueError, RuntimeError) as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    threads[0].start()
    assert ledger.begun.wait(120)
    for thread in threads[1:]:
        thread.start()
    while len(commit._waiting) < 4:
        threading.Event().wait(0.001)
    ledger.goes_on.set()
    for thread in threads:
        thread.join(120)
    assert ledger.groups == [1, 4]
    assert sorted(type(error).__name__ for error in errors) == ["EnvironmentFault"] * 3 + ["KeyError"] * 2


class SlowLedger(FailingLedger):
    """A ledger that lets others be decided late, and refuses all that it is asked."""

    def decide_all(self, requests: Sequence[Request], on_decided: Callable[[], None]) -> Any:
        self.groups.append(len(requests))
        self.begun.set()
        assert self.goes_on.wait(120)
        on_decided()
        return UnsyncedAnswers([Refused("unknown_task", "")] * len(requests), None, False)


def test_what_was_submitted_before_the_end_is_answered_and_what_comes_later_fails() -> None:
    ledger = SlowLedger()
    commit = GroupCommit(ledger)
    request = Request(command=c.CancelTask(task_id="T", reason=""), actor="user")
    first = commit.submit(request)
    assert ledger.begun.wait(120)
    others = [commit.submit(request) for _ in range(3)]
    end = threading.Thread(target=commit.close)
    end.start()
    threading.Event().wait(0.1)
    ledger.goes_on.set()

    assert [isinstance(one.result(120), Refused) for one in (first, *others)] == [True] * 4
    end.join(120)
    with pytest.raises(RemandError):
        commit.submit(request).result(120)
