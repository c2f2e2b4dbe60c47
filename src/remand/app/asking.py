"""What comes through a door, and what is answered."""

from __future__ import annotations

from typing import Union

import msgspec

from remand.domain import commands as c
from remand.domain.events import Event
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.roles import Team
from remand.domain.task import Task


class Request(Record, kw_only=True):
    """An ask, who asks, and the key under which it may be repeated."""

    ask: Union[c.ASKS]  # type: ignore[valid-type]  # noqa: UP007 - built from a tuple
    actor: str
    confined: bool = False
    key: str = ""
    branch: str = ""
    """The branch checked out where it was asked."""


class Accepted(Record, kw_only=True):
    """What followed from an ask: its events (none when it was so already) and the task afterwards."""

    events: tuple[Event, ...]
    task: Task


Answer = Accepted | Refused


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The team and its policy, as the configuration has them now."""

    team: Team = Team()
    policy: Policy = Policy()
    gates: tuple[str, ...] | None = None
