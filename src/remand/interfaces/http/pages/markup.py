"""Renders templates as HTML: all foreign text is escaped and made visible."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from remand.domain.access.tokens import CALLS, Caller
from remand.domain.text.redaction import redact
from remand.domain.text.words import format_count
from remand.interfaces.http.commands import remote_commands

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
    shown = f"{at.day} {at:%b %H:%M}"
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        instant, f"{at:%Y-%m-%d %H:%M:%S}", shown
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
