"""The tokens of languages with braces, their brackets matched, and the comments of any language."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

NAME, STRING, NUMBER, SIGN, COMMENT, PATTERN = "name", "string", "number", "sign", "comment", "pattern"

_TOKEN = re.compile(
    r"""
(?P<space>\s+)
|(?P<comment>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))
|(?P<string>\"\"\"[\s\S]*?(?:\"\"\"|\Z)|"(?:[^"\\\n]|\\[\s\S])*(?:"|(?=\n)|\Z)|'(?:[^'\\\n]|\\[\s\S])*(?:'|(?=\n)|\Z))
|(?P<name>`[^`\n]*`|[^\W\d][\w$]*|\$[\w$]*|\#[^\W\d]\w*|@[^\W\d]\w*)
|(?P<number>\d(?:[\w.]|(?<=[eE])[+-](?=\d))*)
|(?P<sign>=>|===|!==|==|!=|<=|>=|&&|\|\||\?\?|\?\.|\.\.\.|->|::|:=|[^\s])
""",
    re.VERBOSE,
)
_OPEN, _CLOSE = "([{", ")]}"


class CodeToken(NamedTuple):
    kind: str
    text: str
    line: int


def tokenise(text: str) -> tuple[CodeToken, ...]:
    """The tokens of a language with braces that no grammar is kept for, comments included."""
    found: list[CodeToken] = []
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "space":
            found.append(CodeToken(match.lastgroup or SIGN, match[0], line))
        line += match[0].count("\n")
    return tuple(found)


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


MAX_ANCESTORS = 200
_CHILDLESS: list[Node] = []
"""The children of every leaf, of which there are too many for a list each."""


class Node:
    """A named part of a program: the tokens from `start` up to `stop`."""

    __slots__ = ("children", "field", "kind", "parent", "start", "stop")

    def __init__(
        self, kind: str, field: str, parent: Node | None, start: int, *, is_leaf: bool = False
    ) -> None:
        self.kind = kind
        self.field = field
        """What it is to its parent, as `condition`; empty where the grammar has no word for it."""
        self.parent = parent
        self.children: list[Node] = _CHILDLESS if is_leaf else []
        self.start = start
        self.stop = start
        if parent is not None:
            parent.children.append(self)

    def child(self, field: str) -> Node | None:
        """The first child that is this to it."""
        return next((child for child in self.children if child.field == field), None)

    def walk(self) -> Iterator[Node]:
        """It and everything in it, in the order of the text."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            if node.children:
                waiting += reversed(node.children)

    def release(self) -> None:
        """Takes the tree below it apart: no node is in a cycle then, and all are freed with the last that uses them."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            waiting += (child for child in node.children if child.children)
            node.children = _CHILDLESS

    def find(self, place: int) -> Node:
        """The smallest part of it that covers a place."""
        node = self
        while node.children:
            at = bisect_right(node.children, place, key=_start) - 1
            if at < 0 or node.children[at].stop <= place:
                break
            node = node.children[at]
        return node

    def ancestors(self, top: Node | None = None) -> Iterator[tuple[Node, Node]]:
        """Each part around it with the one that it holds on the way, up to the given one and no further than a reader would."""
        below = self
        for _ in range(MAX_ANCESTORS):
            above = below.parent
            if above is None or below is top:
                return
            yield above, below
            below = above


def _start(node: Node) -> int:
    return node.start


def _line(token: CodeToken) -> int:
    return token.line


class BracketedCode:
    """The tokens of a file without its comments, where each bracket closes, and the syntax tree over them."""

    def __init__(
        self, tokens: tuple[CodeToken, ...], root: Node | None = None, starts: tuple[int, ...] = ()
    ) -> None:
        self.tokens = tokens
        self.root = root
        """None for a language without a grammar."""
        self._starts = starts
        self._texts = [token.text for token in tokens]
        self._count = len(tokens)
        self.pairs = bracket_pairs(self.tokens)
        self.openings = {closing: opening for opening, closing in self.pairs.items()}

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for place, text in enumerate(self._texts):
            found[text].append(place)
        return found

    def places_of(self, text: str, start: int, stop: int) -> list[int]:
        """Where a token is between two places."""
        places = self._places.get(text, [])
        return places[bisect_left(places, start) : bisect_left(places, stop)]

    @cached_property
    def mentions(self) -> Counter[str]:
        """How often each token is in the file."""
        return Counter(token.text for token in self.tokens)

    @cached_property
    def _nodes(self) -> dict[str, list[Node]]:
        found: defaultdict[str, list[Node]] = defaultdict(list)
        for node in self.root.walk() if self.root else ():
            found[node.kind].append(node)
        return found

    def nodes_of(self, *kinds: str) -> list[Node]:
        """Every node of the given kinds, in the order of the text."""
        found = [node for kind in kinds for node in self._nodes.get(kind, ())]
        return found if len(kinds) == 1 else sorted(found, key=lambda node: node.start)

    def nodes_in(self, parts: Iterable[Node], *kinds: str) -> list[Node]:
        """Every node of the given kinds in some parts of the file, with the parts themselves; what holds others comes first."""
        found = [
            node
            for part in parts
            for kind in kinds
            for node in _slice_by_start(self._nodes.get(kind, _CHILDLESS), part.start, part.stop)
            if node.stop <= part.stop
        ]
        return found if len(kinds) == 1 else sorted(found, key=lambda node: (node.start, -node.stop))

    @cached_property
    def definitions(self) -> dict[str, Node]:
        """The first function or variable of each name, in languages of scripts."""
        found: dict[str, Node] = {}
        for node in self.nodes_of("function_declaration", "variable_declarator"):
            found.setdefault(self.node_text(node.child("name")), node)
        return found

    def node_text(self, node: Node | None) -> str:
        """What a node covers, laid out one way; empty without one."""
        if node is None:
            return ""
        if node.stop == node.start + 1:
            return self.tokens[node.start].text  # most nodes are one token
        return join_tokens(self.tokens[node.start : node.stop])

    def byte_range(self, node: Node | range) -> tuple[int, int]:
        """Where a node that holds something begins and ends in the file's bytes; only for a language with a grammar."""
        last = node.stop - 1
        return self._starts[node.start], self._starts[last] + len(self.tokens[last].text.encode())

    def text(self, place: int) -> str:
        """The token at a place; empty outside."""
        return self._texts[place] if 0 <= place < self._count else ""

    def kind(self, place: int) -> str:
        """The kind of the token at a place; empty outside."""
        return self.tokens[place].kind if 0 <= place < self._count else ""

    def line(self, place: int) -> int:
        """The line of the token at a place."""
        return self.tokens[place].line if 0 <= place < len(self.tokens) else 0

    def first_place_below(self, line: int) -> int:
        """Where the first token after a line is; the end if none is."""
        return bisect_right(self.tokens, line, key=_line)

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


def _slice_by_start(nodes: list[Node], start: int, stop: int) -> list[Node]:
    return nodes[bisect_left(nodes, start, key=_start) : bisect_left(nodes, stop, key=_start)]


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


_PYTHON_QUOTED = re.compile(
    r"""#[^\n]*|\\?(?:\"{3}(?:[^\\"]|\\.|"(?!""))*\"{3}|'{3}(?:[^\\']|\\.|'(?!''))*'{3}|"(?:[^\\"\n]|\\.)*"|'(?:[^\\'\n]|\\.)*')""",
    re.DOTALL,
)


def python_comments(text: str, *, is_valid: bool = False) -> tuple[CodeComment, ...]:
    """The comments of a Python text by its own tokenizer, as far as that comes.

    Before 3.12 that is slow, and a valid text has no strings inside of strings.
    """
    if "#" not in text:
        return ()
    found: list[CodeComment] = []
    if is_valid and sys.version_info < (3, 12):
        line, at = 1, 0
        for match in _PYTHON_QUOTED.finditer(text):
            if match[0][0] == "#":
                line += text.count("\n", at, match.start())
                at = match.start()
                found.append(CodeComment(line, match[0].rstrip("\r")))
        return tuple(found)
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
