"""The tokens of languages with braces: names, strings, numbers, signs and comments, each with its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

NAME, STRING, NUMBER, SIGN, COMMENT, PATTERN = "name", "string", "number", "sign", "comment", "pattern"

_SPACE = r"""
(?P<space>\s+)
|(?P<comment>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))
"""
_WORDS = r"""
|(?P<name>`[^`\n]*`|[^\W\d][\w$]*|\$[\w$]*|\#[^\W\d]\w*|@[^\W\d]\w*)
|(?P<number>\d(?:[\w.]|(?<=[eE])[+-](?=\d))*)
"""
_SIGNS = r"|(?P<sign>=>|===|!==|==|!=|<=|>=|&&|\|\||\?\?|\?\.|\.\.\.|->|::|:=|[^\s])"
_DOUBLE = r'"(?:[^"\\\n]|\\[\s\S])*(?:"|(?=\n)|\Z)'
_SINGLE = r"'(?:[^'\\\n]|\\[\s\S])*(?:'|(?=\n)|\Z)"
_LONG = r'"(?:[^"\\]|\\[\s\S])*(?:"|\Z)'
_RAW = r'b?r(?P<hashes>\#*)"[\s\S]*?(?:"(?P=hashes)|\Z)'
_CHAR = r"'(?:[^'\\\n]|\\[^\n]{1,10})'"
_STRINGS = {
    "script": rf"{_DOUBLE}|{_SINGLE}",
    "rust": rf"{_RAW}|{_LONG}|{_CHAR}",
    "go": rf"{_DOUBLE}|`[^`]*(?:`|\Z)|{_SINGLE}",
    "braced": rf'"""[\s\S]*?(?:"""|\Z)|{_DOUBLE}|{_SINGLE}',
}
_COMPILED = {
    name: re.compile(f"{_SPACE}|(?P<string>{strings}){_WORDS}{_SIGNS}", re.VERBOSE)
    for name, strings in _STRINGS.items()
}
MAX_PATTERN = 300
_PATTERN = re.compile(r"/(?![*/])(?:[^/\\\n\[]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*\])+/[a-z]*")
_BEFORE_PATTERN = frozenset(("return", "typeof", "case", "of", "in", "await", "yield", "else"))
_OPEN, _CLOSE = "([{", ")]}"
Matcher = Callable[[str, int], "re.Match[str] | None"]


class Token(NamedTuple):
    """One token."""

    kind: str
    text: str
    line: int


def tokens_of(text: str, language: str) -> tuple[Token, ...]:
    """A text's tokens, whatever it holds."""
    match = _COMPILED.get(language, _COMPILED["braced"]).match
    found: list[Token] = []
    at, line, end = 0, 1, len(text)
    while at < end:
        kind, stop = _next(text, at, match, found, is_script=language == "script")
        if kind != "space":
            found.append(Token(kind, text[at:stop], line))
        line += text.count("\n", at, stop)
        at = stop
    return tuple(found)


def _next(text: str, at: int, match: Matcher, found: list[Token], *, is_script: bool) -> tuple[str, int]:
    char = text[at]
    if is_script and char == "`":
        return STRING, _template_end(text, at)
    if is_script and char == "/" and text[at + 1 : at + 2] not in ("/", "*") and _may_be_pattern(found):
        pattern = _PATTERN.match(text, at, at + MAX_PATTERN)
        if pattern:
            return PATTERN, pattern.end()
    token = match(text, at)
    return (token.lastgroup or STRING, token.end()) if token else (SIGN, at + 1)


def _may_be_pattern(found: list[Token]) -> bool:
    last = next((token for token in reversed(found) if token.kind != COMMENT), None)
    if last is None or last.text in _BEFORE_PATTERN:
        return True
    return last.kind == SIGN and last.text not in (")", "]", "}")


def _template_end(text: str, at: int) -> int:
    """The end of a template string, those in its `${…}` included."""
    depth: list[str] = ["`"]
    at += 1
    while at < len(text) and depth:
        char = text[at]
        if char == "\\":
            at += 1
        elif depth[-1] == "`":
            if char == "`":
                depth.pop()
            elif char == "$" and text[at + 1 : at + 2] == "{":
                depth.append("{")
                at += 1
        elif char in "`{":
            depth.append(char)
        elif char == "}":
            depth.pop()
        at += 1
    return at


def pairs_of(tokens: tuple[Token, ...]) -> dict[int, int]:
    """Where each bracket that is opened is closed, by the places of the two tokens."""
    open_places: list[int] = []
    found: dict[int, int] = {}
    for place, token in enumerate(tokens):
        if token.kind != SIGN:
            continue
        if token.text in _OPEN:
            open_places.append(place)
        elif token.text in _CLOSE and open_places:
            found[open_places.pop()] = place
    return found


def depth_of(tokens: tuple[Token, ...]) -> int:
    """How deeply brackets are nested."""
    depth = deepest = 0
    for token in tokens:
        if token.kind == SIGN and token.text in _OPEN:
            depth += 1
            deepest = max(deepest, depth)
        elif token.kind == SIGN and token.text in _CLOSE:
            depth = max(0, depth - 1)
    return deepest


def without_comments(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """The tokens that are code."""
    return tuple(token for token in tokens if token.kind != COMMENT)


def joined(tokens: tuple[Token, ...]) -> str:
    """Tokens as one text, laid out one way."""
    words = (NAME, NUMBER)
    parts: list[str] = []
    for place, token in enumerate(tokens):
        if place and token.kind in words and tokens[place - 1].kind in words:
            parts.append(" ")
        parts.append(token.text)
    return "".join(parts)


def unquoted(text: str) -> str:
    """A string's content."""
    return text.strip("'\"`")
