"""Holds that the table of events in docs/keys.md is what the code allows: every kind, and who may ask for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from remand.domain import commands as c
from remand.domain.decide import RULES
from remand.domain.events.catalogue import NATIVE
from remand.ledger.legacy import _READERS

PAGE = Path(__file__).parents[2] / "docs" / "keys.md"
KINDS = tuple(str(kind.__struct_config__.tag) for kind in NATIVE)
ASKS: dict[str, type[c.Command]] = {ask.__name__: ask for ask in RULES}
NO_ASK = {"log.import": "user", "node.delete": "nobody", "token.revoke": "user, the member that it is for"}
"""Kinds that no ask leads to, and who writes them all the same."""
OF_THE_AGENT = (
    c.ClaimTask,
    c.ClaimCommand,
    c.AcceptHandoff,
    c.CompleteHandoff,
    c.RejectHandoff,
    c.AppealRejection,
)


def rows() -> dict[str, tuple[str, str, str]]:
    """The table: by the name of an event, what it follows from, who may ask for that, and what it takes to count."""
    found = re.findall(
        r"^\| `([a-z._]+)` \| (.*) \| (.*) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name: (asks, who, takes) for name, asks, who, takes in found}


def who_may(names: list[str]) -> str:
    """The roles that may ask for one of these, in the words of the page."""
    found: set[str] = set()
    for name in names:
        allowed = RULES[ASKS[name]].roles
        own = "the agent itself" if issubclass(ASKS[name], OF_THE_AGENT) else "anyone"
        found |= {own} if allowed is None else set(map(str, allowed))
    return "anyone" if "anyone" in found else ", ".join(sorted(found))


def asks_of(kind: str) -> list[str]:
    return [name for name in rows()[kind][0].split(", ") if name != "–"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_event_has_a_row_that_says_who_may_ask_for_it(kind: str) -> None:
    assert kind in rows(), (
        f"docs/keys.md has no row for {kind}. Add, in the table of events:\n"
        f"| `{kind}` | the asks that lead to it | who may ask for them | a trusted signature |"
    )
    asks, who, _ = rows()[kind]
    unknown = [name for name in asks_of(kind) if name not in ASKS]
    assert unknown == [], (
        f"docs/keys.md: {kind} follows from {unknown}, which are no asks of domain/commands.py"
    )
    expected = who_may(asks_of(kind)) if asks_of(kind) else NO_ASK.get(kind, "user")
    assert who == expected, (
        f"docs/keys.md should say: | `{kind}` | {asks} | {expected} | … (domain/decide.py)"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_says_which_events_lines_of_got_tools_may_become(kind: str) -> None:
    assert ("imported" in rows()[kind][2]) == (kind in _READERS or kind == "log.import")
    assert "trusted signature" in rows()[kind][2]


def test_the_table_has_no_event_that_is_none() -> None:
    assert set(rows()) - set(KINDS) <= {"log.sign"}


def test_every_ask_leads_to_an_event_of_the_table() -> None:
    named = {name for kind in KINDS for name in asks_of(kind)}

    assert [name for name in ASKS if name not in named] == []
