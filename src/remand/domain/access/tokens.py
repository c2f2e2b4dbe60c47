"""Tokens: who a server's caller is, and which commands each role may call in whose name."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256

from msgspec.structs import replace

from remand.domain.access.team import (
    NAMELESS_AGENT,
    RESERVED_NAMES,
    Actor,
    Role,
    Team,
    fold_name,
    instance_member,
)
from remand.domain.events.event import Event, KnownBy
from remand.domain.events.log import MissingLines, TokenCreated, TokenRevoked
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.startup import lazy_pattern

PREFIX = "rmd_"
"""The prefix of tokens, so that leaked ones are recognised."""
ID_PREFIX = "TK-"
SECRET_BYTES = 32
ANY_MEMBER = "*"
"""As a host's startable member: all members except the user."""
MAX_TOKEN = 200
_FORM = lazy_pattern(rf"{PREFIX}([0-9]{{8}}-[0-9]{{6}}-[0-9a-f]{{8}})_[A-Za-z0-9_-]{{43}}")
_NO_HASH = "0" * 64


class TokenRole(StrEnum):
    """The role that a token grants."""

    AGENT = "agent"
    REVIEWER = "reviewer"
    DIRECTOR = "director"
    USER = "user"
    WORKER = "worker"
    """A machine that runs gates."""
    HOST = "host"
    """A machine that starts members and calls in their names."""


MEMBER_ROLES: dict[TokenRole, frozenset[Role]] = {
    TokenRole.AGENT: frozenset({Role.AGENT}),
    TokenRole.REVIEWER: frozenset({Role.LEAD, Role.TESTER}),
    TokenRole.DIRECTOR: frozenset({Role.DIRECTOR}),
    TokenRole.USER: frozenset({Role.USER, Role.DIRECTOR, Role.LEAD, Role.TESTER, Role.AGENT}),
    TokenRole.WORKER: frozenset(),
    TokenRole.HOST: frozenset({Role.AGENT, Role.LEAD, Role.TESTER, Role.DIRECTOR}),
}
"""The member's roles that a token grants; the member's other roles cannot be used with it."""
MACHINES = frozenset({TokenRole.WORKER, TokenRole.HOST})
"""Roles of machines, which are not team members."""
_NAMED_ROLE = {Role.LEAD: TokenRole.REVIEWER, Role.TESTER: TokenRole.REVIEWER}


def parse_token_role(text: str) -> TokenRole | None:
    """The role with that name; a lead and a tester are reviewers. None if there is none."""
    named = next((own for role, own in _NAMED_ROLE.items() if role == text), None)
    return named or next((role for role in TokenRole if role == text), None)


def token_roles(actor: Actor) -> tuple[TokenRole, ...]:
    """The roles for which a member can have a token."""
    return tuple(
        role
        for role in TokenRole
        if role not in MACHINES and any(_NAMED_ROLE.get(own, own) == role for own in actor.roles)
    )


_AGENT, _REVIEWER, _DIRECTOR, _USER, _WORKER, _HOST = (frozenset({role}) for role in TokenRole)
_MEMBERS = _AGENT | _REVIEWER | _DIRECTOR | _USER | _HOST
_PEOPLE = _REVIEWER | _DIRECTOR | _USER
_NOBODY: frozenset[TokenRole] = frozenset()

_BY_ROLES: tuple[tuple[frozenset[TokenRole], str], ...] = (
    (_MEMBERS, """
        task list, task show, task ready, handoff status, gate history, gate report, gate wait, review list, review diff,
        escalate, lockout list, why, whoami, explain, inbox, log tail"""),
    (_AGENT | _USER | _HOST, """
        task claim, task prompt, task submit, task heartbeat, task release, task continue, task wait, task fail,
        handoff accept, handoff complete, handoff reject, handoff appeal, commit upload, hook relay"""),
    (_AGENT | _REVIEWER | _USER | _HOST, """
        review request, review approve, review reject, review retract, reject-task"""),
    (_AGENT | _DIRECTOR | _USER | _HOST, "handoff rejection-response"),
    (_PEOPLE, """
        task add, handoff initiate, reassign, say, log digest, graph stats, graph export, analyze rejections,
        analyze rework, analyze runs, analyze integrity, audit, gate examine, simulate, journal, token list, token revoke,
        inbox retract"""),
    (_PEOPLE | _WORKER, "gate check"),
    (_REVIEWER | _USER, "gate accept, gate refuse"),
    (_DIRECTOR | _USER, "task edit, task cancel, task reopen, task defer, handoff consult"),
    (_USER, """
        task import, sync, unlock, inbox answer, inbox ack, notify, gate run, gate override, pause, resume, keys,
        log verify, log publish, token create, doctor"""),
    (_WORKER | _HOST | _USER, "commit fetch"),
    (_HOST | _USER, "run members"),
    (_NOBODY, """
        init, demo, keys trust, keys revoke, keys request, keys adopt, hook, top, solo on, solo off,
        solo status, log rebuild, log repair, log import, log archive, log move, mcp, completion, run, coordinator status, coordinator stop,
        serve, worker"""),
)  # fmt: skip
CALLS: dict[str, frozenset[TokenRole]] = {
    name.strip(): roles for roles, names in _BY_ROLES for name in names.split(",")
}
"""Who may call which command of a server. Agents may call what their sockets permit; commands without a role run only locally.

The rules of the ledger apply as well, with the roles that the token grants.
"""


