"""Functions that did some work and now return a constant or their own argument."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from remand.integrity.changeset import Changeset
from remand.integrity.paths import is_packed_path, is_product_path
from remand.integrity.readers.python_tree import (
    Function,
    has_computation,
    imported_names,
    is_false,
    is_literal,
    is_true,
    last_name,
    node_source,
    node_words,
    parameter_names,
    parse_number,
    walk_tree,
    without_docstring,
)
from remand.integrity.readers.source import SourceFile
from remand.integrity.suspicions import Suspicion, shorten, suspicion

MAX_DEFINITIONS = 64
"""The last so many definitions of a name are read."""
MAX_CONDITIONS = 50
"""How many conditions of earlier statements are remembered."""
_PROPERTY_PARTS = ("setter", "deleter")
_PLATFORM = frozenset(("version_info", "platform", "implementation", "hexversion"))
_UNKNOWN = frozenset(("environ", "getenv", "TYPE_CHECKING"))
_LEAVING = ast.Return | ast.Raise | ast.Continue | ast.Break
_LOWEST, _HIGHEST = (3, 0), (3, 999)


class DefinitionBranch:
    """One branch of a statement."""

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
        """The condition of the branch; empty if it is unconditional."""
        return "" if self._is_always else f"{self.way} {node_source(self._test) if self._test else ''}"

    @cached_property
    def is_open(self) -> bool:
        """True if honest code may take either branch: by platform, available imports, or an argument."""
        return self._is_open or (isinstance(self._test, ast.expr) and _is_platform(self._test))


class FunctionDefinition:
    def __init__(
        self,
        name: str,
        node: Function,
        path: tuple[DefinitionBranch, ...],
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
        """The conditions for it to be executed."""
        return frozenset(branch.condition for branch in self._path if branch.condition)

    def is_open(self, beyond: frozenset[str]) -> bool:
        """True if honest code may or may not meet each of its conditions, except the given ones."""
        return all(branch.is_open for branch in self._path if branch.condition not in beyond)

    def excludes(self, other: FunctionDefinition) -> bool:
        """True if both are never executed together."""
        ways = {branch.at: branch.way for branch in self._path}
        return any(ways.get(branch.at, branch.way) != branch.way for branch in other._path)

    def replaces(self, earlier: FunctionDefinition) -> bool:
        """True if it is executed whenever the earlier one was, and replaces it."""
        return self.conditions <= earlier.conditions and self.may_replace(earlier)

    def may_replace(self, earlier: FunctionDefinition) -> bool:
        """True if it replaces the earlier one if both are executed."""
        return self.is_same_part(earlier) and not self.excludes(earlier)

    def is_same_part(self, other: FunctionDefinition) -> bool:
        """False for another part of a property, and for a handler registered for something else."""
        if self._part != other._part:
            return False
        if not self.name.rpartition(".")[2].strip("_"):
            return self._decorators == other._decorators
        common = self._registrations.keys() & other._registrations.keys()
        return not common or any(self._registrations[by] == other._registrations[by] for by in common)

    @cached_property
    def _part(self) -> str:
        own = self.name.rpartition(".")[2]
        parts = (
            item.attr
            for item in self.node.decorator_list
            if isinstance(item, ast.Attribute)
            and item.attr in _PROPERTY_PARTS
            and last_name(item.value) == own
        )
        return next(parts, "")

    @cached_property
    def _decorators(self) -> list[str]:
        return [*map(node_source, self.node.decorator_list), self._first_type]

    @cached_property
    def _registrations(self) -> dict[str, str]:
        """What it is registered for, by the registering name: `register`, `command`, `route`."""
        found: dict[str, str] = {}
        for item in self.node.decorator_list:
            target = item.func if isinstance(item, ast.Call) else item
            if isinstance(target, ast.Attribute) and _first_name(target) not in self._modules:
                found[target.attr] = f"{node_source(item)} {self._first_type}"
        return found

    @property
    def _first_type(self) -> str:
        arguments = (*self.node.args.posonlyargs, *self.node.args.args)
        return next((node_source(item.annotation) for item in arguments if item.annotation is not None), "")


def definitions_by_name(tree: ast.Module) -> dict[str, list[FunctionDefinition]]:
    """All definitions that may be executed, by qualified name, in order."""
    found: defaultdict[str, list[FunctionDefinition]] = defaultdict(list)
    _DefinitionReader(tree, found).read(tree.body, "", (), None)
    return {name: items[-MAX_DEFINITIONS:] for name, items in found.items()}


def live_definitions(definitions: list[FunctionDefinition]) -> list[FunctionDefinition]:
    """The definitions that no later one replaces."""
    return [
        item
        for at, item in enumerate(definitions)
        if not any(later.replaces(item) for later in definitions[at + 1 :])
    ]


class _DefinitionReader:
    """Walks a module and records the conditions of each definition."""

    def __init__(self, tree: ast.Module, found: defaultdict[str, list[FunctionDefinition]]) -> None:
        self._found = found
        self._functions = 0
        """How many functions it is in: conditions in one are about its arguments."""
        nodes = list(walk_tree(tree))
        self._names = imported_names(nodes)
        self._modules = {
            name.asname or name.name.partition(".")[0]
            for node in nodes
            if isinstance(node, ast.Import)
            for name in node.names
        }
        self._flags = _constant_flags(tree, nodes)

    def read(
        self,
        body: list[ast.stmt],
        prefix: str,
        path: tuple[DefinitionBranch, ...],
        owner: ast.ClassDef | None,
    ) -> None:
        """Reads the definitions of a body."""
        for node in body:
            if isinstance(node, Function):
                self._add(f"{prefix}{node.name}", node, path, owner)
                self._functions += 1
                self.read(node.body, f"{prefix}{node.name}.", path, None)
                self._functions -= 1
            elif isinstance(node, ast.ClassDef):
                self.read(node.body, f"{prefix}{node.name}.", path, node)
            elif isinstance(node, ast.If):
                path = self._read_if(node, prefix, path, owner)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                for name, function in _lambda_functions(node):
                    self._add(f"{prefix}{name}", function, path, owner)
            else:
                for branch, inner in self._statement_blocks(node):
                    self.read(inner, prefix, (*path, branch) if branch else path, owner)

    def _add(
        self, name: str, node: Function, path: tuple[DefinitionBranch, ...], owner: ast.ClassDef | None
    ) -> None:
        self._found[name].append(FunctionDefinition(name, node, path, owner, self._modules))

    def _read_if(
        self, node: ast.If, prefix: str, path: tuple[DefinitionBranch, ...], owner: ast.ClassDef | None
    ) -> tuple[DefinitionBranch, ...]:
        """Reads both branches, except one that is never executed; returns the conditions for what follows."""
        truth = self._truth(node.test)
        after = path
        for way, inner, other in (("if", node.body, node.orelse), ("else", node.orelse, node.body)):
            if truth is (way == "else"):
                continue
            branch = DefinitionBranch(node, way, node.test, is_open=self._functions > 0)
            self.read(inner, prefix, path if truth is not None else (*path, branch), owner)
            is_left = bool(other) and isinstance(other[-1], _LEAVING)
            if truth is None and is_left and len(path) < MAX_CONDITIONS:
                after = (*path, branch)
        return after

    def _statement_blocks(self, node: ast.stmt) -> Iterator[tuple[DefinitionBranch | None, list[ast.stmt]]]:
        if isinstance(node, ast.Try | ast.TryStar):
            begun = DefinitionBranch(node, "try", is_always=True, is_open=True)
            yield from ((begun, node.body), (begun, node.orelse))
            is_raised = any(isinstance(item, ast.Raise) for item in node.body)
            for at, handler in enumerate(node.handlers):
                way = f"except {at}"
                yield (
                    DefinitionBranch(node, way, handler.type, is_always=is_raised, is_open=True),
                    handler.body,
                )
            yield None, node.finalbody
        elif isinstance(node, ast.Match):
            for at, case in enumerate(node.cases):
                yield (
                    DefinitionBranch(node, f"case {at}", case.pattern, is_open=self._functions > 0),
                    case.body,
                )
        else:
            for field in ("body", "orelse"):
                yield None, getattr(node, field, [])

    def _truth(self, test: ast.expr) -> bool | None:
        """True or False for a condition that always or never holds, else None."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._truth(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.Name) and test.id in self._flags:
            return self._flags[test.id]
        if is_true(test) or is_false(test):
            checks = (part for part in walk_tree(test) if last_name(part) == "TYPE_CHECKING")
            return is_true(test) if all(map(self._is_typing, checks)) else None
        return _version_truth(test)

    def _is_typing(self, node: ast.AST) -> bool:
        """True for `TYPE_CHECKING`, on its own or of the module that type checkers know."""
        first = _first_name(node)
        module = self._names.get(first, first).partition(".")[0]
        return first not in self._flags and module in ("TYPE_CHECKING", "typing", "typing_extensions")


