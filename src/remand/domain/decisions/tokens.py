"""Decisions on tokens: who may issue and revoke them, their form, and which commands a host's scheduler may give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from remand.domain.access.team import RESERVED_NAMES, USER, Actor, Role, Team, normalise_name
from remand.domain.access.tokens import (
    ANY_MEMBER,
    MACHINES,
    Caller,
    Token,
    TokenRole,
    require_held_task,
    require_started_member,
    token_roles,
)
from remand.domain.commands import (
    AssignTask,
    CheckStaff,
    Command,
    CountIdleStop,
    EndRun,
    StartRun,
)
from remand.domain.events.log import TokenCreated, TokenRevoked
from remand.domain.events.work import How
from remand.domain.ids import is_agent_name
from remand.domain.instant import Instant, add_seconds, format_time
from remand.domain.preconditions import require_user
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.task import Task

MAX_SECONDS = 366 * 86_400.0
"""The longest validity of a token: about a year."""
MAX_STARTS = 100
MAX_TOKENS = 10_000
MAX_REASON = 4000
_SYSTEM_NAMES = frozenset(RESERVED_NAMES) - {USER}


class NewToken(Record, kw_only=True):
    """A token to issue, with its id and the hash of its text."""

    token_id: str
    sha256: str
    member: str
    role: TokenRole | None = None
    """None: the member's only role."""
    starts: tuple[str, ...] = ()
    expires_at: Instant


def create_token(
    new: NewToken, actor: Actor, *, team: Team, tokens: Mapping[str, Token], now: Instant
) -> TokenCreated:
    """Issues a token. Only the user may, for anybody."""
    require_user(actor)
    if new.token_id in tokens:
        raise Refused("taken", f"Token {new.token_id} already exists.")
    if sum(token.is_valid(now) for token in tokens.values()) >= MAX_TOKENS:
        raise Refused("bad_value", f"There are {MAX_TOKENS} valid tokens. Revoke some first.")
    _require_expiry(new.expires_at, now)
    role = new.role if new.role in MACHINES else _member_role(new, team)
    return TokenCreated(
        token_id=new.token_id,
        sha256=new.sha256,
        member=_machine_name(new.member, team) if role in MACHINES else team.actor(_name(new.member)).name,
        role=role,
        starts=_startable_names(new.starts, role, team),
        expires_at=new.expires_at,
    )


def revoke_token(
    token_id: str, reason: str, actor: Actor, tokens: Mapping[str, Token]
) -> TokenRevoked | None:
    """Revokes a token, by the user or its own member; None if it is already revoked."""
    token = tokens.get(token_id)
    if token is None or not may_see_token(token, actor):
        raise Refused("unknown_token", f"There is no token {token_id[:80]} of yours.")
    return None if token.revoked_at else TokenRevoked(token_id=token_id, reason=reason[:MAX_REASON])


def may_see_token(token: Token, actor: Actor) -> bool:
    """True for the user and for the token's member."""
    return actor.is_user or (token.role not in MACHINES and token.member == actor.name)


def _require_expiry(expires_at: Instant, now: Instant) -> None:
    if expires_at <= now:
        raise Refused("bad_value", f"The token would expire at {format_time(expires_at)}, which is past.")
    if expires_at > add_seconds(now, MAX_SECONDS):
        raise Refused("bad_value", "A token is valid for at most 366 days. Give an earlier expiry.")


def _name(name: str) -> str:
    found = normalise_name(name)
    if not is_agent_name(found):
        raise Refused(
            "bad_value", f"{name[:80]!r} is not a name of up to 64 letters, digits or @ . + - _ / :"
        )
    return found


def _member_role(new: NewToken, team: Team) -> TokenRole:
    """The role that a token grants, which the member must have."""
    member = team.actor(_name(new.member))
    roles = token_roles(member)
    if not roles or member.name in _SYSTEM_NAMES:
        raise Refused("not_eligible", f"{member.name} is not on the team. Name a member of `remand.toml`.")
    named = ", ".join(roles)
    if new.role is None and len(roles) > 1:
        raise Refused("bad_value", f"{member.name} has several roles. Name one with --role: {named}.")
    if new.role is not None and new.role not in roles:
        raise Refused("not_eligible", f"{member.name} is not a {new.role}, but: {named}.")
    return new.role or roles[0]


def _machine_name(name: str, team: Team) -> str:
    """A machine's name, which must differ from all members' names so that their actions are distinguishable."""
    found = _name(name)
    if team.has_name(found):
        raise Refused("name_taken", f"{found} is a member's name; a worker or a host has one of its own.")
    return found


def _startable_names(names: Sequence[str], role: TokenRole, team: Team) -> tuple[str, ...]:
    """The members in whose names a host may call; none may be the user."""
    if role is not TokenRole.HOST:
        if names:
            raise Refused("bad_value", "Only a host's token names members to start. Add --role host.")
        return ()
    if not names or len(names) > MAX_STARTS:
        raise Refused(
            "bad_value", f"Name the members that the host may start with --starts: 1 to {MAX_STARTS}."
        )
    return tuple(dict.fromkeys(name if name == ANY_MEMBER else _startable(name, team) for name in names))


def _startable(name: str, team: Team) -> str:
    actor = team.actor(_name(name))
    if not actor.roles - {Role.USER} or actor.name in _SYSTEM_NAMES:
        raise Refused("not_eligible", f"{actor.name} is not a member that a host could start.")
    return actor.name


def require_host_command(
    caller: Caller, command: Command, task: Task | None, *, over_before: Instant = ""
) -> None:
    """Refuses a run command for a member that the host may not start, or on a task that another agent holds.

    Any host may ask whether anybody can take an unclaimed task, as the ledger alone decides that. Any host may also
    declare a run lost that began before `over_before`: its own host is gone, and the task would wait forever.
    """
    holder = task.claim.agent if task and task.claim else ""
    if isinstance(command, AssignTask | StartRun):
        require_started_member(caller, command.agent)
    elif isinstance(command, EndRun):
        run = task.find_run(command.run_id) if task else None
        if command.how == How.LOST and run is not None and run.started_at < over_before:
            return
        caller.acting_name(run.agent if run else "")
    elif isinstance(command, CountIdleStop) or (isinstance(command, CheckStaff) and holder):
        require_held_task(caller, command.task_id, holder)
    elif not isinstance(command, CheckStaff):
        raise Refused("not_authorised", "A host's scheduler does not give this command.")
