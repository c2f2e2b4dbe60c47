"""A page: an address, a query that returns a record, and a template that shows it, with all foreign text escaped and made visible.

To add one, write a module beside this one with the record, the function that reads it and `PAGES`, a template that
extends `base.html`, and add the module to `site.PAGES`. Blocks whose names begin with `live_` are sent again when they
change; they must be inside an element with `sse-swap` of that name. A form is `ui.action(here, COMMAND, ID, VALUES)`;
its command must be in the module's `ACTIONS`. The browser tests visit every path in their `PATHS`.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jinja2
from markupsafe import Markup

from remand.app.requests import Rules
from remand.domain.access.team import Actor
from remand.domain.access.tokens import CALLS, Caller, TokenRole
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.text.redaction import redact
from remand.domain.text.words import format_count
from remand.interfaces.cli.output import RawJson
from remand.interfaces.http.calls import AskQuery
from remand.interfaces.http.commands import remote_commands
from remand.interfaces.http.problems import HttpProblem, problem_of_answer
from remand.wiring.open_ledger import OpenLedger

MAX_FIELDS = 50
FOLDER = Path(__file__).parent
STATIC = FOLDER.parent / "static"
MAX_LINE, MAX_SHOWN = 2000, 40_000
"""The most characters of a line, and of a text, that a page shows."""
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_KEPT = "\n\t"
LIVE_PREFIX = "live_"
"""The prefix of blocks that are sent again when they change."""
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


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
        match = re.fullmatch(pattern, path)
        return match.groupdict() if match else None


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


def show_text(value: Any) -> Any:
    """A value as templates show it: redacted, shortened, and with invisible characters made visible."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    if value.isascii() and value.isprintable() and len(value) <= MAX_LINE:
        return redact(value)
    cut = len(value) - MAX_SHOWN
    text = _ANSI.sub("", value[:MAX_SHOWN])
    text = redact("".join(map(_visible, text)))
    lines = [line if len(line) <= MAX_LINE else _cut_line(line) for line in text.split("\n")]
    return "\n".join([*lines, *([f"[cut: {cut:,} more characters]"] if cut > 0 else [])])


def escaped_text(text: str) -> str:
    """The same as HTML, for text outside templates."""
    return str(Markup.escape(show_text(text)))


def _visible(char: str) -> str:
    """A character, or its code point if it is invisible: such characters can reorder or hide others."""
    if char in _KEPT or unicodedata.category(char) not in _HIDDEN:
        return char
    return f"⟨U+{ord(char):04X}⟩"


def _cut_line(line: str) -> str:
    return f"{line[:MAX_LINE]}… [cut: {len(line) - MAX_LINE:,} more characters]"


def when(instant: str) -> Markup:
    """A time element: exact in UTC; JavaScript replaces it by the elapsed time."""
    if not instant:
        return Markup("")
    try:
        at = datetime.fromisoformat(instant)
    except ValueError:
        return Markup("{}").format(show_text(instant))
    text = f"{at.day} {at:%b %H:%M}"
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        instant, f"{at:%Y-%m-%d %H:%M:%S}", text
    )


def command_text(command: str, values: Mapping[str, Any]) -> str:
    """The command line equivalent to a form."""
    return shlex.join(remote_commands()[command].command_line(values))


def may_call(caller: Caller, command: str) -> bool:
    """Whether the caller's role may call a command."""
    return caller.role in CALLS[command]


def waiting_text(number: int) -> str:
    """The number of waiting items shown beside the inbox link; nothing for zero."""
    ui: Any = environment().globals["ui"]
    return str(ui.waiting(number))


def stale_text(address: str, mark: str) -> str:
    """Says that the page is out of date, with a link to the current one."""
    ui: Any = environment().globals["ui"]
    return str(ui.stale(address, mark))


def indented_json(value: Any) -> str:
    """Data as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@cache
def static_files() -> dict[str, bytes]:
    """All static files by name."""
    return {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in MEDIA_TYPES}


@cache
def static_address(name: str) -> str:
    """The URL of a static file, which changes with its content."""
    return f"/static/{name}?v={sha256(static_files()[name]).hexdigest()[:12]}"


@cache
def environment() -> jinja2.Environment:
    """The template environment with its filters and globals."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=show_text,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"when": when, "count": format_count, "indented": indented_json}
    made.filters["exact"] = lambda text: Markup("{}").format(Markup.escape(text))
    made.globals |= {"static": static_address, "command_text": command_text, "may_call": may_call}
    made.globals["ui"] = made.get_template("macros.html").module
    return made


def render_page(template: str, values: Mapping[str, Any]) -> str:
    """A whole page."""
    return environment().get_template(template).render(values)


def render_fragments(template: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The live fragments of a page by name."""
    found = environment().get_template(template)
    context = found.new_context(dict(values))
    return {
        name: "".join(block(context)) for name, block in found.blocks.items() if name.startswith(LIVE_PREFIX)
    }
