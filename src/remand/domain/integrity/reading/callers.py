"""Python code that decides by who calls it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.integrity.reading.deciding import Is, Scope, derived, has, is_of, is_question, scopes
from remand.domain.integrity.reading.python_tree import called, resolved, shown, words
from remand.domain.integrity.reading.source import Source

FRAMES = frozenset(
    (
        *("inspect.stack", "inspect.currentframe", "sys._getframe", "traceback.extract_stack"),
        *("traceback.format_stack", "inspect.getouterframes", "traceback.walk_stack"),
        "sys._getframemodulename",
    )
)
"""Calls that tell who calls."""
_HINT = re.compile(r"stack|currentframe|_getframe|getouterframes")
_FUNCTION = frozenset(
    (
        *("co_name", "co_qualname", "function", "name", "code_context"),
        *("co_firstlineno", "f_lineno", "lineno"),
    )
)
"""What of a frame tells which function it is of."""
_MODULE = frozenset(("co_filename", "filename", "f_globals"))
"""What tells which module: honest code asks for one by its whole name."""
_WHOLE = frozenset(("traceback.format_stack", "sys._getframemodulename"))
"""Calls whose results tell the module as they are."""
_TELLS = re.compile(
    r"logg|warn|deprecat|caller|stack_?level|traceb|debug|profil|(?:^|[._])(?:log|trace|frames?)(?:[._]|$)",
    re.IGNORECASE,
)
"""Names of what finds a caller in order to tell of it."""
_SELF = frozenset(("__file__", "__name__"))
_MAKERS = re.compile(r"'__(?:init|new|post_init|setattr|init_subclass)__'")
"""Callers that make an object: classes ask for them to be closed afterwards."""


def asks_its_caller(source: Source) -> Iterator[tuple[int, str]]:
    """The lines and questions by which code goes one way for one caller and another way for others."""
    if not _HINT.search(source.text):
        return
    frames = {
        id(call): resolved(call.func, source.imports)
        for call in source.every(ast.Call)
        if resolved(call.func, source.imports) in FRAMES
    }
    if not frames:
        return
    places = list(scopes(source))
    for says in (_Says(frames, _FUNCTION), _Says(frames, _MODULE)):
        says.learn_helpers(places)
        for scope in places:
            if not _TELLS.search(scope.name or source.path.rpartition("/")[2].partition(".")[0]):
                yield from says.questions(scope)


class _Says:
    """What tells who calls: expressions, names that were given one, and functions that hand one back."""

    def __init__(self, frames: dict[int, str], attributes: frozenset[str]) -> None:
        self._frames = frames
        self._attributes = attributes
        self._helpers: frozenset[str] = frozenset()

    def learn_helpers(self, places: list[Scope]) -> None:
        """Finds the functions that hand back who calls."""
        self._helpers = frozenset(
            scope.name.rpartition(".")[2] for scope in places if self._hands_back(scope)
        )

    def _hands_back(self, scope: Scope) -> bool:
        is_told, names = self._told(scope)
        values = (node.value for node in scope.nodes if isinstance(node, ast.Return) and node.value)
        return any(is_of(value, is_told, names) for value in values)

    def questions(self, scope: Scope) -> Iterator[tuple[int, str]]:
        """The questions of one scope about its caller."""
        is_told, names = self._told(scope)
        for node in scope.nodes:
            if isinstance(node, ast.expr) and self._is_asked(node) and has(node, is_told, names):
                yield node.lineno, shown(node)

    def _is_asked(self, node: ast.expr) -> bool:
        return (
            is_question(node) and not _is_usual(node) and (self._attributes is _FUNCTION or _is_partial(node))
        )

    def _told(self, scope: Scope) -> tuple[Is, frozenset[str]]:
        frames = derived(scope.nodes, self._is_frame)

        def is_told(node: ast.AST) -> bool:
            return self._tells(node, frames)

        return is_told, derived(scope.nodes, is_told)

    def _is_frame(self, node: ast.AST) -> bool:
        return id(node) in self._frames

    def _tells(self, node: ast.AST, names: frozenset[str]) -> bool:
        """True for `frame.f_code.co_name`, `stack()[1][3]`, `len(stack())`, and a function that gives one."""
        if isinstance(node, ast.Attribute):
            return node.attr in self._attributes and is_of(node.value, self._is_frame, names)
        if isinstance(node, ast.Subscript):
            return isinstance(node.value, ast.Subscript) and is_of(node.value, self._is_frame, names)
        if not isinstance(node, ast.Call):
            return False
        name = called(node)
        counts = name == "len" and any(is_of(part, self._is_frame, names) for part in node.args)
        is_whole = self._attributes is _MODULE and self._frames.get(id(node)) in _WHOLE
        return counts or is_whole or (bool(name) and name.rpartition(".")[2] in self._helpers)


def _is_usual(question: ast.expr) -> bool:
    """True where a frame is held against the module itself, or asked for the making of an object."""
    if any(isinstance(part, ast.Name) and part.id in _SELF for part in ast.walk(question)):
        return True
    texts = [word for word in words(ast.walk(question)) if word.startswith("'")]
    return bool(texts) and all(_MAKERS.fullmatch(text) for text in texts)


def _is_partial(question: ast.expr) -> bool:
    """True for a question about a part of a text that is written out."""
    if isinstance(question, ast.Compare):
        return isinstance(question.ops[0], ast.In | ast.NotIn) and _is_text(question.left)
    return isinstance(question, ast.Call) and any(
        _is_text(part) for argument in question.args for part in ast.walk(argument)
    )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
