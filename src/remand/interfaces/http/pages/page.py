"""A page: an address, a query that returns a record, and a template that shows it.

To add one, write a module beside this one with the record, the function that reads it and `PAGES`, a template that
extends `base.html`, and add the module to `site.PAGES`. Blocks whose names begin with `live_` are sent again when they
change; they must be inside an element with `sse-swap` of that name. A form is `ui.action(here, COMMAND, ID, VALUES)`;
its command must be in the module's `ACTIONS`. The browser tests visit every path in their `PATHS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from remand.app.requests import Rules
from remand.domain.access.team import Actor
from remand.domain.access.tokens import Caller, TokenRole
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.interfaces.cli.output import RawJson
from remand.interfaces.http.calls import AskQuery
from remand.interfaces.http.problems import HttpProblem, problem_of_answer
from remand.wiring.open_ledger import OpenLedger

MAX_FIELDS = 50


class PageQuery:
    """A page's access to the ledger, as the caller who opens it. Used in one thread."""

    def __init__(self, opened: OpenLedger, ask: AskQuery, caller: Caller, address: PageAddress) -> None:
        self.opened = opened
        self.caller = caller
        self.address = address
        self._ask = ask

    def ask(self, command: str, /, **values: Any) -> Any:
        """The `--json` output of a query of the command line. Raises `HttpProblem` with its refusal."""
        data = self._ask(command, **values)
        data = json.loads(data) if isinstance(data, RawJson) else data
        problem = problem_of_answer(data, command)
        if problem is not None:
            raise HttpProblem(problem["status"], problem["code"], problem["detail"])
        return data

    @property
    def is_user(self) -> bool:
        return self.caller.role is TokenRole.USER

    @property
    def now(self) -> Instant:
        return self.opened.ledger.clock.now()

    @cached_property
    def rules(self) -> Rules:
        return self.opened.settings.rules()

    @property
    def actor(self) -> Actor:
        """The caller, with no more roles than the session has."""
        actor = self.rules.team.actor(self.caller.acting_name(), confined=self.caller.is_confined)
        roles = self.caller.roles_as(actor.name)
        return actor if roles is None else actor.limit(roles)


class PageAddress(NamedTuple):
    """A requested address: the path, its parameters and the query."""

    path: str
    names: Mapping[str, str] = {}
    query: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    def with_values(self, **values: str) -> str:
        """The same page with other values in its query; empty values are removed."""
        query = {name: value for name, value in ({**self.query, **values}).items() if value}
        return f"{self.path}?{urlencode(query)}" if query else self.path


class WebPage(NamedTuple):
    """A page of the server."""

    path: str
    """In Litestar's syntax: `/tasks/{task:str}`."""
    template: str
    """Empty: `read` returns a text, which is sent as a file."""
    title: str
    command: str
    """The page is visible to whoever may call this command."""
    read: Callable[[PageQuery], Any]
    """Returns the record that the template shows as `view`."""
    nav: str = ""
    """Its label in the navigation; empty: not in the navigation."""
    key: str = ""
    """The key that opens it after `g`."""
    is_long: bool = False
    """Whether it runs other programs, so that other pages must not wait for it."""
    is_live: bool = True
    """Whether it updates itself while open; otherwise it only says when it is out of date."""
    is_lasting: bool = False
    """Whether its content never changes."""

    @property
    def is_watched(self) -> bool:
        """True for a page that does not update itself but says when it is out of date."""
        return bool(self.template) and not self.is_live and not self.is_lasting

    def match(self, path: str) -> dict[str, str] | None:
        """The parameters in a path; None if the path belongs to another page."""
        pattern = re.sub(r"\\\{(\w+):str\\\}", r"(?P<\1>[^/]+)", re.escape(self.path))
        found = re.fullmatch(pattern, path)
        return found.groupdict() if found else None


def parse_address(page: WebPage, target: str) -> PageAddress | None:
    """The address for a target; None if the target belongs to another page."""
    parts = urlsplit(target)
    names = page.match(parts.path)
    if names is None or parts.netloc or parts.scheme:
        return None
    return PageAddress(parts.path, names, parse_query(parts.query))


def parse_query(query: str) -> dict[str, str]:
    """The values of a query by name; the last one if repeated."""
    try:
        return dict(parse_qsl(query, max_num_fields=MAX_FIELDS))
    except ValueError:
        return {}
