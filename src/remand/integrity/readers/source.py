"""A file's text on one side of a comparison, parsed when it is first needed: into a syntax tree by the grammar of its language."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache, cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from remand.domain.text.words import word_set
from remand.integrity.paths import CODE, is_test_path, language_of
from remand.integrity.readers import braced_tests, python_tests, script_tests
from remand.integrity.readers.cases import ParsedTest
from remand.integrity.readers.python_tree import (
    MAX_DEPTH,
    Function,
    TooDeep,
    imported_names,
    iterate_functions,
    parse_python,
    walk_tree,
)
from remand.integrity.readers.tokens import (
    COMMENT,
    NAME,
    NUMBER,
    PATTERN,
    SIGN,
    STRING,
    BracketedCode,
    CodeComment,
    CodeToken,
    Node,
    bracket_depth,
    hash_comments,
    python_comments,
    tokenise,
)

if TYPE_CHECKING:
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
PythonNode = TypeVar("PythonNode", bound=ast.AST)

_BRACED = frozenset(("script", "rust", "go", "java", "kotlin", "csharp", "braced"))
_HASHED = frozenset(("shell", "make", "yaml", "toml", "ini", "docker", "ruby"))


class ParsedText(NamedTuple):
    """What a grammar makes of a text."""

    tokens: tuple[CodeToken, ...]
    """The code, comments left out."""
    comments: tuple[CodeComment, ...]
    root: Node | None
    """None where no grammar was asked."""
    starts: tuple[int, ...] = ()
    """Where each token begins in the text's bytes; known where a grammar was asked."""


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


@cache
def _field_names(name: str) -> tuple[str, ...]:
    """What a child may be to its parent, by the parser's number for it; 0 stands for nothing."""
    language = _parser(name).language
    count = language.field_count if language is not None else 0
    names = (language.field_name_for_id(at) or "" for at in range(1, count + 1)) if language else ()
    return ("", *names)


class _Builder:
    """Takes tokens, comments and nodes over from the parser's own tree, which is slow to ask."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._text = data.decode("ascii") if data.isascii() else ""
        """The same, if a place in it is the same place in its bytes."""
        self._tokens: list[CodeToken] = []
        self._comments: list[CodeComment] = []
        self._starts: list[int] = []
        self._at, self._line = 0, 1

    def build(self, name: str) -> ParsedText:
        """Walks the parser's tree once. It is parsed from bytes: given callbacks, the binding can crash."""
        parser = _parser(name)
        tree, fields = parser.parse(self._data), _field_names(name)
        cursor = tree.walk()
        root = Node(tree.root_node.type, "", None, 0)
        above: Node | None = root
        tokens = self._tokens
        has_node = cursor.goto_first_child()
        while has_node and above is not None:
            found = cursor.node
            kind = found.type if found else ""
            if found and (not found.child_count or kind in _STRINGS or kind.endswith("comment")):
                if self._takes_token(found.start_byte, found.end_byte, kind) and found.is_named:
                    field = fields[cursor.field_id or 0]
                    Node(kind, field, above, len(tokens) - 1, is_leaf=True).stop = len(tokens)
            else:
                above = Node(kind, fields[cursor.field_id or 0], above, len(tokens))
                if cursor.goto_first_child():
                    continue
            while above is not None and not cursor.goto_next_sibling():
                cursor.goto_parent()
                above.stop = len(tokens)
                above = above.parent
        root.stop = len(tokens)
        return ParsedText(tuple(tokens), tuple(self._comments), root, tuple(self._starts))

    def _takes_token(self, start: int, stop: int, kind: str) -> bool:
        """Takes a leaf over: True if it is a token, and no comment or blank."""
        text = self._text[start:stop] or self._data[start:stop].decode("utf-8", "replace")
        if not text or text.isspace():
            return False
        if start > self._at:
            self._line += self._data.count(b"\n", self._at, start)
            self._at = start
        if kind.endswith("comment") or kind == "hash_bang_line":
            self._comments.append(CodeComment(self._line, text))
            return False
        self._tokens.append(CodeToken(_token_kind(kind, text), text, self._line))
        self._starts.append(start)
        return True


@lru_cache(maxsize=20_000)
def _token_kind(kind: str, text: str) -> str:
    if kind in _STRINGS:
        return PATTERN if kind == "regex" else STRING
    first = text[0]
    if first.isdigit() or (first == "." and text[1:2].isdigit()):
        return NUMBER
    return NAME if first.isidentifier() or (first in "$#@`" and len(text) > 1) else SIGN


_MADE = re.compile(
    r"\bgenerated (?:by|automatically|with|from)|\bauto-?(?:matically )?generated", re.IGNORECASE
)