def _constant_flags(tree: ast.Module, nodes: list[ast.AST]) -> dict[str, bool | None]:
    """For names that a module sets to one constant, whether it is true; None for those set otherwise, or again."""
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


def _lambda_functions(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, Function]]:
    """Named lambdas, as functions."""
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
    parts = list(walk_tree(test))
    known = node_words(parts)
    if known & _UNKNOWN:
        return False
    is_missing = any(
        isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Is | ast.IsNot) for part in parts
    )
    flags = any(isinstance(part, ast.Name | ast.Attribute) and last_name(part).isupper() for part in parts)
    return bool(known & _PLATFORM) or {"os", "name"} <= known or is_missing or flags


def _version_truth(test: ast.expr) -> bool | None:
    """The result of a comparison with Python's version, if it is the same in every Python 3, else None."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    is_major = (
        isinstance(test.left, ast.Subscript)
        and last_name(test.left.value) == "version_info"
        and parse_number(test.left.slice) == 0
    ) or (last_name(test.left) == "major")
    if not is_major and last_name(test.left) != "version_info":
        return None
    bound = test.comparators[0]
    parts = bound.elts if isinstance(bound, ast.Tuple) else [bound]
    figures = [parse_number(part) for part in parts]
    if any(figure is None for figure in figures) or isinstance(bound, ast.Tuple) is is_major:
        return None
    wanted = tuple(figure for figure in figures if figure is not None)
    results = {
        _compare_versions(test.ops[0], known[:1] if is_major else known, wanted)
        for known in (_LOWEST, _HIGHEST)
    }
    return results.pop() if len(results) == 1 else None


def _compare_versions(sign: ast.cmpop, left: tuple[float, ...], right: tuple[float, ...]) -> bool | None:
    if isinstance(sign, ast.Lt):
        return left < right
    if isinstance(sign, ast.LtE):
        return left <= right
    if isinstance(sign, ast.Gt):
        return left > right
    return left >= right if isinstance(sign, ast.GtE) else None


SOME_WORK = 3


def find_hollowed_functions(changeset: Changeset) -> Iterator[Suspicion]:
    """Functions of the base whose name now stands for one that does no work."""
    for view in changeset.views:
        if view.before is None or view.after is None or not is_product_path(view.path):
            continue
        if view.before.tree is not None and view.after.tree is not None:
            for item in _hollowed_definitions(changeset, view.before.tree, view.after.tree):
                found = f"`{item.name}` is now `{shorten(_body_text(item.node))}`"
                yield suspicion("body_hollowed", view.path, item.node.lineno, found)
        elif view.before.language == "script" and not is_packed_path(view.path):
            yield from _find_hollowed_scripts(view.path, view.before, view.after)


_GIVES_UP = frozenset(("exit", "_exit", "abort", "error", "fail", "SystemExit", "quit"))


def find_unfailing_commands(changeset: Changeset) -> Iterator[Suspicion]:
    """Commands that catch everything they do, and report success all the same."""
    for view in changeset.views:
        if view.before is None or view.after is None or not is_product_path(view.path):
            continue
        known = {name for name, node in view.before.functions if _unfailing_handlers(node)}
        statuses = {
            last_name(call.args[0].func)
            for call in view.after.nodes_of(ast.Call)
            if last_name(call.func) in _GIVES_UP and call.args and isinstance(call.args[0], ast.Call)
        }
        for name, node in view.after.functions:
            handlers = _unfailing_handlers(node) if name not in known else []
            if handlers and (node.name == "main" or node.name in statuses):
                found = f"`{name}` catches every error and reports success"
                yield suspicion("failure_ignored", view.path, handlers[0].lineno, found, name)


def _unfailing_handlers(node: Function) -> list[ast.ExceptHandler]:
    """The handlers of everything around a function's work that leave it with nothing, or a zero."""
    last = node.body[-1]
    handlers = [one for item in node.body if isinstance(item, ast.Try) for one in item.handlers]
    return [
        one
        for one in handlers
        if (one.type is None or last_name(one.type) in ("Exception", "BaseException"))
        and not any(map(_tells_failure, walk_tree(one)))
        and (any(isinstance(part, ast.Return) for part in one.body) or not _tells_failure(last))
    ]


