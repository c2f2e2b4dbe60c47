"""Requests to the ledger, their answers, and the rules they are decided by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

import msgspec

from remand.app.errors import EnvironmentFault
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
    """A command, who gives it, and the key under which it may be repeated."""

    command: Union[REQUESTS] = msgspec.field(name="ask")  # type: ignore[valid-type]  # noqa: UP007 - built from a tuple
    actor: str
    confined: bool = False
    key: str = ""
    branch: str = ""
    """The branch checked out where it was given."""
    known_by: KnownBy = KnownBy.UNSAID
    """How it is known who gives it; empty: by their own word."""
    roles: tuple[Role, ...] | None = None
    """Which of the actor's roles the caller's token lets it use; None: all."""


class Acceptance(Record, kw_only=True):
    """What followed from a command: its events (none when it was so already) and the task afterwards."""

    events: tuple[Event, ...]
    task: Task


Answer = Acceptance | Refused


def require_answers(answers: Sequence[Answer | EnvironmentFault]) -> list[Answer]:
    """The answers; raises the first fault that stands in the place of one."""
    found: list[Answer] = []
    for answer in answers:
        if isinstance(answer, EnvironmentFault):
            raise answer
        found.append(answer)
    return found


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The team and its policy, as the configuration has them now."""

    team: Team = Team()
    policy: Policy = Policy()
    gates: tuple[str, ...] | None = None
    """The names of the gates; None when the configuration has no `[gates]` table."""
    gates_digest: str = ""
    """Changes when the gates' rules do."""
    is_enforced: bool = True
    base: str = ""
    """The commit at the tip of the base."""
    base_branch: str = ""
    """The name of the base."""
    project: str = ""
    """The project's id, which signatures are bound to."""
    trusted: tuple[PublicKey, ...] = ()
    """Whose signatures count besides the machine's own."""
    has_keys: bool = False
    """True when the configuration has a `[keys]` table."""
    has_remote: bool = False
    """True when the repository has a remote: others read what is written here."""

    def trust(self, own: PublicKey | None) -> Trust:
        """Whose signatures count here: a machine always trusts its own key, wherever the base says that it ends."""
        others = tuple(key for key in self.trusted if own is None or key.id != own.id)
        keys = (own, *others) if own else others
        return Trust(project=self.project, keys=keys, members=trust_members(self.team))

    def untrusted_key_id(self, own: PublicKey | None) -> str:
        """The id of the machine's key, if the base does not trust it; empty when it does."""
        listed = {"has_keys": self.has_keys, "has_remote": self.has_remote}
        return own.id if own and is_untrusted(own.id, self.trusted, **listed) else ""


def actor_name(named: str, environment: Mapping[str, str]) -> str:
    """Who acts: whoever is named, else the environment's actor, else the user.

    Refuses another name inside an agent's environment.
    """
    own, is_confined = environment.get("REMAND_ACTOR", ""), is_agent_environment(environment)
    if is_confined:
        require_environment_name(own, named)
    return named or own or (NAMELESS_AGENT if is_confined else USER)


def is_agent_environment(environment: Mapping[str, str]) -> bool:
    """True when an environment is that of an agent at work."""
    return bool(environment.get("REMAND_TASK"))


_encode = msgspec.json.Encoder().encode


_NAMES = (
    *("task_id", "handoff_id", "own_id", "agent", "branch", "commit"),
    *("depends_on", "drop_depends_on", "waits_for", "created_tasks", "aliases"),
)
"""The fields that tell what a command is about: they are looked up in tables that hold no NUL."""


_NO_RECORD: dict[str, object] = {}
_NUL = b"\\u0000"
"""How JSON writes a NUL."""


def _has_nul(named: str | Sequence[str] | None) -> bool:
    return any("\0" in name for name in ((named,) if isinstance(named, str) else named or ()))


def require_valid_request(request: Request) -> None:
    """Refuses what could not be written down: half characters, too much of it, a key that is none."""
    try:
        encoded = _encode(request)
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError) as error:
        raise unencodable_refusal(error) from None
    if _NUL in encoded and (
        "\0" in request.actor or any(map(_has_nul, (getattr(request.command, field, "") for field in _NAMES)))
    ):
        raise nul_refusal()
    require_request_form(getattr(request.command, "rejection", _NO_RECORD), len(encoded), request.key)


def is_valid_request(request: Request) -> bool:
    """True when the request can be written down."""
    try:
        require_valid_request(request)
    except Refused:
        return False
    return True
