"""Machines that share a ledger in PostgreSQL judge it alike, whoever writes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from remand.app.ports import Commit
from remand.app.requests import Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.domain.refusals import Refused
from remand.testing.fakes import FakeKeys
from tests.support.shared_ledgers import SharedFakeLedger

_KEYS = {name: FakeKeys(name).ensure_key() for name in ("machine", "other", "third")}


def _machine(url: str, name: str, trusted: tuple[str, ...], base: str = "") -> SharedFakeLedger:
    one = SharedFakeLedger(
        url, rules=Rules(gates=(), trusted=tuple(_KEYS[key] for key in trusted), base=base)
    )
    one.ledger.keys = FakeKeys(name)
    return one


def _titles(one: SharedFakeLedger) -> list[str]:
    with one.store.read() as view:
        return sorted(task.title for task in view.tasks.every())


def _add(one: SharedFakeLedger, title: str) -> str:
    found = one.ledger.ask(Request(command=c.AddTask(title=title), actor=USER))
    return found.code if isinstance(found, Refused) else ""


@pytest.mark.parametrize("trusted", [("machine",), ()], ids=["the base lists one", "the base lists none"])
def test_a_machine_whose_key_does_not_count_writes_nothing_and_judges_nothing(
    database: str, trusted: tuple[str, ...]
) -> None:
    one, two = _machine(database, "machine", trusted), _machine(database, "other", trusted)

    assert (_add(one, "of one"), _add(two, "of two")) == ("", "key_not_trusted")
    two.ledger.refresh()

    assert _titles(one) == _titles(two) == ["of one"]
    assert _add(one, "more of one") == ""
    assert _titles(two) == ["more of one", "of one"]
    for writer in (one, two):
        writer.store.close()


def test_machines_that_the_base_lists_judge_alike(database: str) -> None:
    both = ("machine", "other")
    one, two = _machine(database, "machine", both), _machine(database, "other", both)

    assert [_add(writer, "a") for writer in (one, two, one)] == ["", "", ""]

    with one.store.read() as view:
        assert view.unconfirmed.trust == two.ledger.current_verifier().trust_text
        assert len(list(view.tasks.every())) == 3
    for writer in (one, two):
        writer.store.close()


def test_the_only_machine_goes_on_once_the_base_lists_it_and_another(database: str) -> None:
    one = _machine(database, "machine", ())
    assert _add(one, "a") == ""
    one.store.close()
    two = _machine(database, "other", ("machine", "other"))

    assert _add(two, "b") == ""

    assert _titles(two) == ["a", "b"]
    two.store.close()


def test_of_machines_whose_bases_differ_the_newest_base_counts_and_nobody_goes_back(database: str) -> None:
    def trust() -> str:
        with new.store.read() as view:
            return view.unconfirmed.trust

    old = _machine(database, "machine", ("machine", "other", "third"), "old base")
    new = _machine(database, "other", ("machine", "other"), "new base")
    for base in ("old base", "new base"):
        new.repository.commits[base] = Commit(sha=base, tree="")
    new.repository.histories["new base"] = ("old base",)

    assert _add(old, "a") == ""
    judged_first = trust()
    assert _add(new, "b") == ""
    judged = trust()
    assert judged != judged_first, "the newer base counts"
    for writer, title in ((old, "c"), (new, "d"), (old, "e")):
        assert _add(writer, title) == ""
        assert trust() == judged, "the older base, which does not know the newer one, changes nothing"
    old.repository.commits["new base"] = Commit(sha="new base", tree="")
    old.repository.histories["new base"] = ("old base",)
    assert _add(old, "f") == ""
    assert trust() == judged, "nor does it once it has fetched it"

    old.rules = replace(old.rules, base="rewritten base")
    assert _add(old, "g") == ""
    assert trust() == judged_first, "a base that was rewritten since counts for who knows both"
    for writer in (old, new):
        writer.store.close()
