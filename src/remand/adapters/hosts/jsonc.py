"""JSON with comments: read with the place of every value, and changed without touching the rest of the text.

Hosts accept comments in their settings, and people have a formatting of their own. What cannot be changed in place
is not changed here: the caller decides whether to write the file anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

MAX_DEPTH = 100
_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')
_CLOSING = {"{": "}", "[": "]"}

Cut = tuple[int, int, str]
"""From where to where the text is replaced, and by what."""


class NotJsonError(ValueError):
    """The text is no JSON, not even one with comments."""


class Node:
    """A value and where it stands in the text."""

    __slots__ = ("end", "items", "start", "value")

    def __init__(self, value: object, start: int, end: int, items: list[Item]) -> None:
        self.value = value
        self.start = start
        self.end = end
        self.items = items
        """The members of an object or the elements of a list, in their order."""


class Item:
    """A member of an object, or an element of a list."""

    __slots__ = ("comma", "key", "node", "start")

    def __init__(self, key: str, node: Node, start: int) -> None:
        self.key = key
        self.node = node
        self.start = start
        """Where its key begins, or its value where it has none."""
        self.comma = -1
        """Where the comma behind it stands; -1 when there is none."""


def parse(text: str) -> Node:
    """Reads a text; raises `NotJsonError`. A key that stands twice in an object is an error, too."""
    begin = 1 if text.startswith("\ufeff") else 0
    node = _value(text, _skip(text, begin), 0)
    rest = _skip(text, node.end)
    if rest != len(text):
        raise NotJsonError(f"there is more behind its end at character {rest}")
    return node


def edit(text: str, wanted: object) -> str | None:
    """The text changed so that it says `wanted`, and the rest of it as it was.

    Members and elements are taken out and plain values replaced; None when more than that would be needed.
    """
    try:
        cuts = list(_cuts(text, parse(text), wanted))
        changed = _apply(text, cuts)
        return changed if parse(changed).value == wanted else None
    except NotJsonError:
        return None


def _cuts(text: str, node: Node, wanted: object) -> Iterator[Cut]:
    if node.value == wanted:
        return
    if isinstance(node.value, dict) and isinstance(wanted, dict):
        kept = {id(item): wanted[item.key] for item in node.items if item.key in wanted}
    elif isinstance(node.value, list) and isinstance(wanted, list):
        kept = _aligned(node.items, wanted)
    else:
        yield node.start, node.end, json.dumps(wanted, ensure_ascii=False)
        return
    for item in node.items:
        if id(item) in kept:
            yield from _cuts(text, item.node, kept[id(item)])
    yield from _taken_out(text, node.items, {id(item) for item in node.items} - set(kept))


def _aligned(items: list[Item], wanted: list[object]) -> dict[int, object]:
    """Which elements stay, and what each is to be. Elements that are wanted as they are come first."""
    kept: dict[int, object] = {}
    rest = list(wanted)
    for place, item in enumerate(items):
        spare = len(items) - place - len(rest)
        if rest and (item.node.value == rest[0] or spare <= 0 or _is_part(rest[0], item.node.value)):
            kept[id(item)] = rest.pop(0)
    return kept


def _is_part(wanted: object, value: object) -> bool:
    """Whether a value is another one without some of its members or elements."""
    if isinstance(wanted, dict) and isinstance(value, dict):
        return all(key in value and _is_part(one, value[key]) for key, one in wanted.items())
    if isinstance(wanted, list) and isinstance(value, list):
        rest = iter(value)
        return all(any(_is_part(one, other) for other in rest) for one in wanted)
    return wanted == value


def _taken_out(text: str, items: list[Item], gone: set[int]) -> Iterator[Cut]:
    """Takes items out with their commas; comments stay, and so does the indentation of what follows."""
    kept_before: Item | None = None
    for place, item in enumerate(items):
        if id(item) not in gone:
            kept_before = item
            continue
        has_kept_behind = any(id(other) not in gone for other in items[place + 1 :])
        end = item.comma + 1 if item.comma >= 0 else item.node.end
        if has_kept_behind:
            yield item.start, end + len(text[end:]) - len(text[end:].lstrip(" \t\r\n")), ""
            continue
        begin = len(text[: item.start].rstrip(" \t\r\n"))
        if kept_before is not None and kept_before.comma >= 0:
            yield kept_before.comma, kept_before.comma + 1, ""
            kept_before = None
        yield begin, end, ""


def _apply(text: str, cuts: list[Cut]) -> str:
    for start, end, new in sorted(cuts, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise NotJsonError("it is nested too deeply")
    if text[at : at + 1] in _CLOSING:
        return _container(text, at, depth)
    found = _SCALAR.match(text, at)
    if found is None:
        raise NotJsonError(f"there is no value at character {at}")
    try:
        return Node(json.loads(found[0]), at, found.end(), [])
    except ValueError as error:
        raise NotJsonError(str(error)) from None


def _container(text: str, start: int, depth: int) -> Node:
    closing, is_object = _CLOSING[text[start]], text[start] == "{"
    items: list[Item] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        if items and items[-1].comma < 0:
            raise NotJsonError(f"a comma is missing at character {at}")
        item = _member(text, at, depth) if is_object else Item("", _value(text, at, depth + 1), at)
        items.append(item)
        at = _skip(text, item.node.end)
        if text[at : at + 1] == ",":
            item.comma = at
            at = _skip(text, at + 1)
    if not is_object:
        return Node([item.node.value for item in items], start, at + 1, items)
    members = {item.key: item.node.value for item in items}
    if len(members) < len(items):
        names = [item.key for item in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotJsonError(f"the key {twice!r} stands there twice")
    return Node(members, start, at + 1, items)


def _member(text: str, at: int, depth: int) -> Item:
    key = _SCALAR.match(text, at)
    if key is None or text[at] != '"':
        raise NotJsonError(f"there is no key at character {at}")
    colon = _skip(text, key.end())
    if text[colon : colon + 1] != ":":
        raise NotJsonError(f"a colon is missing at character {colon}")
    try:
        name = str(json.loads(key[0]))
    except ValueError as error:
        raise NotJsonError(str(error)) from None
    return Item(name, _value(text, _skip(text, colon + 1), depth + 1), at)