def _tells_failure(node: ast.AST) -> bool:
    """True for a statement by which a command may say that it failed."""
    if isinstance(node, ast.Return):
        is_nothing = node.value is None or ast.unparse(node.value) == "None"
        return not is_nothing and parse_number(node.value) != 0
    is_assigned = isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr)
    gives_up = isinstance(node, ast.Call) and last_name(node.func) in _GIVES_UP
    return is_assigned or gives_up or isinstance(node, ast.Raise | ast.Continue)


def _hollowed_definitions(
    changeset: Changeset, before: ast.Module, after: ast.Module
) -> Iterator[FunctionDefinition]:
    old, new = definitions_by_name(before), definitions_by_name(after)
    for name in new.keys() & old.keys():
        if not any(_is_hollow(item.node) for item in new[name]):
            continue
        known, now = live_definitions(old[name]), live_definitions(new[name])
        yield from (
            item
            for item in now
            if _is_hollow(item.node) and _is_hollowed(item, known, now) and not _is_declared(item, changeset)
        )


def _is_hollowed(
    item: FunctionDefinition, known: list[FunctionDefinition], now: list[FunctionDefinition]
) -> bool:
    """True if a hollow definition replaces one that worked on the base.

    Another alternative that does nothing is honest if the conditions are about the platform: the work is
    still done where it was, and the new one runs elsewhere.
    """
    known = [other for other in known if other.is_same_part(item)]
    now = [other for other in now if other.is_same_part(item)]
    hollow = [other for other in known if _is_hollow(other.node)]
    worked = [other for other in known if _has_work(other.node)]
    if not worked or any(other.conditions == item.conditions for other in hollow):
        return False
    if any(item.conditions <= other.conditions for other in worked):
        return True
    working = [other for other in now if _has_work(other.node)]
    if len(working) < len(worked):
        return True
    if sum(_is_hollow(other.node) for other in now) <= len(hollow):
        return False
    conditions = frozenset[str]().union(*(other.conditions for other in worked))
    is_behind = any(other.node.lineno < item.node.lineno and item.may_replace(other) for other in working)
    return is_behind or not item.is_open(beyond=conditions)


