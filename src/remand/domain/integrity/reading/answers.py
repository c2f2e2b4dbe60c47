"""Places where code answers one input with one constant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.integrity.reading.code import Code
from remand.domain.integrity.reading.python_tree import Function, is_literal, last_name, number, shown
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.reading.tokens import NAME, NUMBER, STRING

LONG = 8
FAR = 16
"""Tokens that are looked at for the value of a name."""
_NAMED = re.compile(r"[a-z][\w.-]*|[A-Z][A-Z0-9_]*")
_TYPES = frozenset(
    (
        "Decimal",
        "Fraction",
        "date",
        "datetime",
        "time",
        "timedelta",
        "Path",
        "UUID",
        "frozenset",
        "int",
        "float",
    )
)
"""Types whose values are written out by way of a call."""
_FIGURE = re.compile(r"-?\d{1,50}(?:\.\d{1,50})?")
_WORK = frozenset(("for", "while", "*", "/", "%", "reduce", "map", "filter", "push", "+", "-"))


class Answer(NamedTuple):
    """One input and its constant answer."""

    function: str
    line: int
    text: str
    asked: frozenset[str]
    """The literals of the input."""
    answer: str
    is_whole: bool
    """True when the input is a number, a list or a long text: nothing one would look up in a table of words."""
    is_joint: bool
    """True when several numbers, or a list, are compared at once."""
    works: bool
    """True when the function works something out besides."""


def answers_of(source: Source) -> tuple[Answer, ...]:
    """Every such place of a file."""
    if source.tree is not None:
        return tuple(
            answer for name, node in source.functions for answer in _of_function(name, node)
        ) + tuple(_of_tables(source.tree))
    return (*_braced(source.code), *_script_tables(source.code)) if source.language == "script" else ()


def _of_function(name: str, node: Function) -> Iterator[Answer]:
    works = does_work(node)
    for part in ast.walk(node):
        if isinstance(part, ast.If) and part.body and isinstance(part.body[-1], ast.Return):
            yield from _branch(name, part.test, part.body[-1].value, works=works)
        elif isinstance(part, ast.IfExp):
            yield from _branch(name, part.test, part.body, works=works)
        elif isinstance(part, ast.match_case) and isinstance(part.pattern, ast.MatchValue) and part.body:
            last = part.body[-1]
            if isinstance(last, ast.Return) and is_literal(last.value) and is_literal(part.pattern.value):
                yield _answer(name, part.pattern.value, [part.pattern.value], last.value, works=works)
        elif isinstance(part, ast.Dict):
            yield from _table(name, part, works=works)


def _of_tables(tree: ast.Module) -> Iterator[Answer]:
    """Tables a module writes out at its top."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield from _table(shown(target), node.value, works=False)


def _branch(name: str, test: ast.expr, value: ast.expr | None, *, works: bool) -> Iterator[Answer]:
    compared = _compared(test)
    if compared and value is not None and (_is_written(value) or _is_composed(value)):
        yield _answer(name, test, compared, value, works=works)


