"""Who is on the team, under which names, and what each role may do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property

from msgspec.structs import replace

from remand.domain.names import fold, looks, parents
from remand.domain.record import Record

USER = "user"
COORDINATOR = "coordinator"


class Role(StrEnum):
    """What a member may be. A lead and a tester are reviewers with a scope; the user may do everything."""

    AGENT = "agent"
    LEAD = "lead"
    TESTER = "tester"
    DIRECTOR = "director"
    USER = "user"
    COORDINATOR = "coordinator"


_MANY = 10_000
RESERVED = (USER, COORDINATOR, Role.DIRECTOR.value)
"""The names that the system itself uses."""
REVIEWERS = frozenset({Role.LEAD, Role.TESTER, Role.USER})


class Actor(Record, kw_only=True):
    """Who asks: a member's own name, its roles, and whether it speaks from inside an agent's environment."""

    name: str
    roles: frozenset[Role] = frozenset()
    skills: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()
    """What a reviewer's word is limited to; none: everything."""
    confined: bool = False

    @property
    def is_user(self) -> bool:
        """True for the user, speaking from outside of every agent's environment."""
        return Role.USER in self.roles and not self.confined

    def has(self, *roles: Role) -> bool:
        """True when the actor has one of the roles."""
        return any(role in self.roles for role in roles)


class Member(Record, kw_only=True):
    """One member of the team, as `remand.toml` names it."""

    name: str
    roles: tuple[Role, ...] = (Role.AGENT,)
    skills: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    capacity: int = 1


class Team:
    """The members, looked up by any of their names. Without members any name is an agent and `user` the user."""

    def __init__(
        self, members: tuple[Member, ...] = (), former: tuple[str, ...] = (), on_task: tuple[str, ...] = ()
    ) -> None:
        self.members = members
        self.former = former
        """The names of members who have left: nobody on the team is one of them."""
        self._on_task = on_task
        """Without members: the names that are known on a task."""
        self._actors: dict[tuple[str, bool], Actor] = {}

    @cached_property
    def _by_name(self) -> dict[str, Member]:
        names = {name: member for member in self.members for name in (*member.aliases, *member.accounts)}
        return names | {member.name: member for member in self.members}

    @cached_property
    def _by_fold(self) -> dict[str, str]:
        """The first name of those that are spellings of one another; a member's own name comes before others'."""
        names = (
            *RESERVED,
            *reversed((*self._on_task, *(member.name for member in self.members), *self._by_name)),
        )
        return {fold(name): name for name in names}

    @cached_property
    def _looks(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(looks(name)) for name in (*self._by_name, *self.former, *RESERVED)}

    def known_as(self, name: str) -> str:
        """The name of the team, of the task or of the system's own that a spelling means; empty when it means none.

        What follows a slash tells one of several at work under a member's name.
        """
        found = self._spelt(name)
        return found or next(filter(None, map(self._spelt, parents(name))), "")

    def _spelt(self, name: str) -> str:
        return name if name in self._by_name else self._by_fold.get(fold(name), "")

    def has_name(self, name: str) -> bool:
        """True for the name of a member, of a former one, or of the system's own, in any spelling."""
        return bool(self.known_as(name)) or fold(name) in map(fold, self.former)

    @cached_property
    def member_names(self) -> tuple[str, ...]:
        """The members' own names, in the team's order."""
        return tuple(member.name for member in self.members)

    def name_like(self, keys: Iterable[str], besides: str = "") -> str:
        """A name of the team or of the system's own that looks as these keys tell, and is not that member's; or none."""
        wanted, own = frozenset(keys), self._by_name.get(besides)
        alike = (name for name, found in self._looks.items() if not wanted.isdisjoint(found))
        return next((name for name in alike if own is None or self._by_name.get(name) is not own), "")

    def look_alikes(self) -> tuple[tuple[str, str], ...]:
        """The pairs of members whose names look alike, whichever of their own they are."""
        pairs = ((name, self.name_like(looks(name), name)) for name in self._by_name)
        return tuple(
            dict.fromkeys((min(pair), max(pair)) for pair in pairs if pair[1] not in ("", *RESERVED))
        )

    @cached_property
    def _the_user(self) -> Member | None:
        """The one member that is the user, whom `user` means as well; None when there is none, or more than one."""
        users = [member for member in self.members if Role.USER in member.roles]
        return users[0] if len(users) == 1 else None

    def actor(self, name: str, *, confined: bool = False) -> Actor:
        """The actor behind a name: its member's own name, roles and skills."""
        known = self._actors.get((name, confined))
        if known is None:
            known = self._actor(name, confined)
            if len(self._actors) < _MANY:
                self._actors[name, confined] = known
        return known

    def _actor(self, name: str, confined: bool) -> Actor:
        name = self.known_as(name) or name
        member = self._by_name.get(name) or (self._the_user if name == USER else None)
        if member is not None:
            return Actor(
                name=member.name,
                roles=frozenset(member.roles),
                skills=frozenset(member.skills),
                paths=member.paths,
                confined=confined,
            )
        if name == USER:
            return Actor(name=USER, roles=frozenset({Role.USER}), confined=confined)
        if self.members:
            return Actor(name=name, confined=confined)
        return Actor(name=name, roles=frozenset({Role.AGENT}), confined=confined)

    def as_known(self, names: Iterable[str]) -> Team:
        """The same team, with each member called by the first of these names that is one of its own.

        A member that was renamed is still the one that a task knows by an older name.
        """
        if not self.members:
            on_task = tuple(filter(None, names))
            return Team(on_task=on_task) if on_task else self
        called: dict[str, str] = {}
        for name in names:
            member = self._by_name.get(name) or self._by_name.get(self._by_fold.get(fold(name), ""))
            if member is not None:
                called.setdefault(member.name, name)
        if all(own == name for own, name in called.items()):
            return self
        members = tuple(_called(member, called.get(member.name, member.name)) for member in self.members)
        return Team(members, self.former)

    @property
    def has_members(self) -> bool:
        """True when there is a team; without one everyone suits every task."""
        return bool(self.members)


def _called(member: Member, name: str) -> Member:
    return (
        replace(member, name=name, aliases=(*member.aliases, member.name)) if name != member.name else member
    )


THE_COORDINATOR = Actor(name=COORDINATOR, roles=frozenset({Role.COORDINATOR}))
THE_DIRECTOR = Actor(name="director", roles=frozenset({Role.DIRECTOR}))
"""The command that the user made director. It comes through no door: only the system itself speaks for it."""
