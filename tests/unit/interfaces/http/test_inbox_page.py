"""What the inbox offers: each answer by a command that whoever looks may call, and what waiting costs for what is shown."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from remand.app.events.task_folds import task_events
from remand.app.inbox import decisions
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Role, Team
from remand.domain.access.tokens import CALLS, Caller, TokenRole
from remand.domain.gate.verdict import GateResult, GateStatus
from remand.domain.policy import Policy
from remand.interfaces.http.commands import remote_commands
from remand.interfaces.http.pages import inbox
from remand.interfaces.http.pages.page import PageAddress, PageQuery, render_fragments
from remand.interfaces.http.pages.site import ACTIONS
from tests.support.builders import FakeLedger, a_verdict, member
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

TEAM = Team((member("Alice"), member("Bob"), member("Lea", Role.LEAD), member("owner", Role.USER)))

HERE = PageAddress("/")


def a_world() -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), team=TEAM, policy=Policy(director="human"), base="base"))


def read(
    role: TokenRole, world: FakeLedger, address: PageAddress = HERE
) -> tuple[PageQuery, inbox.InboxView]:
    opened: Any = SimpleNamespace(
        store=world.store,
        settings=SimpleNamespace(rules=lambda: world.rules),
        view=SimpleNamespace(untrusted_writer=lambda: None),
        folders=SimpleNamespace(status=None),
        place=SimpleNamespace(root=None),
    )
    name = "Lea" if role is TokenRole.REVIEWER else "owner"
    query = PageQuery(opened, lambda _: [], Caller(member=name, role=role), address)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inbox.scheduler_files, "unstartable", lambda *_: {})
        return query, inbox.read_inbox(query)


def waiting_world() -> tuple[FakeLedger, str, str]:
    """A held finding and a rejection that wait: the finding's task, and the rejection's handoff."""
    world = a_world()
    _, handoff = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    world.reject(handoff, a_rejection())
    held, _ = world.add_and_claim("Alice")
    sha = world.repository.add("work")
    suspect = GateResult(name="integrity", status=GateStatus.HELD, suspicions=("c0ffee001122",))
    verdict = a_verdict(suspect, commit=sha, tree="tree of work")
    world.ledger.ask_as(THE_COORDINATOR, c.RecordVerdict(task_id=held, agent="Alice", verdict=verdict))
    return world, held, handoff


@pytest.mark.parametrize("role", [TokenRole.REVIEWER, TokenRole.DIRECTOR, TokenRole.USER])
def test_every_form_is_one_that_its_reader_may_send(role: TokenRole) -> None:
    world, held, handoff = waiting_world()
    expected: dict[str, dict[str, str]] = {
        TokenRole.REVIEWER: {"gate refuse": {"task": held, "finding": "c0ffee001122"}},
        TokenRole.DIRECTOR: {
            "handoff rejection-response": {"handoff": handoff, "decision": "OVERRIDE", "reassign_to": "Bob"}
        },
        TokenRole.USER: {"inbox answer": {"id": f"{held}/c0ffee001122"}},
    }[role]
    query, view = read(role, world)
    shown = {"csrf": "c", "key": "k", "address": query.address, "failed": None, "view": view}
    html = render_fragments("inbox.html", shown)["live_inbox"]
    forms = {
        name.replace("/", " "): dict(re.findall(r'name="(\w+)" value="([^"]*)"', body))
        for name, body in re.findall(r'action="/do/([^"]*)"(.*?)</form>', html, re.DOTALL)
    }

    assert forms
    assert all(role in CALLS[name] and name in ACTIONS for name in forms), forms
    for name, values in expected.items():
        assert values.items() <= forms[name].items()
        remote_commands()[name].read_values(remote_commands()[name].read_form(forms[name].items()))


def test_the_worst_of_all_that_waits_comes_first_and_a_page_reads_what_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, held, _ = waiting_world()
    monkeypatch.setattr(inbox, "MOST_SHOWN", 2)
    asked = []
    for number in range(3):
        world.clock.advance(60)
        asked.append(world.add(f"Question {number}"))
        world.ask(c.EscalateTask(task_id=asked[-1], reason="Which way?"), "owner")
    histories: list[str] = []
    monkeypatch.setattr(
        decisions,
        "task_events",
        lambda view, name, **beside: histories.append(name) or task_events(view, name, **beside),
    )

    pages = [read(TokenRole.USER, world, PageAddress("/", query={"page": str(n)}))[1] for n in (1, 2, 3)]

    assert [view.total for view in pages] == [5, 5, 5]
    assert [[item.label for item in view.items] for view in pages] == [
        ["Question", "Question"],
        ["Question", "Task rejected"],
        ["Held finding"],
    ]
    assert [item.task_id for view in pages for item in view.items][:3] == asked
    assert pages[2].items[0].task_id == held
    assert [(view.before, view.after) for view in pages] == [
        ("", "/?page=2"),
        ("/", "/?page=3"),
        ("/?page=2", ""),
    ]
    assert 0 < len(histories) <= 5
    assert all(item.cost for view in pages for item in view.items)
    assert pages[0].items[0].why == "The task needs a decision: Which way?"
    only = read(TokenRole.USER, world, PageAddress("/", query={"kind": "Held finding", "page": "9"}))[1]
    assert ([item.label for item in only.items], only.total) == (["Held finding"], 5)