class SourceFile:
    """One text, its language, and what is in it."""

    def __init__(self, path: str, text: str, test_patterns: tuple[str, ...] = ()) -> None:
        self.path = path
        self.text = text
        self.language = language_of(path) or _language_by_shebang(text)
        self.is_test = is_test_path(path, test_patterns)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def is_made(self) -> bool:
        """True when it says at its top that a program writes it."""
        return _MADE.search("\n".join(self.lines[:5])) is not None

    @property
    def is_code(self) -> bool:
        """True when it is written in a programming language."""
        return self.language in CODE

    @cached_property
    def _tree_or_error(self) -> ast.Module | TooDeep | None:
        if self.language != "python":
            return None
        try:
            return parse_python(self.text)
        except TooDeep as deep:
            return deep

    @property
    def tree(self) -> ast.Module | None:
        return self._tree_or_error if isinstance(self._tree_or_error, ast.Module) else None

    @property
    def is_too_deep(self) -> bool:
        """True when it is nested too deeply to be read."""
        return isinstance(self._tree_or_error, TooDeep) or self._depth > MAX_DEPTH

    @cached_property
    def _depth(self) -> int:
        return bracket_depth(self.tokens)

    @cached_property
    def _nodes(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in walk_tree(self.tree) if self.tree else ():
            found[type(node)].append(node)
        return found

    def nodes_of(self, kind: type[PythonNode]) -> list[PythonNode]:
        """All nodes of one kind in the syntax tree of Python."""
        return cast("list[PythonNode]", self._nodes.get(kind, []))

    @cached_property
    def functions(self) -> list[tuple[str, Function]]:
        """Every function of Python with the classes and functions it stands in."""
        return list(iterate_functions(self.tree)) if self.tree else []

    @cached_property
    def test_spans(self) -> list[tuple[str, bool, int, int]]:
        """The tests and functions: name, whether it is a test, first and last line; inner ones first."""
        if self.tree is not None:
            found = []
            for name, node in self.functions:
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                found.append((name, node.name.startswith("test"), first, node.end_lineno or first))
            # What stands in a function inside a test belongs to the test.
            return [one for one in found if one[1]] + sorted(
                (one for one in found if not one[1]), key=lambda one: one[2] - one[3], reverse=True
            )
        cases = sorted((case for case in self.tests if case.is_collected), key=lambda case: case.line)
        ends = [*(case.line - 1 for case in cases[1:]), len(self.lines)]
        return [(case.name, True, case.line, end) for case, end in zip(cases, ends, strict=False)]

    @cached_property
    def imports(self) -> dict[str, str]:
        """What each imported name of Python stands for."""
        return imported_names([*self.nodes_of(ast.Import), *self.nodes_of(ast.ImportFrom)])

    @cached_property
    def _parsed_text(self) -> ParsedText:
        """What a language with braces is made of, by its grammar or, where none is kept, by its tokens alone."""
        if self.language not in _BRACED:
            return ParsedText((), (), None)
        parsed = parse_tree(self.path, self.language, self.text)
        if parsed is not None:
            return parsed
        tokens = tokenise(self.text)
        comments = (CodeComment(token.line, token.text) for token in tokens if token.kind == COMMENT)
        return ParsedText(tuple(one for one in tokens if one.kind != COMMENT), tuple(comments), None)

    def release(self) -> None:
        """Takes the syntax tree apart if there is one: nothing can be asked about it afterwards."""
        parsed = self.__dict__.pop("_parsed_text", None)
        if parsed is not None and parsed.root is not None:
            parsed.root.release()

    @property
    def tokens(self) -> tuple[CodeToken, ...]:
        """The tokens of a language with braces, comments left out."""
        return self._parsed_text.tokens

    @cached_property
    def code(self) -> BracketedCode:
        """The tokens with their brackets and the tree over them; nothing when they are nested too deeply."""
        return (
            BracketedCode(self.tokens, self._parsed_text.root, self._parsed_text.starts)
            if self._depth <= MAX_DEPTH
            else BracketedCode(())
        )

    @cached_property
    def comments(self) -> tuple[CodeComment, ...]:
        if self.language == "python":
            return python_comments(self.text, is_valid=self.tree is not None)
        if self.language in _HASHED:
            return hash_comments(self.text)
        return self._parsed_text.comments

    @cached_property
    def tests(self) -> tuple[ParsedTest, ...]:
        """The tests, and the functions that assert for them."""
        if self.language == "python":
            return (
                python_tests.parse_python_tests(self.tree)
                if self.tree
                else python_tests.parse_python_lines(self.lines)
            )
        if self.language == "script":
            return script_tests.parse_script_tests(self.code)
        return braced_tests.parse_braced_tests(self.code, self.language) if self.language in _BRACED else ()

    @cached_property
    def shadowed_tests(self) -> dict[str, int]:
        """The tests of Python that others of the same name replace, with the line of the other."""
        return python_tests.find_shadowed_tests(self.tree) if self.tree else {}


def _language_by_shebang(text: str) -> str:
    first = text[:100].partition("\n")[0]
    if not first.startswith("#!"):
        return ""
    names = (("python", "python"), ("node", "script"), ("sh", "shell"))
    return next((language for name, language in names if name in first), "")


MAX_LITERAL = 2_000
