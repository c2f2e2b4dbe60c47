"""Tokens: whom the server takes a caller for, which commands each role may call, and as whom."""

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
"""What a token begins with, so that it is told as one wherever it should not be."""
ID_PREFIX = "TK-"
SECRET_BYTES = 32
ANY_MEMBER = "*"
"""Among the members that a host may start: all of them, but for the user."""
MAX_TOKEN = 200
_FORM = lazy_pattern(rf"{PREFIX}([0-9]{{8}}-[0-9]{{6}}-[0-9a-f]{{8}})_[A-Za-z0-9_-]{{43}}")
_NO_HASH = "0" * 64


class TokenRole(StrEnum):
    """What a token lets its holder be."""

    AGENT = "agent"
    REVIEWER = "reviewer"
    DIRECTOR = "director"
    USER = "user"
    WORKER = "worker"
    """A machine that measures."""
    HOST = "host"
    """A machine that starts members and speaks for them."""


MEMBER_ROLES: dict[TokenRole, frozenset[Role]] = {
    TokenRole.AGENT: frozenset({Role.AGENT}),
    TokenRole.REVIEWER: frozenset({Role.LEAD, Role.TESTER}),
    TokenRole.DIRECTOR: frozenset({Role.DIRECTOR}),
    TokenRole.USER: frozenset({Role.USER, Role.DIRECTOR, Role.LEAD, Role.TESTER, Role.AGENT}),
    TokenRole.WORKER: frozenset(),
    TokenRole.HOST: frozenset({Role.AGENT, Role.LEAD, Role.TESTER, Role.DIRECTOR}),
}
"""The member's roles that a token lets its holder use: whoever is more besides is not that by this token."""
MACHINES = frozenset({TokenRole.WORKER, TokenRole.HOST})
"""Roles of machines, which are no members of the team."""
_NAMED_ROLE = {Role.LEAD: TokenRole.REVIEWER, Role.TESTER: TokenRole.REVIEWER}


def parse_token_role(text: str) -> TokenRole | None:
    """The role of that name; a lead and a tester are reviewers. None when there is none."""
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
"""Who may call what of a server. An agent may call what its socket takes, and what is nobody's is done on the machine itself.

What a command decides is decided by the rules of the ledger besides, by the roles that the token gives."""


class Token(Record, kw_only=True):
    """A token that was given out, without what makes it one."""

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
    """Whom the server takes a caller for."""

    member: str
    role: TokenRole
    starts: tuple[str, ...] = ()
    """For a host: the members that it may speak for."""
    token_id: str = ""
    """What it is known by; empty for a person who logged in."""

    @property
    def is_confined(self) -> bool:
        """True for a caller that has the rights of an agent's environment, and none of the user's."""
        return self.role in (TokenRole.AGENT, *MACHINES)

    def acting_name(self, named: str = "") -> str:
        """As whom the caller acts when it names somebody, or nobody; refuses another's name.

        The user may say that a call is another's, as on their own machine: it is then known by their word alone.
        """
        found = self._own_name(named) if named else self.member
        if not found:
            raise Refused(
                "not_yours", f"This token is {self.member}'s; it cannot be used to act as anyone else."
            )
        return found

    def may_act_for(self, holder: str, team: Team) -> bool:
        """True when the caller may act as who holds a task, by whatever name of a member's the task knows them."""
        names = {team.actor(name).name for name in (self.member, *self.starts)}
        return bool(holder) and (holder in names or bool(self._own_name(holder)))

    def _own_name(self, named: str) -> str:
        """As whom the caller acts when it names somebody; empty when it may not. A nameless agent is whom the token says."""
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
        """How it is known that the actor is who it is said to be."""
        is_own = fold_name(name) == fold_name(self.member) or self.role is TokenRole.HOST
        return KnownBy.TOKEN if is_own else KnownBy.WORD

    def roles_as(self, name: str) -> tuple[Role, ...] | None:
        """The roles that may be used in a name; None: all that its member has, for the user's word stands for it."""
        if self.role is TokenRole.USER and fold_name(name) != fold_name(self.member):
            return None
        is_machine = self.role is TokenRole.HOST and fold_name(name) == fold_name(self.member)
        return () if is_machine else tuple(sorted(MEMBER_ROLES[self.role]))


def require_call(caller: Caller, command: str) -> None:
    """Refuses a command that the caller's role may not call. The table is asked before anything is looked up."""
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
    """Refuses to take commits for a task that the caller does not hold. The user may bring them for any."""
    if caller.role is TokenRole.USER:
        return
    if not holder:
        raise Refused("not_yours", f"Nobody holds {task_id}, so the server accepts no commits for it.")
    caller.acting_name(holder)