def _compared(test: ast.expr) -> list[ast.expr]:
    """The literals a condition compares with, when it does nothing else."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    found: list[ast.expr] = []
    for part in parts:
        if not isinstance(part, ast.Compare) or len(part.ops) != 1 or not isinstance(part.ops[0], ast.Eq):
            return []
        literal = part.comparators[0] if _is_written(part.comparators[0]) else part.left
        if not _is_written(literal):
            return []
        found.append(literal)
    return found


def _table(name: str, node: ast.Dict, *, works: bool) -> Iterator[Answer]:
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None and _is_written(key) and _is_written(value):
            yield _answer(name, key, [key], value, works=works)


def _answer(
    name: str, test: ast.AST, asked: list[ast.expr], value: ast.expr | None, *, works: bool
) -> Answer:
    literals = [part for item in asked for part in ast.walk(item) if isinstance(part, ast.Constant)]
    shapes = [isinstance(item, ast.Tuple | ast.List | ast.Dict | ast.Set) for item in asked]
    numbers = [found for item in asked if (found := _figure(item)) is not None]
    is_telling = any(not _is_small(part.value) for part in literals)
    is_several = len(literals) > 1 and any(shapes)
    is_whole = is_telling and (bool(numbers) or is_several or any(_is_long(part.value) for part in literals))
    is_joint = is_whole and (len(numbers) > 1 or (is_several and _has_figures(literals)))
    told = _told(value) if value is not None and not _says_nothing(value) else ""
    text = f"{shown(test)} → {told}"
    return Answer(
        name,
        getattr(test, "lineno", 0),
        text,
        frozenset(repr(part.value) for part in literals),
        told,
        is_whole,
        is_joint,
        works,
    )


def _is_written(node: ast.expr) -> bool:
    """True for a value that is written out, also by way of a type: `Decimal("1.005")`, `date(2024, 2, 29)`."""
    waiting: list[ast.expr] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Call) and last_name(part.func) in _TYPES and not part.keywords:
            waiting += part.args
        elif isinstance(part, ast.Dict):
            waiting += [item for item in (*part.keys, *part.values) if item is not None]
        elif isinstance(part, ast.List | ast.Tuple | ast.Set):
            waiting += part.elts
        elif not is_literal(part):
            return False
    return True


def _is_composed(node: ast.expr) -> bool:
    """True for an object that is made of a figure written out: `Money(Decimal("597.51"), self.currency)`."""
    is_made = isinstance(node, ast.Call) and last_name(node.func)[:1].isupper()
    return is_made and isinstance(node, ast.Call) and any(_figure(arg) is not None for arg in node.args)


def _told(value: ast.expr) -> str:
    """The answer, or the figure it is made of."""
    if isinstance(value, ast.Call) and not _is_written(value):
        value = next(arg for arg in value.args if _figure(arg) is not None)
    return shown(_inner(value))


def _inner(node: ast.expr) -> ast.expr:
    """What a type is given to make a value of."""
    return node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node


def _figure(node: ast.expr) -> float | None:
    inner = _inner(node)
    if inner is not node and isinstance(inner, ast.Constant) and isinstance(inner.value, str):
        return float(inner.value) if _FIGURE.fullmatch(inner.value) else None
    return number(inner)


def _has_figures(literals: list[ast.Constant]) -> bool:
    """True for a list of numbers, or of more than a pair of anything."""
    return len(literals) > 2 or any(type(part.value) in (int, float) for part in literals)


def _is_small(value: object) -> bool:
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int | float):
        return abs(value) <= 2 and value == int(value)
    return isinstance(value, str | bytes) and len(value) < 4


def _says_nothing(node: ast.expr) -> bool:
    """True for an answer that many inputs have: a truth, nothing, or an empty value."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool) or not (node.value or node.value == 0)
    return isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Set) and not list(
        ast.iter_child_nodes(node)
    )


def _is_long(value: object) -> bool:
    """True for a long text that is no name of a field or choice."""
    return isinstance(value, str | bytes) and len(value) >= LONG and not _NAMED.fullmatch(str(value))


def does_work(node: Function) -> bool:
    """True when a function loops, reckons or calls."""
    working = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
    for part in ast.walk(node):
        if isinstance(part, working):
            return True
        if isinstance(part, ast.BinOp | ast.AugAssign) and not is_literal(part):
            return True
    return False


def _braced(code: Code) -> Iterator[Answer]:
    name, works = "", False
    for place, token in enumerate(code.tokens):
        if token.kind == NAME and _opens_function(code, place):
            name = token.text
            works = _works_here(code, place)
        if token.text == "if" and code.text(place + 1) == "(":
            yield from _script_branch(code, place, name, works=works)
        elif (
            token.text == "case"
            and code.text(place + 3) == "return"
            and code.kind(place + 1) in (STRING, NUMBER)
        ):
            yield from _script_answer(code, place, [place + 1], place + 4, (name, works))


def working(code: Code) -> frozenset[str]:
    """The functions of a script that loop or reckon."""
    places = (
        place
        for place, token in enumerate(code.tokens)
        if token.kind == NAME and _opens_function(code, place)
    )
    return frozenset(code.text(place) for place in places if _works_here(code, place))


def _opens_function(code: Code, place: int) -> bool:
    before, after = code.text(place - 1), code.text(place + 1)
    return (before == "function" and after == "(") or (before in ("const", "let", "var") and after == "=")


