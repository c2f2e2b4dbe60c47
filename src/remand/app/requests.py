"""Requests to the ledger, their answers, and the rules for deciding them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

import msgspec

from remand.app.errors import RemandError
from remand.domain.access.agent_calls import require_environment_name
from remand.domain.access.keys import PublicKey, Trust, is_untrusted, trust_members
from remand.domain.access.team import NAMELESS_AGENT, USER, Role, Team
from remand.domain.decide import REQUESTS
from remand.domain.events.event import Event, KnownBy
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.domain.refusals import Refused, nul_refusal, require_request_form, unencodable_refusal
from remand.domain.task import Task


class Request(Record, kw_only=True):
    """A command, its actor, and its idempotency key."""

    command: Union[REQUESTS] = msgspec.field(name="ask")  # type: ignore[valid-type]  # noqa: UP007 - built from a tuple
    actor: str
    confined: bool = False
    key: str = ""
    branch: str = ""
    """The branch that was checked out where the request was made."""
    known_by: KnownBy = KnownBy.UNSAID
    """How the actor was identified; empty: by name only."""
    roles: tuple[Role, ...] | None = None
    """The actor's roles that the caller's token allows; None: all."""


class Acceptance(Record, kw_only=True):
    """The result of a command: its events (none if nothing changed) and the task afterwards."""

    events: tuple[Event, ...]
    task: Task


Answer = Acceptance | Refused


def require_answers(answers: Sequence[Answer | RemandError]) -> list[Answer]:
    """The answers; raises the first fault among them."""
    for fault in [answer for answer in answers if isinstance(answer, RemandError)]:
        raise fault
    return [answer for answer in answers if not isinstance(answer, RemandError)]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The team and its policy from the current configuration."""

    team: Team = Team()
    policy: Policy = Policy()
    gates: tuple[str, ...] | None = None
    """The names of the gates; None if the configuration has no `[gates]` table."""
    gates_digest: str = ""
    """Changes with the gates' rules."""
    is_enforced: bool = True
    base: str = ""
    """The commit at the tip of the base."""
    base_branch: str = ""
    """The name of the base."""
    project: str = ""
    """The project's id, to which signatures are bound."""
    trusted: tuple[PublicKey, ...] = ()
    """The keys trusted besides the machine's own."""
    has_keys: bool = False
    """True if the configuration has a `[keys]` table."""
    has_remote: bool = False
    """True if the repository has a remote, so that others read what is written here."""

    def trust(self, own: PublicKey | None) -> Trust:
        """The keys trusted here: a machine always trusts its own key, even if the base revokes it."""
        others = tuple(key for key in self.trusted if own is None or key.id != own.id)
        keys = (own, *others) if own else others
        return Trust(project=self.project, keys=keys, members=trust_members(self.team))

    def untrusted_key_id(self, own: PublicKey | None) -> str:
        """The id of the machine's key if the base does not trust it; otherwise empty."""
        listed = {"has_keys": self.has_keys, "has_remote": self.has_remote}
        return own.id if own and is_untrusted(own.id, self.trusted, **listed) else ""


def actor_name(named: str, environment: Mapping[str, str]) -> str:
    """The actor: the named one, else the environment's, else the user.

    Inside an agent's environment, any other name is refused.
    """
    own, is_confined = environment.get("REMAND_ACTOR", ""), is_agent_environment(environment)
    if is_confined:
        require_environment_name(own, named)
    return named or own or (NAMELESS_AGENT if is_confined else USER)


def is_agent_environment(environment: Mapping[str, str]) -> bool:
    """True for the environment of an agent at work."""
    return bool(environment.get("REMAND_TASK"))


_encode = msgspec.json.Encoder().encode


_NAMES = (
    *("task_id", "handoff_id", "own_id", "agent", "branch", "commit"),
    *("depends_on", "drop_depends_on", "waits_for", "created_tasks", "aliases"),
)
"""The fields that name what a command is about; the tables they are looked up in accept no NUL."""


_NO_RECORD: dict[str, object] = {}
_NUL = b"\\u0000"
"""A NUL in JSON."""


def _has_nul(named: str | Sequence[str] | None) -> bool:
    return any("\0" in name for name in ((named,) if isinstance(named, str) else named or ()))


def require_valid_request(request: Request) -> None:
    """Refuses what cannot be recorded: lone surrogates, overlong values, invalid keys."""
    try:
        encoded = _encode(request)
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError) as error:
        raise unencodable_refusal(error) from None
    if encoded.find(_NUL) >= 0 and (
        "\0" in request.actor or any(map(_has_nul, (getattr(request.command, field, "") for field in _NAMES)))
    ):
        raise nul_refusal()
    require_request_form(getattr(request.command, "rejection", _NO_RECORD), len(encoded), request.key)


def is_valid_request(request: Request) -> bool:
    """True if the request can be recorded."""
    try:
        require_valid_request(request)
    except Refused:
        return False
    return True
