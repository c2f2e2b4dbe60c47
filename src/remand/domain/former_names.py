"""Who on a team may be somebody that is locked out under a name which the team does not have any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.names import fold
from remand.domain.roles import Member, Role, Team
from remand.domain.task import Lockout, Task

MayBe = tuple[tuple[str, str], ...]
"""Members by name, each with the name of the locked-out one that it may be."""


def note_team(task: Task, events: Sequence[e.Event], members: Sequence[str]) -> tuple[e.Event, ...]:
    """The events of a command, each lockout with the other members of the team as it is now.

    They are not the one that is locked out, whatever either will be called. That is only known while it is on the team
    itself; later on, what was known of its first lockout goes on to further ones.
    """
    return tuple(
        _with_team(task, event, members) if isinstance(event, e.LockoutSet) else event for event in events
    )


def _with_team(task: Task, event: e.LockoutSet, members: Sequence[str]) -> e.LockoutSet:
    if event.agent in members:
        return replace(event, team=tuple(sorted(name for name in members if name != event.agent)))
    known = next((lockout.team for lockout in task.lockouts if lockout.agent == event.agent), ())
    return replace(event, team=event.team or known)


def may_be(team: Team, lockouts: Iterable[Lockout], has_part: Callable[[str], bool]) -> MayBe:
    """The members who came after a locked-out one had left: each may be the same under a new name.

    The user says which it is: `aliases` of the member, or `former` of the team. Where a lockout does not tell who was
    there, those count as others who `has_part` says have a part in a task.
    """
    if not team.members:
        return ()
    gone = [lockout for lockout in lockouts if not team.has_name(lockout.agent)]
    return tuple(
        (member.name, lockout.agent)
        for lockout in gone
        for member in team.members
        if Role.USER not in member.roles and not _was_there(member, lockout, has_part)
    )


def _was_there(member: Member, lockout: Lockout, has_part: Callable[[str], bool]) -> bool:
    names = (member.name, *member.aliases, *member.accounts)
    if not lockout.team:
        return any(map(has_part, names))
    return not {fold(name) for name in lockout.team}.isdisjoint(map(fold, names))