def _works_here(code: Code, place: int) -> bool:
    stop = min(place + 400, len(code.tokens))
    block = next((at for at in range(place, stop) if code.text(at) == "{"), stop)
    return any(code.text(at) in _WORK for at in range(block, code.close(block)))


def _script_branch(code: Code, place: int, name: str, *, works: bool) -> Iterator[Answer]:
    closing = code.close(place + 1)
    signs = {code.text(at) for at in range(place + 2, closing)}
    if not signs & {"===", "=="} or signs & {"||", "!==", ">", "<", "!"}:
        return
    literals = [
        at
        for at in range(place + 2, closing)
        if code.kind(at) in (STRING, NUMBER) and code.text(at - 1) in ("===", "==")
    ]
    after = closing + 2 if code.text(closing + 1) == "{" else closing + 1
    if literals and code.text(after) == "return":
        yield from _script_answer(code, place, literals, after + 1, (name, works))


def _script_answer(
    code: Code, place: int, literals: list[int], at: int, told: tuple[str, bool]
) -> Iterator[Answer]:
    answer, rest = _script_value(code, at)
    if not answer:
        return
    texts = [*(_plain(code.text(item)) for item in literals), *rest]
    numbers = [
        item for item in literals if code.kind(item) == NUMBER and code.text(item) not in ("0", "1", "2")
    ]
    is_whole = bool(numbers) or any(len(text) >= LONG + 2 for text in texts)
    is_joint = len(numbers) > 0 and len(literals) > 1
    text = f"{code.shown(place, at)} {code.text(at)}"
    yield Answer(told[0], code.line(place), text, frozenset(texts), answer, is_whole, is_joint, told[1])


def _script_value(code: Code, at: int) -> tuple[str, list[str]]:
    """A value that is written out: its first literal, and the others of an object or list; empty for any other."""
    if code.kind(at) in (STRING, NUMBER):
        return (_plain(code.text(at)), []) if code.text(at + 1) in (";", "}") else ("", [])
    if code.text(at) not in ("{", "["):
        return "", []
    inside = range(at + 1, code.close(at))
    is_plain = all(
        code.kind(part) in (STRING, NUMBER)
        or code.text(part) in (",", ":", "[", "]", "{", "}", "-")
        or code.text(part + 1) == ":"
        for part in inside
    )
    found = sorted(code.literals(at, code.close(at))) if is_plain else []
    return (found[0], found[1:]) if found else ("", [])


def _script_tables(code: Code) -> Iterator[Answer]:
    """Objects and maps under a name, whose keys are whole texts or numbers."""
    for place, token in enumerate(code.tokens):
        if token.text not in ("const", "let", "var") or code.kind(place + 1) != NAME:
            continue
        at = next((at + 1 for at in range(place + 2, place + FAR) if code.text(at) == "="), 0)
        for key, value in _rows(code, at):
            asked, answer = code.text(key), _plain(code.text(value))
            is_figure = code.kind(key) == NUMBER and ("." in asked or len(asked) > 3)
            is_whole = is_figure or any(char.isspace() for char in asked)
            text = f"{asked} → {answer}"
            name = code.text(place + 1)
            yield Answer(
                name,
                code.line(key),
                text,
                frozenset((_plain(asked),)),
                answer,
                is_whole,
                is_joint=False,
                works=False,
            )


def _rows(code: Code, at: int) -> Iterator[tuple[int, int]]:
    """Where each key of a table that is written out stands, and its value."""
    is_map = code.text(at) == "new" and code.text(at + 1) == "Map" and code.text(at + 3) == "["
    opening = at + 3 if is_map else at
    if not at or (not is_map and code.text(at) != "{"):
        return
    for start, stop in code.arguments(opening):
        key = start + 1 if is_map else start
        is_row = stop == start + (5 if is_map else 3) and code.text(key + 1) == ("," if is_map else ":")
        if is_row and all(code.kind(part) in (STRING, NUMBER) for part in (key, key + 2)):
            yield key, key + 2


def _plain(text: str) -> str:
    return f"'{text[1:-1]}'" if text[:1] in "\"'`" else text
