"""The syntax tree of a file by the grammar of its language; every node covers some of the file's tokens."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from remand.domain.text.words import word_set
from remand.integrity.readers.tokens import NAME, NUMBER, PATTERN, SIGN, STRING, CodeComment, CodeToken, Node

if TYPE_CHECKING:
    from tree_sitter import Node as ParserNode
    from tree_sitter import Parser

MAX_BYTES = 1 << 20
"""What is larger is not parsed: a parser reads a hostile megabyte in seconds, and a plain one in a quarter of one."""
_GRAMMARS = {
    "script": ("tree_sitter_javascript", "language"),
    "ts": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "kotlin": ("tree_sitter_kotlin", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
}
_DIALECTS = {**dict.fromkeys(("ts", "mts", "cts", "vue", "svelte"), "ts"), "tsx": "tsx"}
_STRINGS = word_set("""
string template_string regex interpreted_string_literal raw_string_literal rune_literal string_literal char_literal
character_literal verbatim_string_literal interpolated_string_expression multiline_string_literal jsx_text
""")
_EMBEDDED = re.compile(rb"<script\b[^>]*>(.*?)</script", re.DOTALL | re.IGNORECASE)


class ParsedText(NamedTuple):
    """What a grammar makes of a text."""

    tokens: tuple[CodeToken, ...]
    """The code, comments left out."""
    comments: tuple[CodeComment, ...]
    root: Node | None
    """None where no grammar was asked."""


def parse_tree(path: str, language: str, text: str) -> ParsedText | None:
    """A text by its grammar; None for a language without one, and for a text that is too large."""
    suffix = path.rpartition(".")[2].lower()
    name = _DIALECTS.get(suffix, "script") if language == "script" else language
    data = text.encode("utf-8", "replace")
    if name not in _GRAMMARS or len(data) > MAX_BYTES:
        return None
    if suffix in ("vue", "svelte"):
        data = _only_scripts(data)
    return _Builder(data).build(name)


def _only_scripts(data: bytes) -> bytes:
    """The scripts of a component where they stand, and blanks in place of its markup."""
    parts, at = [], 0
    for found in _EMBEDDED.finditer(data):
        parts += [re.sub(rb"[^\n]", b" ", data[at : found.start(1)]), found[1]]
        at = found.end(1)
    return b"".join((*parts, re.sub(rb"[^\n]", b" ", data[at:])))


@cache
def _parser(name: str) -> Parser:
    """The parser of a grammar, made when it is first needed: both are shared libraries."""
    from tree_sitter import Language, Parser

    module, function = _GRAMMARS[name]
    return Parser(Language(getattr(import_module(module), function)()))


class _Builder:
    """Takes tokens, comments and nodes over from the parser's own tree, which is slow to ask."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._tokens: list[CodeToken] = []
        self._comments: list[CodeComment] = []
        self._at, self._line = 0, 1

    def build(self, name: str) -> ParsedText:
        """Walks the parser's tree once. It is parsed from bytes: given callbacks, the binding can crash."""
        tree = _parser(name).parse(self._data)
        cursor = tree.walk()
        root = Node(tree.root_node.type, "", None, 0)
        above: Node | None = root
        has_node = cursor.goto_first_child()
        while has_node and above is not None:
            found = cursor.node
            kind = found.type if found else ""
            if found and (not found.child_count or kind in _STRINGS or kind.endswith("comment")):
                self._take_leaf(found, kind, cursor.field_name or "", above)
            else:
                above = Node(kind, cursor.field_name or "", above, len(self._tokens))
                if cursor.goto_first_child():
                    continue
            while above is not None and not cursor.goto_next_sibling():
                cursor.goto_parent()
                above.stop = len(self._tokens)
                above = above.parent
        root.stop = len(self._tokens)
        return ParsedText(tuple(self._tokens), tuple(self._comments), root)

    def _take_leaf(self, found: ParserNode, kind: str, field: str, above: Node) -> None:
        start, stop = found.start_byte, found.end_byte
        self._line += self._data.count(b"\n", self._at, start)
        text = self._data[start:stop].decode("utf-8", "replace")
        self._at = start
        if kind.endswith("comment") or kind == "hash_bang_line":
            self._comments.append(CodeComment(self._line, text))
        elif text.strip():
            node = Node(kind, field, above, len(self._tokens)) if found.is_named else None
            self._tokens.append(CodeToken(_token_kind(kind, text), text, self._line))
            if node is not None:
                node.stop = node.start + 1


def _token_kind(kind: str, text: str) -> str:
    if kind in _STRINGS:
        return PATTERN if kind == "regex" else STRING
    first = text[0]
    if first.isdigit() or (first == "." and text[1:2].isdigit()):
        return NUMBER
    return NAME if first.isidentifier() or (first in "$#@`" and len(text) > 1) else SIGN
