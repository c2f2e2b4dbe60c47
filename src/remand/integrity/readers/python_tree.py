"""Python's syntax tree: parsed in one place, walked without recursion."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from hashlib import sha256

Function = ast.FunctionDef | ast.AsyncFunctionDef
_TEXTLESS = (ast.Load, ast.Store, ast.Del)
MAX_DEPTH = 300
"""Limit of nesting; nobody writes that many levels by hand."""


class TooDeep(Exception):  # noqa: N818 - a property of the text, not a fault of ours
    """The text is nested too deeply to be read."""


_WHOLE = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def child_nodes(node: ast.AST) -> list[ast.AST]:
    """The direct children of a node, cached on it: every rule walks the same trees."""
    kept: list[ast.AST] | None = node.__dict__.get("_child_nodes")
    if kept is None:
        kept = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                kept.append(value)
            elif isinstance(value, list):
                kept += [one for one in value if isinstance(one, ast.AST)]
        node.__dict__["_child_nodes"] = kept
    return kept


def walk_tree(node: ast.AST) -> list[ast.AST]:
    """A node and everything inside it, level by level, like `ast.walk`. The tree must not change afterwards."""
    kept: list[ast.AST] | None = node.__dict__.get("_all_nodes")
    if kept is not None:
        return kept
    found = [node]
    for one in found:  # The list grows meanwhile.
        found += one.__dict__.get("_child_nodes") or child_nodes(one)
    if isinstance(node, _WHOLE):
        node.__dict__["_all_nodes"] = found
    return found


def parse_python(text: str) -> ast.Module | None:
    """The tree of a text; None if it is not valid in this Python version. Raises TooDeep."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return None
        except (RecursionError, MemoryError) as error:
            raise TooDeep from error
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise TooDeep
        level = [child for node in level for child in child_nodes(node)]
    return tree


_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _plain_source(node: ast.AST | None, depth: int = 0) -> str:
    """What `ast.unparse` makes of names, members, calls, values and their comparison; empty for anything else.

    Most of what tests assert is made of these, and unparsing took a third of the time of reading them.
    """
    if depth > 20:
        return ""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant):
        is_usual = node.kind is None and isinstance(node.value, str | bool | int | bytes | None)
        return repr(node.value) if is_usual else ""
    if isinstance(node, ast.Attribute):
        owner = "" if isinstance(node.value, ast.Constant) else _plain_source(node.value, depth + 1)
        return owner and f"{owner}.{node.attr}"
    if isinstance(node, ast.Subscript):
        owner, item = _plain_source(node.value, depth + 1), _plain_source(node.slice, depth + 1)
        return f"{owner}[{item}]" if owner and item else ""
    if isinstance(node, ast.Call):
        named = ((one.arg, _plain_source(one.value, depth + 1)) for one in node.keywords)
        given = [_plain_source(one, depth + 1) for one in node.args]
        given += [f"{name}={value}" if name and value else "" for name, value in named]
        function = _plain_source(node.func, depth + 1)
        return f"{function}({', '.join(given)})" if function and all(given) else ""
    if isinstance(node, ast.Compare) and depth == 0:
        sides = [_plain_source(one, depth + 1) for one in (node.left, *node.comparators)]
        signs = (_SIGNS[type(one)] for one in node.ops)
        rest = "".join(f" {sign} {side}" for sign, side in zip(signs, sides[1:], strict=True))
        return sides[0] + rest if all(sides) else ""
    return ""


def node_source(node: ast.AST) -> str:
    """The code of a node in a normal layout."""
    try:
        return _plain_source(node) or ast.unparse(node)
    except RecursionError:
        return f"<{type(node).__name__} at line {getattr(node, 'lineno', 0)}>"


def dotted_name(node: ast.AST | None) -> str:
    """A dotted name such as `pytest.mark.skip`; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Call):
        parts.append("()")
    elif isinstance(node, ast.Name):
        parts.append(node.id)
    else:
        return ""
    return ".".join(reversed(parts))


def last_name(node: ast.AST | None) -> str:
    """The last part of a name: `skip` of `pytest.mark.skip`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def called_name(node: ast.AST) -> str:
    """The dotted name of a called function; empty if it is no name."""
    return dotted_name(node.func) if isinstance(node, ast.Call) else ""


