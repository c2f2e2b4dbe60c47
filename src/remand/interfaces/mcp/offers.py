"""What is offered to whom. Offering is a courtesy: what a member may not do is refused when it is done all the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple

from mcp.types import ToolAnnotations

from remand.domain.roles import REVIEWERS, Role
from remand.interfaces.mcp.desk import Desk, Failed

USER_PRESENT = {"anthropic/requiresUserInteraction": True}
"""Has a host ask the user before it lets a model call the tool."""


class For(Enum):
    """Whom something is for."""

    ALL = auto()
    AGENTS = auto()
    REVIEWERS = auto()
    DIRECTORS = auto()
    USER = auto()


class Offer(NamedTuple):
    """One tool: what it does is said by its docstring."""

    do: Callable[..., Any]
    title: str
    whom: For
    reads: bool = False
    """True when it changes nothing."""
    repeats: bool = False
    """True when doing it again changes nothing more."""
    destroys: bool = False
    """True when it ends what another has done or may do."""

    @property
    def description(self) -> str:
        """What a model reads before it chooses."""
        return " ".join((inspect.getdoc(self.do) or "").split())

    @property
    def annotations(self) -> ToolAnnotations:
        """Hints for hosts."""
        return ToolAnnotations(
            title=self.title,
            read_only_hint=self.reads,
            destructive_hint=self.destroys,
            idempotent_hint=self.reads or self.repeats,
            open_world_hint=False,
        )

    @property
    def meta(self) -> dict[str, Any] | None:
        """What a host should know besides."""
        return USER_PRESENT if self.whom is For.USER else None


class Who(NamedTuple):
    """Whom this server speaks for."""

    name: str = ""
    roles: frozenset[str] = frozenset()
    is_confined: bool = False
    task: str = ""

    @property
    def is_user(self) -> bool:
        """True for the user outside of every agent's environment."""
        return Role.USER in self.roles and not self.is_confined

    def may_see(self, whom: For) -> bool:
        """True when something is of use to this member. Who has no role yet is told so by an agent's tools."""
        match whom:
            case For.ALL:
                return True
            case For.AGENTS:
                return Role.AGENT in self.roles or not self.roles
            case For.REVIEWERS:
                return bool(self.roles & REVIEWERS)
            case For.DIRECTORS:
                return Role.DIRECTOR in self.roles or self.is_user
            case For.USER:
                return self.is_user


class Identity:
    """Whom a server speaks for, as the team has it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: Who | None = None

    async def now(self) -> Who:
        """Looked up again; nobody when that cannot be told."""
        try:
            found = (await self._desk.call("whoami")).data
        except Failed:
            return Who()
        if not isinstance(found, dict) or "name" not in found:
            return Who()
        self._known = Who(found["name"], frozenset(found["roles"]), found["confined"], found["task"] or "")
        return self._known

    async def lately(self) -> Who:
        """As it was looked up last: what a member may do is not decided by it."""
        return self._known or await self.now()
