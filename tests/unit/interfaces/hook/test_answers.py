"""Holds whom the hook keeps from a task's tools."""

from types import SimpleNamespace
from typing import Any

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