def _is_declared(item: FunctionDefinition, changeset: Changeset) -> bool:
    """True for an abstract method, or one of an interface, that a subclass implements."""
    body = without_docstring(item.node.body)
    is_stub = not body or isinstance(body[0], ast.Pass | ast.Expr)
    if item.owner is None or not is_stub or not _is_abstract(item.node, item.owner):
        return False
    own = item.name.rpartition(".")[2]
    trees = (view.after.tree for view in changeset.views if view.after is not None)
    return any(
        isinstance(node, ast.ClassDef)
        and item.owner.name in _bases(node)
        and any(isinstance(one, Function) and one.name == own and _has_work(one) for one in node.body)
        for tree in trees
        if tree is not None
        for node in walk_tree(tree)
    )


def _is_abstract(node: Function, owner: ast.ClassDef) -> bool:
    bases = _bases(owner)
    is_marked = any(last_name(item) == "abstractmethod" for item in node.decorator_list)
    return "Protocol" in bases or (is_marked and not bases.isdisjoint(("ABC", "ABCMeta")))


def _bases(node: ast.ClassDef) -> set[str]:
    """The names of a class's bases and metaclass."""
    given = (*node.bases, *(item.value for item in node.keywords))
    return {last_name(item.value if isinstance(item, ast.Subscript) else item) for item in given}