class Token(Record, kw_only=True):
    """An issued token without its secret."""

    id: str
    sha256: str
    member: str
    role: TokenRole
    starts: tuple[str, ...] = ()
    created_at: Instant
    created_by: str
    expires_at: Instant
    revoked_at: Instant = ""

    def is_valid(self, now: Instant) -> bool:
        """True while it counts."""
        return not self.revoked_at and now < self.expires_at


class Caller(Record, kw_only=True):
    """An authenticated caller of the server."""

    member: str
    role: TokenRole
    starts: tuple[str, ...] = ()
    """For a host: the members in whose names it may call."""
    token_id: str = ""
    """The token's id; empty for a person who logged in."""

    @property
    def is_confined(self) -> bool:
        """True for a caller with the rights of an agent's environment, without any of the user's."""
        return self.role in (TokenRole.AGENT, *MACHINES)

    def acting_name(self, named: str = "") -> str:
        """The name under which the caller acts, given the name in the call; refuses others' names.

        The user may act under another name, as on their own machine; that is then recorded as by their word only.
        """
        found = self._own_name(named) if named else self.member
        if not found:
            raise Refused(
                "not_yours", f"This token is {self.member}'s; it cannot be used to act as anyone else."
            )
        return found

    def may_act_for(self, holder: str, team: Team) -> bool:
        """True if the caller may act as a task's holder, under any name of the member that the task knows."""
        names = {team.actor(name).name for name in (self.member, *self.starts)}
        return bool(holder) and (holder in names or bool(self._own_name(holder)))

    def _own_name(self, named: str) -> str:
        """The name under which the caller acts; empty if it may not use the given one. An unnamed agent is the token's member."""
        is_nameless = named == NAMELESS_AGENT and self.role not in (TokenRole.USER, *MACHINES)
        if is_nameless or fold_name(named) == fold_name(self.member):
            return self.member
        if self.role is TokenRole.USER or self._may_start(named):
            return named
        is_instance = fold_name(instance_member(named)) == fold_name(self.member)
        return self.member if is_instance and self.role not in MACHINES else ""

    def _may_start(self, name: str) -> bool:
        own = {fold_name(one) for one in self.starts}
        is_named = not own.isdisjoint({fold_name(name), fold_name(instance_member(name) or name)})
        is_any = ANY_MEMBER in own and fold_name(name) not in RESERVED_NAMES
        return self.role is TokenRole.HOST and (is_named or is_any)

    def known_by(self, name: str) -> KnownBy:
        """How the actor is identified."""
        is_own = fold_name(name) == fold_name(self.member) or self.role is TokenRole.HOST
        return KnownBy.TOKEN if is_own else KnownBy.WORD

    def roles_as(self, name: str) -> tuple[Role, ...] | None:
        """The roles usable under a name; None: all of its member's, as the user vouches for it."""
        if self.role is TokenRole.USER and fold_name(name) != fold_name(self.member):
            return None
        is_machine = self.role is TokenRole.HOST and fold_name(name) == fold_name(self.member)
        return () if is_machine else tuple(sorted(MEMBER_ROLES[self.role]))


def require_call(caller: Caller, command: str) -> None:
    """Refuses a command that the caller's role may not call, before anything is looked up."""
    allowed = CALLS.get(command, _NOBODY)
    if caller.role in allowed:
        return
    if not allowed:
        raise Refused(
            "not_authorised", "This command is not available on a server. Run it on the machine itself."
        )
    if allowed == _USER:
        raise Refused("user_only", f"Only the user may call `remand {command}`.")
    names = ", ".join(role for role in TokenRole if role in allowed)
    raise Refused("not_authorised", f"`remand {command}` needs a token of one of the roles {names}.")


def require_held_task(caller: Caller, task_id: str, holder: str) -> None:
    """Refuses commits for a task that the caller does not hold. The user may upload them for any task."""
    if caller.role is TokenRole.USER:
        return
    if not holder:
        raise Refused("not_yours", f"Nobody holds {task_id}, so the server accepts no commits for it.")
    caller.acting_name(holder)


def require_started_member(caller: Caller, name: str) -> None:
    """Refuses a run of a member that the caller may not start."""
    caller.acting_name(name)
    if not name or (caller.role in MACHINES and fold_name(name) == fold_name(caller.member)):
        raise Refused("not_yours", "Name a member that this token may start.")


def own_session_claims(caller: Caller, claims: Iterable[str]) -> tuple[str, ...]:
    """The tasks that a session claims to hold, each with its agent after a space; refuses those of other members."""
    split = (line.partition(" ") for line in claims)
    return tuple(f"{task} {caller.acting_name(agent)}" if agent else task for task, _, agent in split)


