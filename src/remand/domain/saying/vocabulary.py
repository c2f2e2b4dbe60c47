"""The names that may be said: the members under all their names, and what a reference to a task may mean."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Protocol

from remand.domain.record import Record
from remand.domain.roles import REVIEWERS, USER, Member, Role
from remand.domain.saying.wishes import TaskName

_SHORTEST_NEAR = 4
_ROLES: dict[str, frozenset[Role]] = {
    "lead": frozenset({Role.LEAD}),
    "tester": frozenset({Role.TESTER}),
    "director": frozenset({Role.DIRECTOR}),
    "reviewer": REVIEWERS - {Role.USER},
    "user": frozenset({Role.USER}),
}


class Kind(StrEnum):
    """How a task was referred to."""

    NAME = "name"
    """By its id, or an alias with its repository."""
    NUMBER = "number"
    """`#42`, `issue 42`."""
    PULL = "pull"
    """`PR 15`."""
    BARE = "bare"
    """A number alone: an issue's or a pull request's."""
    TITLE = "title"
    ESCALATION = "escalation"


class Reference(Record, kw_only=True):
    """How somebody called a task."""

    kind: Kind
    text: str
    """The number without its sign, the id, the alias, or the title without its quotes."""
    said: str
    """As it was said."""


class Tasks(Protocol):
    """What is known of tasks."""

    def find(self, reference: Reference) -> tuple[TaskName, ...]:
        """Every task a reference may mean."""

    def locking_out(self, agent: str) -> tuple[TaskName, ...]:
        """The tasks an agent is locked out of."""

    def locked_out_of(self, task_id: str) -> tuple[str, ...]:
        """The agents locked out of a task."""


class Vocabulary:
    """Who and what may be named, and who speaks."""

    def __init__(self, members: tuple[Member, ...], tasks: Tasks, speaker: str = USER) -> None:
        self.members = members
        self.tasks = tasks
        self.speaker = speaker

    @cached_property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Every name in lower case, with the members it may mean. A role is a name where no member has it."""
        found: dict[str, list[str]] = {}
        for member in self.members:
            logins = (account.rpartition(":")[2] for account in member.accounts)
            for name in (member.name, *member.aliases, *logins):
                found.setdefault(fold(name), []).append(member.name)
        for role, roles in _ROLES.items():
            holders = [member.name for member in self.members if roles & frozenset(member.roles)]
            if role not in found and holders:
                found[role] = holders
        return {name: tuple(dict.fromkeys(members)) for name, members in found.items() if name}

    def having(self, *roles: Role) -> tuple[str, ...]:
        """The members with one of the roles."""
        return tuple(member.name for member in self.members if frozenset(roles) & frozenset(member.roles))

    def near(self, word: str) -> tuple[str, ...]:
        """The members whose name is one slip away from a word; never one in other letters that look alike."""
        folded = fold(word)
        close = (
            members
            for name, members in self.names.items()
            if len(name) >= _SHORTEST_NEAR
            and (folded.isascii() or not name.isascii())
            and _is_one_slip(folded, name)
        )
        return tuple(dict.fromkeys(member for members in close for member in members))


def fold(text: str) -> str:
    """Text in lower case, as long as before. A letter that only looks like another's other case stays itself."""
    if text.isascii():
        return text.lower()
    return "".join(char.lower() if _has_pair(char) else char for char in text)


def _has_pair(char: str) -> bool:
    lower = char.lower()
    return len(lower) == 1 and lower.upper() == char


def _is_one_slip(one: str, other: str) -> bool:
    """True when one letter was left out, put in, mistaken, or two neighbours changed places."""
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    short, long = sorted((one, other), key=len)
    at = next((i for i, char in enumerate(short) if char != long[i]), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at + 1 : at + 2] + short[at : at + 1]
    return short[at + 1 :] == long[at + 1 :] or (
        swapped == long[at : at + 2] and short[at + 2 :] == long[at + 2 :]
    )