def _body_text(node: Function) -> str:
    return "; ".join(node_source(item) for item in without_docstring(node.body)) or "empty"


def _has_work(node: Function) -> bool:
    """True for a function of several statements, or one that loops or calculates in more than one step."""
    body = without_docstring(node.body)
    statements = sum(isinstance(part, ast.stmt) for item in body for part in walk_tree(item))
    return statements >= SOME_WORK or (len(body) > 1 and has_computation(node))


def _is_hollow(node: Function) -> bool:
    body = without_docstring(node.body)
    if len(body) > 1:
        return False
    if not body or isinstance(body[0], ast.Pass):
        return True
    value = body[0].value if isinstance(body[0], ast.Return | ast.Expr) else node
    if isinstance(body[0], ast.Return) and isinstance(value, ast.Name):
        return value.id in parameter_names(node)
    return value is None or (isinstance(value, ast.expr) and is_literal(value))


_COMPARES = re.compile(r"return\s*[A-Za-z_$][\w$.]*(?:[<>]=?|[!=]==?)")


def _find_hollowed_scripts(path: str, before: SourceFile, after: SourceFile) -> Iterator[Suspicion]:
    old, new = _function_blocks(before), _function_blocks(after)
    for name, (_, size) in old.items():
        text, tokens = new.get(name, ("", 99))
        is_constant = tokens <= 4 and (tokens == 0 or text.startswith("return")) and "(" not in text
        is_constant = is_constant and not _COMPARES.match(text)
        if size >= 20 and name in new and is_constant:
            yield suspicion(
                "body_hollowed", path, 0, f"`{name[1]}` is now `{text or 'empty'}`", f"{name} {text}"
            )


def _function_blocks(source: SourceFile) -> dict[tuple[str, str], tuple[str, int]]:
    """The functions of a script by class and name: their bodies as text, and their number of tokens."""
    code = source.code
    found: dict[tuple[str, str], tuple[str, int]] = {}
    owners: list[tuple[str, int]] = []
    for place, token in enumerate(code.tokens):
        if token.text == "class":
            opening = next((at for at in range(place, place + 40) if code.text(at) == "{"), place)
            owners.append((code.text(place + 1), code.closing_place(opening)))
        while owners and owners[-1][1] <= place:
            owners.pop()
        if token.kind != "name" or code.text(place + 1) not in ("(", "="):
            continue
        at = place + 1 if code.text(place + 1) == "(" else place + 2
        at = at + 1 if code.text(at) == "async" else at
        block = code.closing_place(at) + 1 if code.text(at) == "(" else at
        is_object = code.text(place + 1) == "=" and code.text(block) != "=>"
        block = block + 1 if code.text(block) == "=>" else block
        if (
            not is_object
            and code.text(block) == "{"
            and token.text not in ("if", "for", "while", "switch", "catch")
        ):
            end = code.closing_place(block)
            owner = owners[-1][0] if owners else ""
            found[owner, token.text] = code.text_between(block + 1, min(end, block + 8)), end - block - 1
    return found
