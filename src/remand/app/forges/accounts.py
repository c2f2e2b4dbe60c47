"""Which member of the team an account on a forge is, by its id and its permission there."""

from __future__ import annotations

from remand.app.forges.ports import Forge, Marks
from remand.domain.pulls.accounts import is_listed
from remand.domain.pulls.shapes import Account
from remand.domain.roles import Actor, Team


class Accounts:
    """Knows whose word an account's is. In doubt it is nobody's."""

    def __init__(self, team: Team, forge: Forge, marks: Marks) -> None:
        self._team = team
        self._forge = forge
        self._marks = marks
        self._may_write: dict[str, bool] = {}

    def member(self, account: Account | None) -> Actor | None:
        """The member behind an account that may write to the repository; None for everyone else.

        Raises `ForgeFault` when the forge does not say: then nothing is decided, and it is asked again.
        """
        actor = self.claimed(account)
        if account is None or actor is None:
            return None
        if account.id not in self._may_write:
            self._may_write[account.id] = self._forge.may_write(account)
        return actor if self._may_write[account.id] else None

    def claimed(self, account: Account | None) -> Actor | None:
        """The member whose account it is, whatever it is called now."""
        if account is None or not account.id:
            return None
        for member in self._team.members:
            if any(self._is_listed(name, account) for name in member.accounts):
                return self._team.actor(member.name)
        return None

    def _is_listed(self, name: str, account: Account) -> bool:
        """Looks up the id that a listed login had when it was first seen, and notes it whenever it is used, to be kept."""
        key = f"account {name.casefold()}"
        found = is_listed(name, account, self._marks.get(key))
        if found and name != account.id:
            self._marks.put(key, account.id)
        return found