def call_argument(call: ast.Call, name: str, place: int | None = None) -> ast.expr | None:
    """An argument by keyword, or by position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if place is not None and place < len(call.args):
        return call.args[place]
    return None


def parse_number(node: ast.AST | None) -> float | None:
    """The number that a node is, with its sign; None if it is none."""
    sign = 1.0
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -sign if isinstance(node.op, ast.USub) else sign
        node = node.operand
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        try:
            return sign * float(node.value)  # type: ignore[arg-type]  # type() was asked above
        except OverflowError:
            return sign * float("inf")
    return None


def is_literal(node: ast.AST | None) -> bool:
    """True if a node consists of constants only."""
    if node is None:
        return False
    whole = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.operator, ast.unaryop)
    return all(isinstance(part, (*whole, *_TEXTLESS, ast.BinOp)) for part in walk_tree(node))


def all_nodes(nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """Nodes with everything inside them."""
    return [part for node in nodes for part in walk_tree(node)]


def constant_texts(parts: Iterable[ast.AST]) -> frozenset[str]:
    """The constants in some nodes as written, without small ones."""
    found = (part.value for part in parts if isinstance(part, ast.Constant))
    written = {
        _constant_text(value) for value in found if not isinstance(value, bool | None | type(Ellipsis))
    }
    return frozenset(written - {"0", "1", "''", "2", "-1"})


def _constant_text(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"int{value.bit_length()}"
    return repr(value)[:200]


def node_words(parts: Iterable[ast.AST]) -> frozenset[str]:
    """The names, attributes and constants in some nodes."""
    return frozenset(word for part in parts if (word := _node_word(part)))


def _node_word(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant):
        return _constant_text(node.value)
    return node.arg or "" if isinstance(node, ast.keyword) else ""


def fingerprint(parts: Iterable[ast.AST]) -> str:
    """Equal for the same code, whatever its layout, comments and position."""
    words = (f"{type(part).__name__}:{_node_word(part)}" for part in parts if not isinstance(part, _TEXTLESS))
    return sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:16]


def string_constants(parts: Iterable[ast.AST]) -> frozenset[str]:
    constants = (part.value for part in parts if isinstance(part, ast.Constant))
    return frozenset(value for value in constants if isinstance(value, str))


def decorator_names(node: Function | ast.ClassDef) -> list[str]:
    """The last names of the decorators of a function or class, called or not."""
    return [last_name(item.func if isinstance(item, ast.Call) else item) for item in node.decorator_list]


def parameter_names(node: Function) -> frozenset[str]:
    arguments = node.args
    return frozenset(item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def called_functions(parts: Iterable[ast.AST]) -> frozenset[str]:
    """The last names of all called functions in some nodes."""
    return frozenset(name for part in parts if isinstance(part, ast.Call) and (name := last_name(part.func)))


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a body without its docstring."""
    first = body[0] if body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return body[1:]
    return body


def is_false(node: ast.expr) -> bool:
    """True for a condition that obviously never holds."""
    if isinstance(node, ast.Constant):
        return not node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return is_true(node.operand)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return any(is_false(value) for value in node.values)
    return last_name(node) == "TYPE_CHECKING"


def is_true(node: ast.expr) -> bool:
    """True for a condition that obviously always holds."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return is_false(node.operand)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return any(is_true(value) for value in node.values)
    return isinstance(node, ast.Tuple | ast.List) and bool(node.elts)


def imported_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """What each imported name stands for, such as `t` for `time` and `TestCase` for `unittest.TestCase`."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for name in node.names:
                whole = name.name if name.asname else name.name.partition(".")[0]
                found[name.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            found |= {name.asname or name.name: f"{source}.{name.name}" for name in node.names}
    return found


def resolve_name(node: ast.AST | None, names: dict[str, str]) -> str:
    """A dotted name with its first part replaced by what was imported under it."""
    first, dot, rest = dotted_name(node).partition(".")
    return f"{names.get(first, first)}{dot}{rest}"


def iterate_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Every function, named with the classes and functions around it, such as `Cart.total`."""
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        prefix, node = stack.pop()
        for child in _inner_statements(node):
            if isinstance(child, Function):
                yield f"{prefix}{child.name}", child
            inside = f"{prefix}{child.name}." if isinstance(child, Function | ast.ClassDef) else prefix
            stack.append((inside, child))


def _inner_statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements, handlers and cases directly inside a node."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, field, None)
        if isinstance(inner, list):
            yield from inner


def import_time_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported: not function bodies and the `__main__` block."""
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, Function | ast.Lambda) or is_main_guard(node):
            continue
        yield node
        stack.extend(child_nodes(node))


def is_main_guard(node: ast.AST) -> bool:
    """True for the block of a module that runs only when it is the main program."""
    return isinstance(node, ast.If) and "__name__" in node_words(walk_tree(node.test))


def has_computation(node: Function) -> bool:
    """True if a function loops, calculates or calls."""
    working = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
    for part in walk_tree(node):
        if isinstance(part, working):
            return True
        if isinstance(part, ast.BinOp | ast.AugAssign) and not is_literal(part):
            return True
    return False
