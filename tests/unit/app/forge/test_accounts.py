"""Whose word an account's is: by its id, and by a login only as long as it has the id it was first seen with."""

from __future__ import annotations

import pytest

from remand.app.forge.review_import import Accounts
from remand.domain.access.team import Member, Role, Team
from remand.domain.forge import Account
from tests.support.forge_fakes import MemoryForge, MemoryNotes

TEAM = Team(
    (
        Member(name="Lead", roles=(Role.LEAD,), accounts=("github:octocat",)),
        Member(name="Tess", roles=(Role.TESTER,), accounts=("github:583231",)),
        Member(name="owner", roles=(Role.USER,), accounts=("github:boss", "gitea:boss")),
    )
)


class Known:
    """A team whose accounts were seen before, or not."""

    def __init__(self) -> None:
        self.forge, self.notes = MemoryForge(), MemoryNotes()

    def who(self, login: str, number: int | str, kind: str = "github") -> str:
        """The member behind an account that may write, asked by a process of its own."""
        account = Account(id=f"{kind}:{number}" if number else "", login=f"{kind}:{login}")
        self.forge.writers.add(account.id)
        found = Accounts(TEAM, self.forge, self.notes).writing_member(account)
        return found.name if found else ""


@pytest.fixture
def known() -> Known:
    return Known()


def test_a_login_is_the_members_whatever_its_case(known: Known) -> None:
    assert (known.who("OctoCat", 1), known.who("octocat", 1)) == ("Lead", "Lead")


def test_an_account_that_was_renamed_is_still_the_members(known: Known) -> None:
    known.who("octocat", 1)

    assert known.who("octocat-of-late", 1) == "Lead"


def test_a_login_that_another_account_has_taken_over_is_nobodys(known: Known) -> None:
    known.who("octocat", 1)

    assert known.who("octocat", 2) == ""
    assert known.who("octocat", 1) == "Lead"


def test_an_account_listed_by_its_id_may_be_called_anything(known: Known) -> None:
    assert (known.who("tess", 583231), known.who("somebody", 583231)) == ("Tess", "Tess")


def test_whoever_is_called_by_a_listed_number_is_nobody(known: Known) -> None:
    assert known.who("583231", 666) == ""


@pytest.mark.parametrize(("login", "number", "kind"), [("octocat", "", "github"), ("octocat", 1, "gitea")])
def test_without_an_id_or_on_another_forge_it_is_nobody(
    known: Known, login: str, number: int | str, kind: str
) -> None:
    assert known.who(login, number, kind) == ""


def test_a_member_may_have_accounts_on_several_forges(known: Known) -> None:
    assert (known.who("boss", 7), known.who("boss", 9, "gitea")) == ("owner", "owner")


def test_whoever_may_not_write_is_nobody(known: Known) -> None:
    account = Account(id="github:1", login="github:octocat")

    assert Accounts(TEAM, known.forge, known.notes).writing_member(account) is None