def require_started_member(caller: Caller, name: str) -> None:
    """Refuses a run of somebody whom the caller may not start: nobody, and a host itself, are no members."""
    caller.acting_name(name)
    if not name or (caller.role in MACHINES and fold_name(name) == fold_name(caller.member)):
        raise Refused("not_yours", "Name a member that this token may start.")


def own_session_claims(caller: Caller, claims: Iterable[str]) -> tuple[str, ...]:
    """The tasks that a session says it claimed, each with its agent behind a space; refuses one of another's."""
    split = (line.partition(" ") for line in claims)
    return tuple(f"{task} {caller.acting_name(agent)}" if agent else task for task, _, agent in split)


def fold_tokens(events: Iterable[Event]) -> dict[str, Token]:
    """The tokens that events, in their order, have given out. A revocation is final, whatever comes before or after it."""
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
    """The token as its holder gets it, once."""
    return f"{PREFIX}{token_id.removeprefix(ID_PREFIX)}_{secret}"


def token_hash(text: str) -> str:
    """What is kept of a token. It is random throughout, so that a plain hash cannot be guessed back."""
    return sha256(text.encode()).hexdigest()


def parse_token_id(text: str) -> str:
    """The id of what has the form of a token; empty for anything else."""
    form = _FORM.fullmatch(text) if len(text) <= MAX_TOKEN else None
    return f"{ID_PREFIX}{form[1]}" if form else ""


def find_token(tokens: Mapping[str, Token], text: str, now: Instant) -> Token:
    """The token that a caller has shown; refuses one that does not count, in the same words whatever the reason."""
    token_id = parse_token_id(text)
    token = tokens.get(token_id)
    given = token_hash(text if token_id else "")
    is_same = hmac.compare_digest(given, token.sha256 if token else _NO_HASH)
    return require_valid_token(token if is_same else None, now)


def require_valid_token(token: Token | None, now: Instant) -> Token:
    """A token that counts; refuses one that has expired or was revoked, and none."""
    if token is None or not token.is_valid(now):
        raise unauthenticated_refusal()
    return token


def require_member(caller: Caller, team: Team) -> Caller:
    """Somebody who logged in, as long as they are on the team in their role."""
    if caller.role not in token_roles(team.actor(caller.member)):
        raise unauthenticated_refusal()
    return caller


def require_whole_token_log(missing: Sequence[MissingLines]) -> None:
    """Refuses every token while lines about tokens are missing: one of them may revoke it."""
    if missing:
        raise Refused(
            "lines_missing",
            f"No token counts while {missing[0].description}: it may be a revocation. `remand log verify` shows more.",
        )


def token_caller(token: Token, team: Team) -> Caller:
    """Whom a token stands for now; refuses one of a member who has left the team, or no longer has the role."""
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
    """Who somebody is to an OpenID Connect provider."""

    subject: str
    email: str = ""
    """Empty unless the provider has verified it."""


OPENID = "oidc:"
"""What an account of the provider begins with among a member's accounts."""
_LOG_IN_ROLES = (TokenRole.USER, TokenRole.REVIEWER, TokenRole.DIRECTOR)


def account_caller(account: OpenIdAccount, team: Team, role: TokenRole | None = None) -> Caller:
    """Whom a person that logged in stands for, as their first role or the one that they want; refuses a stranger.

    What has an @ is an e-mail address and matches a verified one alone: nobody becomes somebody by choosing a user name.
    """
    own = {f"{OPENID}{account.subject}"} if "@" not in account.subject else set()
    mail = f"{OPENID}{account.email}".casefold() if "@" in account.email else ""
    for member in team.members:
        if own & set(member.accounts) or (mail and mail in map(str.casefold, member.accounts)):
            roles = token_roles(team.actor(member.name))
            found = next((one for one in _LOG_IN_ROLES if one in roles and role in (None, one)), None)
            if found is not None:
                return Caller(member=member.name, role=found)
    raise unauthenticated_refusal()


def unauthenticated_refusal() -> Refused:
    """The refusal of a caller that is not known. It says nothing of what is wrong, which only helps who guesses."""
    return Refused(
        "not_authenticated",
        "The server does not know who calls: no token was sent, or it is not valid here, has expired or was revoked.",
    )


def rate_refusal(seconds: float) -> Refused:
    """The refusal of a caller that calls, or fails to log in, too often."""
    return Refused("too_many_calls", f"Too many calls. Call again in {max(1, round(seconds))} s.")
