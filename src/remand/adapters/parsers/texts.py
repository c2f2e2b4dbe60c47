"""Texts and paths of tools, as people may be shown them."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote

from remand.domain.visible import visible

MAX_TEXT = 500
MAX_NUMBER = (1 << 31) - 1
_SCANNED = 20_000
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_BREAK = re.compile("[\\n\\t\u2028\u2029]")
_WORD = re.compile(r"[^\s()]+")
_PLACE = re.compile(r"([^:]+):([0-9]{1,9})(?::[0-9]+)?:?")
_SCHEME = "file://"
_FOREIGN = ("node_modules/", "site-packages/", "dist-packages/")


def shown(text: str, limit: int = MAX_TEXT) -> str:
    """A text without colours, control and invisible characters; of a long one the beginning."""
    text = visible(_ESCAPE.sub("", text[: 8 * limit])).strip()
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def label(text: str, limit: int = MAX_TEXT) -> str:
    """A name as one line: a path, a rule, a test's id."""
    return _BREAK.sub(" ", shown(text, limit))


def shown_end(content: bytes) -> str:
    """The end of what a command said, with whole lines where it has some."""
    text = visible(_ESCAPE.sub("", content[-8 * MAX_TEXT :].decode("utf-8", "replace"))).strip()
    if len(text) <= MAX_TEXT:
        return text
    end = text[-MAX_TEXT:]
    return end.partition("\n")[2] or end


def uncoloured(text: str) -> str:
    """A text without a terminal's escape sequences."""
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def number(value: float) -> int:
    """A line number, or another count, in the bounds of what can be kept."""
    return int(min(max(value, 0), MAX_NUMBER)) if value == value else 0  # noqa: PLR0124 - NaN differs from itself


def relative(path: str, root: str) -> str:
    """A path or file URI as it is called from the repository's root; one that lies elsewhere stays as it is."""
    if path.startswith(_SCHEME):
        path = "/" + unquote(path.removeprefix(_SCHEME)).partition("/")[2]
    path = label(path)
    if not path:
        return ""
    path = posixpath.normpath(path)
    inside = root.rstrip("/") + "/"
    return path.removeprefix(inside) if root else path


def places(text: str, root: str) -> list[tuple[str, int]]:
    """The places of the repository that a trace names as `path:line`, in its order."""
    found = []
    for word in _WORD.findall(text[:_SCANNED] + text[_SCANNED:][-_SCANNED:]):
        match = _PLACE.fullmatch(word.removeprefix(_SCHEME))
        if match and "." in match[1]:
            path = relative(match[1], root)
            if not path.startswith(("/", "..")) and not any(part in path for part in _FOREIGN):
                found.append((path, int(match[2])))
    return found
