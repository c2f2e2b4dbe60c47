"""Which definition of a function its name stands for once a Python module is imported.

A name is often defined several times: overloads before an implementation, alternatives for platforms and missing
imports, the parts of a property, registered handlers. The last one that is run counts, and those it does not replace.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from remand.domain.integrity.reading.python_tree import (
    Function,
    imports,
    is_false,
    is_true,
    last_name,
    number,
    shown,
    words,
)

MAX_DEFINITIONS = 64
"""Of one name, the last so many are read."""
MAX_CONDITIONS = 50
"""Conditions that are kept in mind of statements that came before."""
_PARTS = ("setter", "deleter")
_PLATFORM = frozenset(("version_info", "platform", "implementation", "hexversion"))
_UNKNOWN = frozenset(("environ", "getenv", "TYPE_CHECKING"))
_LEAVING = ast.Return | ast.Raise | ast.Continue | ast.Break
_LOWEST, _HIGHEST = (3, 0), (3, 999)


class Branch:
    """One way to go at a statement that has several."""

    def __init__(
        self,
        at: ast.stmt,
        way: str,
        test: ast.AST | None = None,
        *,
        is_always: bool = False,
        is_open: bool = False,
    ) -> None:
        self.at = id(at)
        self.way = way
        self._test = test
        self._is_always = is_always
        self._is_open = is_open

    @cached_property
    def condition(self) -> str:
        """What must hold for it to be gone; empty where it is gone by itself."""
        return "" if self._is_always else f"{self.way} {shown(self._test) if self._test else ''}"

    @cached_property
    def is_open(self) -> bool:
        """True where honest code goes one way or the other: by platform, by what can be imported, by an argument."""
        return self._is_open or (isinstance(self._test, ast.expr) and _is_platform(self._test))


class Definition:
    """One definition of a function."""

    def __init__(
        self,
        name: str,
        node: Function,
        path: tuple[Branch, ...],
        owner: ast.ClassDef | None,
        modules: set[str],
    ) -> None:
        self.name = name
        self.node = node
        self.owner = owner
        self._path = path
        self._modules = modules

    @cached_property
    def conditions(self) -> frozenset[str]:
        """What must hold for it to be run."""
        return frozenset(branch.condition for branch in self._path if branch.condition)

    def is_open(self, beyond: frozenset[str]) -> bool:
        """True when honest code may go another way at each of its conditions, beyond some."""
        return all(branch.is_open for branch in self._path if branch.condition not in beyond)

    def excludes(self, other: Definition) -> bool:
        """True when never both of them are run."""
        ways = {branch.at: branch.way for branch in self._path}
        return any(ways.get(branch.at, branch.way) != branch.way for branch in other._path)

    def replaces(self, earlier: Definition) -> bool:
        """True when it is run whenever the earlier one was, and leaves nothing of it."""
        return self.conditions <= earlier.conditions and self.may_replace(earlier)

    def may_replace(self, earlier: Definition) -> bool:
        """True when it leaves nothing of the earlier one if both are run."""
        return self.is_same_part(earlier) and not self.excludes(earlier)

    def is_same_part(self, other: Definition) -> bool:
        """False for another part of a property, and for a handler that is registered for something else."""
        if self._part != other._part:
            return False
        if not self.name.rpartition(".")[2].strip("_"):
            return self._decorators == other._decorators
        common = self._registered.keys() & other._registered.keys()
        return not common or any(self._registered[by] == other._registered[by] for by in common)

    @cached_property
    def _part(self) -> str:
        own = self.name.rpartition(".")[2]
        parts = (
            item.attr
            for item in self.node.decorator_list
            if isinstance(item, ast.Attribute) and item.attr in _PARTS and last_name(item.value) == own
        )
        return next(parts, "")

    @cached_property
    def _decorators(self) -> list[str]:
        return [*map(shown, self.node.decorator_list), self._first_type]

    @cached_property
    def _registered(self) -> dict[str, str]:
        """What it is registered for, by the name of what registers it: `register`, `command`, `route`."""
        found: dict[str, str] = {}
        for item in self.node.decorator_list:
            target = item.func if isinstance(item, ast.Call) else item
            if isinstance(target, ast.Attribute) and _first_name(target) not in self._modules:
                found[target.attr] = f"{shown(item)} {self._first_type}"
        return found

    @property
    def _first_type(self) -> str:
        arguments = (*self.node.args.posonlyargs, *self.node.args.args)
        return next((shown(item.annotation) for item in arguments if item.annotation is not None), "")


def definitions_of(tree: ast.Module) -> dict[str, list[Definition]]:
    """Every definition that may be run, by its name with the classes and functions around it, in order."""
    found: defaultdict[str, list[Definition]] = defaultdict(list)
    _Reading(tree, found).read(tree.body, "", (), None)
    return {name: items[-MAX_DEFINITIONS:] for name, items in found.items()}


def live(definitions: list[Definition]) -> list[Definition]:
    """Those that no later one replaces."""
    return [
        item
        for at, item in enumerate(definitions)
        if not any(later.replaces(item) for later in definitions[at + 1 :])
    ]


class _Reading:
    """A walk through a module that keeps in mind under which conditions it is."""

    def __init__(self, tree: ast.Module, found: defaultdict[str, list[Definition]]) -> None:
        self._found = found
        self._functions = 0
        """How many functions it is in: conditions in one are about its arguments."""
        nodes = list(ast.walk(tree))
        self._names = imports(nodes)
        self._modules = {
            name.asname or name.name.partition(".")[0]
            for node in nodes
            if isinstance(node, ast.Import)
            for name in node.names
        }
        self._flags = _flags(tree, nodes)

    def read(
        self, body: list[ast.stmt], prefix: str, path: tuple[Branch, ...], owner: ast.ClassDef | None
    ) -> None:
        """Takes the definitions of a body in."""
        for node in body:
            if isinstance(node, Function):
                self._add(f"{prefix}{node.name}", node, path, owner)
                self._functions += 1
                self.read(node.body, f"{prefix}{node.name}.", path, None)
                self._functions -= 1
            elif isinstance(node, ast.ClassDef):
                self.read(node.body, f"{prefix}{node.name}.", path, node)
            elif isinstance(node, ast.If):
                path = self._if(node, prefix, path, owner)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                for name, function in _lambdas(node):
                    self._add(f"{prefix}{name}", function, path, owner)
            else:
                for branch, inner in self._blocks(node):
                    self.read(inner, prefix, (*path, branch) if branch else path, owner)

    def _add(self, name: str, node: Function, path: tuple[Branch, ...], owner: ast.ClassDef | None) -> None:
        self._found[name].append(Definition(name, node, path, owner, self._modules))

    def _if(
        self, node: ast.If, prefix: str, path: tuple[Branch, ...], owner: ast.ClassDef | None
    ) -> tuple[Branch, ...]:
        """Reads both branches, but for one that is never run; returns the conditions for what follows."""
        truth = self._truth(node.test)
        after = path
        for way, inner, other in (("if", node.body, node.orelse), ("else", node.orelse, node.body)):
            if truth is (way == "else"):
                continue
            branch = Branch(node, way, node.test, is_open=self._functions > 0)
            self.read(inner, prefix, path if truth is not None else (*path, branch), owner)
            is_left = bool(other) and isinstance(other[-1], _LEAVING)
            if truth is None and is_left and len(path) < MAX_CONDITIONS:
                after = (*path, branch)
        return after

    def _blocks(self, node: ast.stmt) -> Iterator[tuple[Branch | None, list[ast.stmt]]]:
        if isinstance(node, ast.Try | ast.TryStar):
            begun = Branch(node, "try", is_always=True, is_open=True)
            yield from ((begun, node.body), (begun, node.orelse))
            is_raised = any(isinstance(item, ast.Raise) for item in node.body)
            for at, handler in enumerate(node.handlers):
                way = f"except {at}"
                yield Branch(node, way, handler.type, is_always=is_raised, is_open=True), handler.body
            yield None, node.finalbody
        elif isinstance(node, ast.Match):
            for at, case in enumerate(node.cases):
                yield Branch(node, f"case {at}", case.pattern, is_open=self._functions > 0), case.body
        else:
            for field in ("body", "orelse"):
                yield None, getattr(node, field, [])

    def _truth(self, test: ast.expr) -> bool | None:
        """Whether a condition always holds, or never; None when neither can be said."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._truth(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.Name) and test.id in self._flags:
            return self._flags[test.id]
        if is_true(test) or is_false(test):
            checks = (part for part in ast.walk(test) if last_name(part) == "TYPE_CHECKING")
            return is_true(test) if all(map(self._is_typing, checks)) else None
        return _by_version(test)

    def _is_typing(self, node: ast.AST) -> bool:
        """True for `TYPE_CHECKING` of the module that type checkers know, or of no module."""
        first = _first_name(node)
        module = self._names.get(first, first).partition(".")[0]
        return first not in self._flags and module in ("TYPE_CHECKING", "typing", "typing_extensions")


