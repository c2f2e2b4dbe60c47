"""Holds whom the hook keeps from a task's tools."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from remand.app.gates.done_claims import Stop, StopReply
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.policy import Policy
from remand.interfaces.hook import answers
from tests.support.builders import FakeLedger, member
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

LEA, BOB = member("Lea", Role.LEAD), member("Bob")


def test_a_member_locked_out_above_under_an_older_name_is_known_by_its_claim() -> None:
    world = FakeLedger(rules=Rules(gates=(), team=Team((LEA, BOB, member("Alice"))), policy=Policy()))
    task = world.add(TITLE, scope=SCOPE)
    claim = world.claim(task, "Bob").claim
    assert claim is not None
    world.reject(claim.handoff_id, a_rejection("SCOPE_CREEP"), "Bob")
    part = world.task(task).links.children[0]
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="Not her"), "Lea")

    rules = Rules(gates=(), team=Team((LEA, BOB, member("Alicia", aliases=("Alice",)))))
    opened: Any = SimpleNamespace(store=world.store, settings=SimpleNamespace(rules=lambda: rules))
    session = object.__new__(answers._Session)
    session._opened = opened

    assert task in session._lockout_reason(world.task(part), "Alicia")
    assert session._lockout_reason(world.task(part), "Bob") == ""


def test_gates_that_could_not_be_run_are_no_idle_stop() -> None:
    session, stopping = object.__new__(answers._Session), Mock()
    counts = iter(range(1, answers.MAX_UNKNOWN_BLOCKS + 2))
    session._gates = Mock(sessions=Mock(count=lambda *_: next(counts)))
    session._call = Mock(session="s")
    task, stop = Mock(id="T-1"), Stop(task_id="T-1", session="s", key="k", commit="c0ffee")
    said = b'{"error": "environment", "message": "The log has moved."}'

    replies = [session._reply_without_verdict(task, stop, stopping, said) for _ in range(4)]

    assert [reply.may_stop for reply in replies] == [False, False, False, True]
    assert "The log has moved." in replies[0].text
    assert "The log has moved." in replies[3].notice
    stopping.send_back.assert_not_called()
    stopping.send_back.return_value = StopReply(may_stop=False)
    session._reply_without_verdict(task, stop, stopping, b"nothing")
    stopping.send_back.assert_called_once()
