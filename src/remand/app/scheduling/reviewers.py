"""Whom to ask, among the members that can be started, for a review or a decision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from remand.app.scheduling.staff import Load, rotated
from remand.domain.events import Purpose
from remand.domain.roles import Member, Role, Team
from remand.domain.scopes import outside, scope
from remand.domain.task import Status, Task

_REVIEWS = (Role.LEAD, Role.TESTER)

Changed = Callable[[], Collection[str] | None]
"""The paths that the submission changes; None when that is not known. Asked only of whom it matters for."""


def reviewer_for(
    task: Task,
    team: Team,
    changed: Changed,
    load: Load,
    *,
    kept_away: Collection[str] = (),
    after: str = "",
) -> Member | None:
    """Who is to be asked for a review now; None when a person has to look, or all who may are busy.

    Whom somebody has asked for by name is the only one asked. Else it is the one with least to do, in turn after the
    one who was asked last. `kept_away` are those who are locked out of a task that this one was cut from.
    """
    if task.status != Status.PROVISIONAL or task.submission is None or _has_run(task, Purpose.REVIEW):
        return None
    found = able_reviewers(task, team, changed, kept_away)
    if task.requested:
        found = [member for member in found if _is_one_of(member, task.requested)]
    return _freest(team, found, load, after)


def able_reviewers(task: Task, team: Team, changed: Changed, kept_away: Collection[str] = ()) -> list[Member]:
    """The members that can be started, and whose word on the whole submission would count."""
    barred = {*task.authors, *task.holders, *kept_away, *(lockout.agent for lockout in task.lockouts)}
    return [
        member
        for member in team.members
        if member.command
        and any(role in _REVIEWS for role in member.roles)
        and not _is_one_of(member, barred)
        and _reaches(team, member, changed)
    ]


def director_for(task: Task, team: Team, load: Load, *, after: str = "") -> Member | None:
    """Who is to be asked for a decision now; None when nothing waits for one, or a person has to answer."""
    filed = task.filed
    is_waiting = task.status == Status.BLOCKED and filed is not None and not filed.decision
    if filed is None or not is_waiting or _has_run(task, Purpose.DIRECT):
        return None
    return _freest(team, able_directors(task, team), load, after)


def able_directors(task: Task, team: Team) -> list[Member]:
    """The members that can be started, and may decide on the last rejection of a task."""
    barred = {lockout.agent for lockout in task.lockouts} | ({task.filed.agent} if task.filed else set())
    return [
        member
        for member in team.members
        if member.command and Role.DIRECTOR in member.roles and not _is_one_of(member, barred)
    ]


def _has_run(task: Task, purpose: Purpose) -> bool:
    return any(run.purpose == purpose for run in task.runs)


def _is_one_of(member: Member, names: Iterable[str]) -> bool:
    """True when one of the names is the member's, whichever of its own it is."""
    return not {member.name, *member.aliases, *member.accounts}.isdisjoint(names)


def _reaches(team: Team, member: Member, changed: Changed) -> bool:
    actor = team.actor(member.name)
    if not scope(actor):
        return True
    paths = changed()
    return paths is not None and not outside(actor, paths)


def _freest(team: Team, members: Collection[Member], load: Load, after: str) -> Member | None:
    """Of some members the one with least to do; among equals the next in the team's order."""
    free = [one for one in rotated(team.members, after) if one in members and load.has_room(one)]
    return min(free, key=lambda member: load.runs.get(member.name, 0), default=None)