def fold_tokens(events: Iterable[Event]) -> dict[str, Token]:
    """The tokens issued by events. A revocation is final, in whichever order the events come."""
    found: dict[str, Token] = {}
    revoked: dict[str, Instant] = {}
    for event in events:
        if isinstance(event, TokenRevoked):
            revoked.setdefault(event.token_id, event.ts)
        elif isinstance(event, TokenCreated) and (role := parse_token_role(event.role)) is not None:
            token = Token(
                id=event.token_id,
                sha256=event.sha256,
                member=event.member,
                role=role,
                starts=event.starts,
                created_at=event.ts,
                created_by=event.meta.actor,
                expires_at=event.expires_at,
            )
            found.setdefault(event.token_id, token)
    return {
        name: replace(token, revoked_at=revoked[name]) if name in revoked else token
        for name, token in found.items()
    }


def token_text(token_id: str, secret: str) -> str:
    """The token as shown once to its holder."""
    return f"{PREFIX}{token_id.removeprefix(ID_PREFIX)}_{secret}"


def token_hash(text: str) -> str:
    """The stored hash of a token. Tokens are random, so a plain hash cannot be reversed by guessing."""
    return sha256(text.encode()).hexdigest()


def parse_token_id(text: str) -> str:
    """The id in a well-formed token; empty otherwise."""
    form = _FORM.fullmatch(text) if len(text) <= MAX_TOKEN else None
    return f"{ID_PREFIX}{form[1]}" if form else ""


def find_token(tokens: Mapping[str, Token], text: str, now: Instant) -> Token:
    """The token that a caller presented; refuses an invalid one with the same message for every reason."""
    token_id = parse_token_id(text)
    token = tokens.get(token_id)
    digest = token_hash(text if token_id else "")
    is_same = hmac.compare_digest(digest, token.sha256 if token else _NO_HASH)
    return require_valid_token(token if is_same else None, now)


def require_valid_token(token: Token | None, now: Instant) -> Token:
    """The token if it is valid; refuses a missing, expired or revoked one."""
    if token is None or not token.is_valid(now):
        raise unauthenticated_refusal()
    return token


def require_member(caller: Caller, team: Team) -> Caller:
    """The logged-in person, if still a team member with that role."""
    if caller.role not in token_roles(team.actor(caller.member)):
        raise unauthenticated_refusal()
    return caller


def require_whole_token_log(missing: Sequence[MissingLines]) -> None:
    """Refuses every token while lines about tokens are missing, as one of them may revoke it."""
    if missing:
        raise Refused(
            "lines_missing",
            f"No token counts while {missing[0].description}: it may be a revocation. `remand log verify` shows more.",
        )


def token_caller(token: Token, team: Team) -> Caller:
    """The current caller for a token; refuses it if the member has left the team or lost the role."""
    if token.role in MACHINES:
        others = (member.name for member in team.members if Role.USER not in member.roles)
        is_any = ANY_MEMBER in token.starts and team.has_members
        starts = tuple(others) if is_any else token.starts
        return Caller(member=token.member, role=token.role, starts=starts, token_id=token.id)
    actor = team.actor(token.member)
    if token.role not in token_roles(actor):
        raise unauthenticated_refusal()
    return Caller(member=actor.name, role=token.role, token_id=token.id)


class OpenIdAccount(Record, kw_only=True):
    """A person's account at an OpenID Connect provider."""

    subject: str
    email: str = ""
    """Empty unless the provider has verified it."""


OPENID = "oidc:"
"""The prefix of provider accounts among a member's accounts."""
_LOG_IN_ROLES = (TokenRole.USER, TokenRole.REVIEWER, TokenRole.DIRECTOR)


def account_caller(account: OpenIdAccount, team: Team, role: TokenRole | None = None) -> Caller:
    """The caller for a logged-in person, in the first or the requested role; refuses strangers.

    An account with an @ is an e-mail address and matches only a verified one, so that nobody gains access by choosing a
    user name.
    """
    own = {f"{OPENID}{account.subject}"} if "@" not in account.subject else set()
    mail = f"{OPENID}{account.email}".casefold() if "@" in account.email else ""
    for member in team.members:
        if own & set(member.accounts) or (mail and mail in map(str.casefold, member.accounts)):
            roles = token_roles(team.actor(member.name))
            token_role = next((one for one in _LOG_IN_ROLES if one in roles and role in (None, one)), None)
            if token_role is not None:
                return Caller(member=member.name, role=token_role)
    raise unauthenticated_refusal()


def unauthenticated_refusal() -> Refused:
    """The refusal of an unknown caller. It does not say what is wrong, which would only help guessing."""
    return Refused(
        "not_authenticated",
        "The server does not know who is calling: no token was sent, or it is not valid here, has expired or was revoked.",
    )


def rate_refusal(seconds: float) -> Refused:
    """The refusal of a caller that calls, or fails to log in, too often."""
    return Refused("too_many_calls", f"Too many calls. Call again in {max(1, round(seconds))} s.")
