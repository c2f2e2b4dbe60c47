"""Python code that recognises the surroundings in which gates run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.integrity.reading.deciding import (
    Is,
    Scope,
    conditions,
    derived,
    has,
    is_question,
    returned,
    scopes,
)
from remand.domain.integrity.reading.python_tree import called, dotted, last_name, shown, words
from remand.domain.integrity.reading.source import Source

_VARIABLES = frozenset(("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"))
"""What is set for every job."""
_FLAGS = frozenset(
    ("sys.dont_write_bytecode", "sys.flags.dont_write_bytecode", "sys.flags.hash_randomization")
)
_COMPILES = re.compile(r"py_compile|compileall|\.pyc\b|__pycache__|cache_from_source")
_IDS = re.compile(r"(?:^|\.)(?:gete?[ug]id|getres[ug]id|getuser|getlogin|getpwuid)$")
_NOBODY = frozenset((65534, "nobody"))
"""As whom jobs run."""
_PLACES = re.compile(r"(?:^|\.)(?:getcwdb?|cwd)$")
_CHECKOUT = "/remand/checkouts/"
MIN_PART = 4
"""Letters of a part of a checkout's path by which it can be told from others."""
_DOOR = "/run/remand"
_FILE_ASKS = frozenset(
    ("exists", "lexists", "isfile", "isdir", "access", "is_file", "is_dir", "is_socket", "stat")
)
_SETS = frozenset(
    ("execv", "execve", "execvp", "execvpe", "setdefault", "warn", "warning", "run", "check_call")
)


def recognises_gates(source: Source) -> Iterator[tuple[int, str]]:
    """The lines and questions by which code goes one way where gates run and another way elsewhere."""
    marks = [is_mark for is_mark, hint in _MARKS.items() if hint.search(source.text)]
    if _COMPILES.search(source.text):
        marks = [is_mark for is_mark in marks if is_mark is not _is_flag]
    module: dict[Is, frozenset[str]] = {}
    for scope in scopes(source) if marks else ():
        for is_mark in marks:
            names = derived(scope.nodes, is_mark, module.get(is_mark, frozenset()))
            if not scope.name:
                module[is_mark] = names
            yield from _asked(scope, is_mark, names)


def _asked(scope: Scope, is_mark: Is, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    for node in _deciding(scope, is_mark):
        if has(node, is_mark, names) and _fits(node, is_mark):
            yield node.lineno, shown(node)


def _deciding(scope: Scope, is_mark: Is) -> Iterator[ast.expr]:
    """The expressions of a scope that decide something."""
    if is_mark is _is_door:
        yield from (node for node in scope.nodes if isinstance(node, ast.expr) and _asks_for_file(node))
        return
    if is_mark in (_is_id, _is_place):
        yield from (node for node in scope.nodes if isinstance(node, ast.expr) and is_question(node))
        return
    preparing = {id(node.test) for node in scope.nodes if isinstance(node, ast.If) and _prepares(node)}
    yield from (test for test in conditions(scope.nodes) if id(test) not in preparing)
    if is_mark is _is_fixed_hash:
        yield from (node for node in scope.nodes if isinstance(node, ast.Compare))
    else:
        yield from (node for node in returned(scope.nodes) if is_mark(node))


def _fits(node: ast.expr, is_mark: Is) -> bool:
    """True when a question about the user or the place asks for ours."""
    values = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    if is_mark is _is_id:
        return any(value in _NOBODY for value in values if isinstance(value, int | str))
    if is_mark is _is_place:
        return any(_is_checkout(value) for value in values if isinstance(value, str))
    return True


def _is_checkout(text: str) -> bool:
    inner = text.strip("/")
    return (len(inner) >= MIN_PART and text in _CHECKOUT) or "remand/checkouts" in text or _DOOR in text


def _is_set(node: ast.AST) -> bool:
    """`os.environ.get("PYTHONHASHSEED")`, and its other forms."""
    if isinstance(node, ast.Call):
        is_read = called(node).endswith(("environ.get", "getenv")) and bool(node.args)
        return is_read and _is_variable(node.args[0])
    if isinstance(node, ast.Subscript):
        is_read = isinstance(node.ctx, ast.Load) and dotted(node.value).endswith("environ")
        return is_read and _is_variable(node.slice)
    return isinstance(node, ast.Compare) and _is_variable(node.left) and "environ" in words(ast.walk(node))


def _is_variable(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in _VARIABLES


def _is_flag(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and dotted(node) in _FLAGS


def _is_fixed_hash(node: ast.AST) -> bool:
    """`hash("word")`: another number in every process, but for one whose seed is fixed."""
    if not isinstance(node, ast.Call) or called(node) != "hash" or not node.args:
        return False
    given = node.args[0]
    return isinstance(given, ast.Constant) and isinstance(given.value, str | bytes)


def _is_door(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOOR in node.value


def _asks_for_file(node: ast.expr) -> bool:
    """`os.path.exists(path)`, or a path that is looked for in a text."""
    if isinstance(node, ast.Compare):
        return _is_door(node.left) and isinstance(node.ops[0], ast.In | ast.NotIn)
    return isinstance(node, ast.Call) and last_name(node.func) in _FILE_ASKS


def _is_id(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _IDS.search(called(node)) is not None


def _is_place(node: ast.AST) -> bool:
    """Where the code, or its process, stands."""
    if isinstance(node, ast.Call):
        return _PLACES.search(called(node)) is not None
    return (isinstance(node, ast.Name) and node.id == "__file__") or dotted(node) == "sys.path"


def _prepares(node: ast.If) -> bool:
    """True for a branch that only sets what is missing, starts anew with it, or warns."""
    parts = [part for statement in (*node.body, *node.orelse) for part in ast.walk(statement)]
    if any(isinstance(part, ast.Return | ast.Yield) for part in parts):
        return False
    stores = any(isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store) for part in parts)
    return stores or any(called(part).rpartition(".")[2] in _SETS for part in parts)


_MARKS: dict[Is, re.Pattern[str]] = {
    _is_set: re.compile("|".join(sorted(_VARIABLES))),
    _is_flag: re.compile("dont_write_bytecode|hash_randomization"),
    _is_fixed_hash: re.compile(r"\bhash\s*\("),
    _is_door: re.compile(_DOOR),
    _is_id: re.compile("65534|nobody"),
    _is_place: re.compile("__file__|cwd|sys"),
}
"""What marks a gate's run, and the text without which a file does not ask for it."""
