"""What the inbox offers: each answer by a command that whoever looks may call, and what waiting costs for what is shown."""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from remand.app.requests import Rules
from remand.domain.access.tokens import CALLS, Caller, TokenRole
from remand.interfaces.http.commands import remote_commands
from remand.interfaces.http.pages import inbox
from remand.interfaces.http.pages.markup import render_fragments
from remand.interfaces.http.pages.page import PageAddress, PageQuery
from remand.interfaces.http.pages.site import ACTIONS

QUESTION = {
    "task_id": "T-1",
    "title": "x",
    "question": "Why? Options: 1)",
    "since": "",
    "tried": [],
    "acknowledged_by": "",
}
HELD = QUESTION | {
    "escalation_id": "T-1/f1", "kind": "held", "finding": "f1",
    "options": [{"key": "accept", "text": "Yes"}, {"key": "refuse", "text": "No"}],
}  # fmt: skip
DECISION = QUESTION | {
    "escalation_id": "R-1", "kind": "decision", "handoff_id": "H-1",
    "options": [{"key": "ACCEPT_AND_DEFER", "text": "Defer"}, {"key": "reassign:Bob", "text": "Bob"}],
}  # fmt: skip


class Tasks:
    """Stands where tasks are looked up, and counts that."""

    asked = 0

    def get(self, _: str) -> None:
        self.asked += 1


def read(
    role: TokenRole, rows: list[dict[str, Any]], tasks: Tasks, *, is_whole: bool = True
) -> tuple[PageQuery, inbox.InboxView]:
    view = SimpleNamespace(tasks=tasks)
    opened: Any = SimpleNamespace(
        store=SimpleNamespace(read=lambda: nullcontext(view)),
        settings=SimpleNamespace(rules=lambda: Rules(gates=())),
        view=SimpleNamespace(untrusted_writer=lambda: None),
    )
    query = PageQuery(opened, lambda _: [], Caller(member="x", role=role), PageAddress("/"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inbox, "read_questions", lambda _: (rows, is_whole))
        patch.setattr(inbox, "count_waiting", lambda _: 1234)
        return query, inbox.read_inbox(query)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (TokenRole.REVIEWER, {"gate accept": {"task": "T-1", "finding": "f1"}, "gate refuse": {"task": "T-1", "finding": "f1"}}),
        (TokenRole.DIRECTOR, {"handoff rejection-response": {"handoff": "H-1", "decision": "OVERRIDE", "reassign_to": "Bob"}}),
        (TokenRole.USER, {"inbox answer": {"id": "T-1/f1"}}),
    ],
)  # fmt: skip
def test_every_form_is_one_that_its_reader_may_send(role: TokenRole, expected: dict[str, Any]) -> None:
    query, view = read(role, [HELD, DECISION], Tasks())
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


def test_what_waiting_costs_is_looked_up_for_what_is_shown() -> None:
    tasks = Tasks()
    _, view = read(TokenRole.USER, [HELD | {"escalation_id": f"T-1/{n}"} for n in range(500)], tasks)

    assert (view.total, len(view.items)) == (500, inbox.MOST_SHOWN)
    assert tasks.asked <= inbox.MOST_SHOWN
    assert all(item.cost for item in view.items)


def test_what_is_not_read_is_counted() -> None:
    _, view = read(TokenRole.USER, [HELD], Tasks(), is_whole=False)

    assert (view.total, len(view.items)) == (1234, 1)
