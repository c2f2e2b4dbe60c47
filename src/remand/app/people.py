"""Whom a name means on this ledger: a member, somebody who has a part in a task, or somebody new."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from remand.app.family import Family
from remand.domain.former_names import MayBe, may_be
from remand.domain.names import heads, looks, member_of, name_key, parents, tidy
from remand.domain.roles import Team
from remand.domain.task import Task
from remand.ledger.store import Transaction

_ADDING = ".:@+"
"""Marks by which a name is made of a known one: it is refused, since nobody could tell the two apart."""


def may_be_locked_out(tx: Transaction, team: Team, task: Task) -> MayBe:
    """The members who may be locked out of a task, or of one it was cut from, under a name that the team has lost."""
    if not team.has_members:
        return ()
    above = Family(tx).above(task) if task.parent else ()
    inherited = (lockout for one in above for lockout in one.inheritable_lockouts)
    lockouts = (*task.lockouts, *(lockout for lockout in inherited if lockout.agent not in task.unlocked))
    return may_be(team, lockouts, lambda name: bool(tx.names.having(name_key(name))))


def lost_names(tx: Transaction, team: Team) -> list[str]:
    """The names that are locked out of a task, and that the team has neither as a member's nor as a former one's."""
    if not team.has_members:
        return []
    found = {lockout.agent for task in tx.tasks.every() for lockout in task.active_lockouts}
    return sorted(name for name in found if not team.has_name(name))


class People:
    """Everyone the ledger knows: the team, and whoever has a part in any of its tasks."""

    def __init__(self, tx: Transaction, team: Team) -> None:
        self._tx = tx
        self._team = team
        self._found: dict[str, str] = {}

    def name(self, said: str) -> str:
        """The name that is recorded for one that was said: the known one that it is a spelling of, else itself, tidied.

        `Fenster/2` is Fenster, whether or not Fenster is known yet; `Fenster/b` is when Fenster is.
        """
        known = self._known(said)
        return self._team.actor(known).name if known else tidy(member_of(said) or said)

    def look_alikes(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Each of these names that is new and looks like a known one, and that one."""
        return tuple((name, known) for name in names if (known := self.looks_like(name)))

    def looks_like(self, said: str) -> str:
        """The known name that a new one looks like; empty when there is none, or the name itself is known.

        A member's name is new until it has a part in a task. Plain letters alone are taken as the user means them.
        """
        known = self._known(said)
        if not said or (known and (known.isascii() or self._tx.names.having(name_key(self.name(said))))):
            return ""
        added_to = () if known else tuple(head for mark in _ADDING for head in heads(said, mark))
        parent = next(filter(None, map(self._known, added_to)), "")
        if parent:
            return parent
        spellings = (known,) if known else (tidy(said), *heads(said), *added_to)
        keys = [key for name in spellings for key in looks(name)]
        on_tasks = (name for key in keys for name in self._tx.names.having(key))
        return self._team.name_like(keys, known) or next(on_tasks, "")

    def _known(self, said: str) -> str:
        if said not in self._found:
            names = chain((said,), parents(said))
            self._found[said] = self._team.known_as(said) or next(
                filter(None, map(self._on_tasks, names)), ""
            )
        return self._found[said]

    def _on_tasks(self, name: str) -> str:
        """Somebody with a part in a task. Of two spellings that two ledgers took in, each keeps its own."""
        spellings = self._tx.names.having(name_key(name)) if name else []
        return name if name in spellings else next(iter(spellings), "")
