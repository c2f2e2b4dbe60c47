"""Who can be started, and how much each has to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from remand.domain.roles import REVIEWERS, Member, Role, Team

TEAMS = 4
"""How many teams it is remembered of who can be started: it is asked at every look, and a team changes seldom."""
LEAST_WAITING = 10
PER_REVIEWER = 2


class Load(NamedTuple):
    """How many runs each member has, by its name."""

    runs: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many tasks all of them have in hand."""
        return sum(self.runs.values())

    def room(self, member: Member) -> int:
        """How many more the member may be given."""
        return member.capacity - self.runs.get(member.name, 0)

    def has_room(self, member: Member) -> bool:
        """True when the member may be given one more."""
        return self.room(member) > 0


@lru_cache(maxsize=TEAMS)
def workers(team: Team) -> tuple[Member, ...]:
    """The members that can be started to work."""
    return tuple(member for member in team.members if member.command and Role.AGENT in member.roles)


@lru_cache(maxsize=TEAMS)
def most_waiting(team: Team, limit: int) -> int:
    """How many submissions may wait for review or be on their way there before nothing new is begun."""
    reviewers = sum(any(role in REVIEWERS for role in member.roles) for member in team.members)
    in_hand = sum(member.capacity for member in workers(team))
    return limit or max(LEAST_WAITING, PER_REVIEWER * reviewers) + in_hand


def rotated(members: Sequence[Member], after: str) -> list[Member]:
    """The members in turn, beginning with the one after the last that was given something."""
    names = [member.name for member in members]
    start = names.index(after) + 1 if after in names else 0
    return [*members[start:], *members[:start]]