def _flags(tree: ast.Module, nodes: list[ast.AST]) -> dict[str, bool | None]:
    """Whether names hold that a module sets to one constant; None for those that it sets otherwise, or again."""
    found: dict[str, bool | None] = {}
    top = set(map(id, tree.body))
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        is_constant = id(node) in top and isinstance(value, ast.Constant)
        for target in targets:
            if isinstance(target, ast.Name):
                is_first = is_constant and target.id not in found
                found[target.id] = bool(value.value) if is_first and isinstance(value, ast.Constant) else None
    return found


def _first_name(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _lambdas(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, Function]]:
    """A lambda under a name, as the function it is."""
    if not isinstance(node.value, ast.Lambda):
        return
    body: list[ast.stmt] = [ast.copy_location(ast.Return(node.value.body), node.value)]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        if isinstance(target, ast.Name):
            function = ast.FunctionDef(target.id, node.value.args, body, [])
            yield target.id, ast.copy_location(function, node)


def _is_platform(test: ast.expr) -> bool:
    """True for a condition about the interpreter, the system, a flag of the module, or an import that may be missing."""
    parts = list(ast.walk(test))
    known = words(parts)
    if known & _UNKNOWN:
        return False
    is_missing = any(
        isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Is | ast.IsNot) for part in parts
    )
    flags = any(isinstance(part, ast.Name | ast.Attribute) and last_name(part).isupper() for part in parts)
    return bool(known & _PLATFORM) or {"os", "name"} <= known or is_missing or flags


def _by_version(test: ast.expr) -> bool | None:
    """What a comparison with Python's version is in every Python 3; None when it depends."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    is_major = (
        isinstance(test.left, ast.Subscript)
        and last_name(test.left.value) == "version_info"
        and number(test.left.slice) == 0
    ) or (last_name(test.left) == "major")
    if not is_major and last_name(test.left) != "version_info":
        return None
    bound = test.comparators[0]
    parts = bound.elts if isinstance(bound, ast.Tuple) else [bound]
    figures = [number(part) for part in parts]
    if any(figure is None for figure in figures) or isinstance(bound, ast.Tuple) is is_major:
        return None
    wanted = tuple(figure for figure in figures if figure is not None)
    results = {
        _compared(test.ops[0], known[:1] if is_major else known, wanted) for known in (_LOWEST, _HIGHEST)
    }
    return results.pop() if len(results) == 1 else None


def _compared(sign: ast.cmpop, left: tuple[float, ...], right: tuple[float, ...]) -> bool | None:
    if isinstance(sign, ast.Lt):
        return left < right
    if isinstance(sign, ast.LtE):
        return left <= right
    if isinstance(sign, ast.Gt):
        return left > right
    return left >= right if isinstance(sign, ast.GtE) else None
