"""The tokens of languages with braces, their brackets matched, and the comments of any language."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterator
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


class CodeToken(NamedTuple):
    kind: str
    text: str
    line: int


def tokenise(text: str, language: str) -> tuple[CodeToken, ...]:
    match = _COMPILED.get(language, _COMPILED["braced"]).match
    found: list[CodeToken] = []
    at, line, end = 0, 1, len(text)
    while at < end:
        kind, stop = _next_token(text, at, match, found, is_script=language == "script")
        if kind != "space":
            found.append(CodeToken(kind, text[at:stop], line))
        line += text.count("\n", at, stop)
        at = stop
    return tuple(found)


def _next_token(
    text: str, at: int, match: Matcher, found: list[CodeToken], *, is_script: bool
) -> tuple[str, int]:
    char = text[at]
    if is_script and char == "`":
        return STRING, _template_end(text, at)
    if is_script and char == "/" and text[at + 1 : at + 2] not in ("/", "*") and _may_be_pattern(found):
        pattern = _PATTERN.match(text, at, at + MAX_PATTERN)
        if pattern:
            return PATTERN, pattern.end()
    token = match(text, at)
    return (token.lastgroup or STRING, token.end()) if token else (SIGN, at + 1)


def _may_be_pattern(found: list[CodeToken]) -> bool:
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


def bracket_pairs(tokens: tuple[CodeToken, ...]) -> dict[int, int]:
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


def bracket_depth(tokens: tuple[CodeToken, ...]) -> int:
    depth = deepest = 0
    for token in tokens:
        if token.kind == SIGN and token.text in _OPEN:
            depth += 1
            deepest = max(deepest, depth)
        elif token.kind == SIGN and token.text in _CLOSE:
            depth = max(0, depth - 1)
    return deepest


def without_comments(tokens: tuple[CodeToken, ...]) -> tuple[CodeToken, ...]:
    """The tokens that are code."""
    return tuple(token for token in tokens if token.kind != COMMENT)


def join_tokens(tokens: tuple[CodeToken, ...]) -> str:
    """Tokens as one text, laid out one way."""
    words = (NAME, NUMBER)
    parts: list[str] = []
    for place, token in enumerate(tokens):
        if place and token.kind in words and tokens[place - 1].kind in words:
            parts.append(" ")
        parts.append(token.text)
    return "".join(parts)


def unquote(text: str) -> str:
    return text.strip("'\"`")


_SMALL = frozenset(("0", "1", "2", "''", '""', "``"))


class BracketedCode:
    """Tokens without comments, and where each bracket closes."""

    def __init__(self, tokens: tuple[CodeToken, ...]) -> None:
        self.tokens = without_comments(tokens)
        self.pairs = bracket_pairs(self.tokens)
        self.openings = {closing: opening for opening, closing in self.pairs.items()}

    def text(self, place: int) -> str:
        """The token at a place; empty outside."""
        return self.tokens[place].text if 0 <= place < len(self.tokens) else ""

    def kind(self, place: int) -> str:
        """The kind of the token at a place; empty outside."""
        return self.tokens[place].kind if 0 <= place < len(self.tokens) else ""

    def line(self, place: int) -> int:
        """The line of the token at a place."""
        return self.tokens[place].line if 0 <= place < len(self.tokens) else 0

    def closing_place(self, place: int) -> int:
        """Where a bracket closes; the end when it never does."""
        return self.pairs.get(place, len(self.tokens))

    def text_between(self, start: int, stop: int) -> str:
        """The tokens from one place up to another, as text."""
        return join_tokens(self.tokens[start:stop])

    def words(self, start: int, stop: int) -> frozenset[str]:
        """The names, strings and numbers between two places."""
        kinds = (NAME, STRING, NUMBER)
        return frozenset(token.text for token in self.tokens[start:stop] if token.kind in kinds)

    def literals(self, start: int, stop: int) -> frozenset[str]:
        """The strings and numbers between two places, small ones left out."""
        found = {token.text for token in self.tokens[start:stop] if token.kind in (STRING, NUMBER)}
        return frozenset(f"'{text[1:-1]}'" if text[0] in "\"'`" else text for text in found - _SMALL)

    def calls(self, start: int, stop: int) -> frozenset[str]:
        return frozenset(
            self.text(place)
            for place in range(start, min(stop, len(self.tokens)))
            if self.kind(place) == NAME and self.text(place + 1) == "("
        )

    def arguments(self, opening: int) -> Iterator[tuple[int, int]]:
        """Where each argument of a call, or item of a list, starts and stops."""
        end = self.closing_place(opening)
        start = place = opening + 1
        while place < end:
            if self.text(place) == ",":
                yield start, place
                start = place + 1
            place = self.closing_place(place) + 1 if self.text(place) in ("(", "[", "{") else place + 1
        if start < end:
            yield start, end


def test_module_range(code: BracketedCode) -> range:
    """`#[cfg(test)] mod tests { … }` of Rust, which is no product."""
    for place, token in enumerate(code.tokens):
        if token.text == "mod" and "test" in {code.text(at) for at in range(max(0, place - 5), place)}:
            return range(place, code.closing_place(place + 2))
    return range(0)


MAX_LINE = 5_000
_HASH = re.compile(r"(?:^|(?<=\s))#.*")
_PLAIN_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")


class CodeComment(NamedTuple):
    line: int
    text: str


def python_comments(text: str) -> tuple[CodeComment, ...]:
    """The comments of a Python text, by its own tokenizer as far as that comes."""
    found: list[CodeComment] = []
    try:
        found.extend(
            CodeComment(token.start[0], token.string)
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT
        )
    except (tokenize.TokenError, SyntaxError, ValueError):
        last = found[-1].line if found else 0
        found += [comment for comment in hash_comments(text) if comment.line > last]
    return tuple(found)


def hash_comments(text: str) -> tuple[CodeComment, ...]:
    """The comments of a text whose comments start with `#`, line by line."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if "#" in line:
            match = _HASH.search(_PLAIN_STRING.sub(lambda quoted: "_" * len(quoted[0]), line[:MAX_LINE]))
            if match:
                found.append(CodeComment(number, line[match.start() :]))
    return tuple(found)


def token_comments(tokens: tuple[CodeToken, ...]) -> tuple[CodeComment, ...]:
    return tuple(CodeComment(token.line, token.text) for token in tokens if token.kind == COMMENT)
