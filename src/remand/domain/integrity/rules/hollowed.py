"""Functions that did something and now return a constant or their own argument."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_product_path
from remand.domain.integrity.reading.answers import does_work
from remand.domain.integrity.reading.definitions import Definition, definitions_of, live
from remand.domain.integrity.reading.python_tree import (
    Function,
    is_literal,
    last_name,
    shown,
    without_docstring,
)
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene

SOME_WORK = 3


def hollowed(scene: Scene) -> Iterator[Suspicion]:
    """Functions of the base whose name stands for one that does no work any more."""
    for view in scene.views:
        if view.before is None or view.after is None or not is_product_path(view.path):
            continue
        if view.before.tree is not None and view.after.tree is not None:
            for item in _python(scene, view.before.tree, view.after.tree):
                found = f"`{item.name}` is now `{short(_body(item.node))}`"
                yield suspicion("body_hollowed", view.path, item.node.lineno, found)
        elif view.before.language == "script":
            yield from _script(view.path, view.before, view.after)


def _python(scene: Scene, before: ast.Module, after: ast.Module) -> Iterator[Definition]:
    old, new = definitions_of(before), definitions_of(after)
    for name in new.keys() & old.keys():
        if not any(_is_hollow(item.node) for item in new[name]):
            continue
        known, now = live(old[name]), live(new[name])
        yield from (
            item
            for item in now
            if _is_hollow(item.node) and _is_hollowed(item, known, now) and not _is_declared(item, scene)
        )


def _is_hollowed(item: Definition, known: list[Definition], now: list[Definition]) -> bool:
    """True when a hollow definition stands where one worked on the base.

    One more alternative that does nothing is honest, where the conditions are about the platform: the work is still
    done where it was, and the new one is run elsewhere.
    """
    known = [other for other in known if other.is_same_part(item)]
    now = [other for other in now if other.is_same_part(item)]
    hollow = [other for other in known if _is_hollow(other.node)]
    worked = [other for other in known if _works(other.node)]
    if not worked or any(other.conditions == item.conditions for other in hollow):
        return False
    if any(item.conditions <= other.conditions for other in worked):
        return True
    working = [other for other in now if _works(other.node)]
    if len(working) < len(worked):
        return True
    if sum(_is_hollow(other.node) for other in now) <= len(hollow):
        return False
    conditions = frozenset[str]().union(*(other.conditions for other in worked))
    is_behind = any(other.node.lineno < item.node.lineno and item.may_replace(other) for other in working)
    return is_behind or not item.is_open(beyond=conditions)


def _is_declared(item: Definition, scene: Scene) -> bool:
    """True for a method of an interface, or an abstract one, that a subclass implements."""
    body = without_docstring(item.node.body)
    is_stub = not body or isinstance(body[0], ast.Pass | ast.Expr)
    if item.owner is None or not is_stub or not _is_abstract(item.node, item.owner):
        return False
    own = item.name.rpartition(".")[2]
    trees = (view.after.tree for view in scene.views if view.after is not None)
    return any(
        isinstance(node, ast.ClassDef)
        and item.owner.name in _bases(node)
        and any(isinstance(one, Function) and one.name == own and _works(one) for one in node.body)
        for tree in trees
        if tree is not None
        for node in ast.walk(tree)
    )


def _is_abstract(node: Function, owner: ast.ClassDef) -> bool:
    bases = _bases(owner)
    is_marked = any(last_name(item) == "abstractmethod" for item in node.decorator_list)
    return "Protocol" in bases or (is_marked and not bases.isdisjoint(("ABC", "ABCMeta")))


def _bases(node: ast.ClassDef) -> set[str]:
    """The names of what a class inherits from, its metaclass among them."""
    given = (*node.bases, *(item.value for item in node.keywords))
    return {last_name(item.value if isinstance(item, ast.Subscript) else item) for item in given}


def _body(node: Function) -> str:
    return "; ".join(shown(item) for item in without_docstring(node.body)) or "empty"


def _works(node: Function) -> bool:
    """True for a function of some statements, or one that loops or reckons in more than one step."""
    body = without_docstring(node.body)
    statements = sum(isinstance(part, ast.stmt) for item in body for part in ast.walk(item))
    return statements >= SOME_WORK or (len(body) > 1 and does_work(node))


def _is_hollow(node: Function) -> bool:
    body = without_docstring(node.body)
    if len(body) > 1:
        return False
    if not body or isinstance(body[0], ast.Pass):
        return True
    value = body[0].value if isinstance(body[0], ast.Return | ast.Expr) else node
    if isinstance(body[0], ast.Return) and isinstance(value, ast.Name):
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        return value.id in {argument.arg for argument in given}
    return value is None or (isinstance(value, ast.expr) and is_literal(value))


def _script(path: str, before: Source, after: Source) -> Iterator[Suspicion]:
    old, new = _blocks(before), _blocks(after)
    for name, (_, size) in old.items():
        text, tokens = new.get(name, ("", 99))
        is_constant = tokens <= 4 and (tokens == 0 or text.startswith("return")) and "(" not in text
        if size >= 20 and name in new and is_constant:
            yield suspicion(
                "body_hollowed", path, 0, f"`{name[1]}` is now `{text or 'empty'}`", f"{name} {text}"
            )


def _blocks(source: Source) -> dict[tuple[str, str], tuple[str, int]]:
    """The functions of a script by class and name: their bodies as text, and how many tokens they have."""
    code = source.code
    found: dict[tuple[str, str], tuple[str, int]] = {}
    owners: list[tuple[str, int]] = []
    for place, token in enumerate(code.tokens):
        if token.text == "class":
            opening = next((at for at in range(place, place + 40) if code.text(at) == "{"), place)
            owners.append((code.text(place + 1), code.close(opening)))
        while owners and owners[-1][1] <= place:
            owners.pop()
        if token.kind != "name" or code.text(place + 1) not in ("(", "="):
            continue
        at = place + 1 if code.text(place + 1) == "(" else place + 2
        at = at + 1 if code.text(at) == "async" else at
        block = code.close(at) + 1 if code.text(at) == "(" else at
        is_object = code.text(place + 1) == "=" and code.text(block) != "=>"
        block = block + 1 if code.text(block) == "=>" else block
        if (
            not is_object
            and code.text(block) == "{"
            and token.text not in ("if", "for", "while", "switch", "catch")
        ):
            end = code.close(block)
            owner = owners[-1][0] if owners else ""
            found[owner, token.text] = code.shown(block + 1, min(end, block + 8)), end - block - 1
    return found
