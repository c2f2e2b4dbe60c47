"""A file's text on one side of a comparison, parsed when it is first needed."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property
from typing import TypeVar, cast

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
    BracketedCode,
    CodeComment,
    CodeToken,
    bracket_depth,
    hash_comments,
    python_comments,
    tokenise,
)
from remand.integrity.readers.trees import ParsedText, parse_tree

Node = TypeVar("Node", bound=ast.AST)

_BRACED = frozenset(("script", "rust", "go", "java", "kotlin", "csharp", "braced"))
_HASHED = frozenset(("shell", "make", "yaml", "toml", "ini", "docker", "ruby"))


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

    def nodes_of(self, kind: type[Node]) -> list[Node]:
        """All nodes of one kind in the syntax tree of Python."""
        return cast("list[Node]", self._nodes.get(kind, []))

    @cached_property
    def functions(self) -> list[tuple[str, Function]]:
        """Every function of Python with the classes and functions it stands in."""
        return list(iterate_functions(self.tree)) if self.tree else []

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

    @property
    def tokens(self) -> tuple[CodeToken, ...]:
        """The tokens of a language with braces, comments left out."""
        return self._parsed_text.tokens

    @cached_property
    def code(self) -> BracketedCode:
        """The tokens with their brackets and the tree over them; nothing when they are nested too deeply."""
        return (
            BracketedCode(self.tokens, self._parsed_text.root)
            if self._depth <= MAX_DEPTH
            else BracketedCode(())
        )

    @cached_property
    def comments(self) -> tuple[CodeComment, ...]:
        if self.language == "python":
            return python_comments(self.text)
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
