"""Which members can be started to work, review or direct, and how busy each is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from remand.domain.access.team import REVIEWERS, Member, Role, Team, paths_outside_scope, review_scope
from remand.domain.events.work import Purpose
from remand.domain.task import Status, Task

TEAMS = 4
"""For how many teams the startable members are cached: the scheduler asks at every tick, and a team changes seldom."""
LEAST_WAITING = 10
PER_REVIEWER = 2


class Load(NamedTuple):
    """How many runs each member has, by its name."""

    runs: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.runs.values())

    def free_capacity(self, member: Member) -> int:
        """How many more runs the member may be given."""
        return member.capacity - self.runs.get(member.name, 0)


@lru_cache(maxsize=TEAMS)
def startable_workers(team: Team) -> tuple[Member, ...]:
    """The members that can be started to work."""
    return tuple(member for member in team.members if member.command and Role.AGENT in member.roles)


@lru_cache(maxsize=TEAMS)
def max_waiting_reviews(team: Team, limit: int) -> int:
    """How many submissions may wait for review or be on their way there before nothing new is begun."""
    reviewers = sum(any(role in REVIEWERS for role in member.roles) for member in team.members)
    in_hand = sum(member.capacity for member in startable_workers(team))
    return limit or max(LEAST_WAITING, PER_REVIEWER * reviewers) + in_hand


def rotate_after(members: Sequence[Member], after: str) -> list[Member]:
    """The members in turn, beginning with the one after the last that was given something."""
    names = [member.name for member in members]
    start = names.index(after) + 1 if after in names else 0
    return [*members[start:], *members[:start]]


_REVIEWS = (Role.LEAD, Role.TESTER)

ChangedPaths = Callable[[], Collection[str] | None]
"""The paths that the submission changes; None when that is not known. Asked only of whom it matters for."""


def has_free_reviewer(team: Team, load: Load) -> bool:
    """True when somebody can be started now whose word on some submission would count."""
    return any(
        member.command and load.free_capacity(member) > 0 and any(role in _REVIEWS for role in member.roles)
        for member in team.members
    )


def choose_reviewer(
    task: Task,
    team: Team,
    changed: ChangedPaths,
    load: Load,
    *,
    kept_away: Collection[str] = (),
    after: str = "",
) -> Member | None:
    """Who is to be asked for a review now; None when a person has to look, or all who may are busy.

    Whom somebody has asked for by name is the only one asked. Else it is the one with least to do, in turn after the
    one who was asked last. `kept_away` are those who are locked out of a task that this one was split from.
    """
    if task.status != Status.PROVISIONAL or task.submission is None:
        return None
    if any(run.purpose == Purpose.REVIEW for run in task.runs):
        return None
    found = able_reviewers(task, team, changed, kept_away)
    if task.reviews.requested:
        found = [member for member in found if _is_one_of(member, task.reviews.requested)]
    return _least_busy(team, found, load, after)


def able_reviewers(
    task: Task, team: Team, changed: ChangedPaths, kept_away: Collection[str] = ()
) -> list[Member]:
    """The members that can be started, and whose word on the whole submission would count."""
    barred = {
        *task.people.authors,
        *task.people.holders,
        *kept_away,
        *(lockout.agent for lockout in task.people.lockouts),
    }
    return [
        member
        for member in team.members
        if member.command
        and any(role in _REVIEWS for role in member.roles)
        and not _is_one_of(member, barred)
        and _is_in_scope(team, member, changed)
    ]


def choose_director(task: Task, team: Team, load: Load, *, after: str = "") -> Member | None:
    """Who is to be asked for a decision now; None when nothing waits for one, or a person has to answer."""
    filed = task.rejections.last_rejection
    is_waiting = task.status == Status.BLOCKED and filed is not None and not filed.decision
    if not is_waiting or any(run.purpose == Purpose.DIRECT for run in task.runs):
        return None
    return _least_busy(team, able_directors(task, team), load, after)


def able_directors(task: Task, team: Team) -> list[Member]:
    """The members that can be started, and may decide on the last rejection of a task."""
    barred = {lockout.agent for lockout in task.people.lockouts} | (
        {task.rejections.last_rejection.agent} if task.rejections.last_rejection else set()
    )
    return [
        member
        for member in team.members
        if member.command and Role.DIRECTOR in member.roles and not _is_one_of(member, barred)
    ]


def _is_one_of(member: Member, names: Iterable[str]) -> bool:
    """True when one of the names is the member's, whichever of its own it is."""
    return not {member.name, *member.aliases, *member.accounts}.isdisjoint(names)


def _is_in_scope(team: Team, member: Member, changed: ChangedPaths) -> bool:
    actor = team.actor(member.name)
    if not review_scope(actor):
        return True
    paths = changed()
    return paths is not None and not paths_outside_scope(actor, paths)


def _least_busy(team: Team, members: Collection[Member], load: Load, after: str) -> Member | None:
    """Of some members the one with least to do; among equals the next in the team's order."""
    free = [
        member
        for member in rotate_after(team.members, after)
        if member in members and load.free_capacity(member) > 0
    ]
    return min(free, key=lambda member: load.runs.get(member.name, 0), default=None)
