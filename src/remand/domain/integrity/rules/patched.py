"""Parts of the runner, the interpreter or the clock that are replaced for good."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.reading.code import Code
from remand.domain.integrity.reading.python_tree import called, resolved, shown
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene

_OWNERS = re.compile(
    r"(_pytest|pytest|unittest|builtins|__builtins__|time|random|doctest|coverage|numpy\.testing|sys|math|os)"
    r"(\.[\w.]+)?\.(\w+)"
)
_ALLOWED = frozenset(
    (
        *("sys.path", "sys.argv", "sys.stdout", "sys.stderr", "sys.stdin", "sys.dont_write_bytecode"),
        *("os.environ", "sys.excepthook", "sys.ps1", "sys.displayhook", "sys.breakpointhook"),
        *("sys.tracebacklimit", "sys.unraisablehook", "random.seed", "builtins._", "sys.modules"),
    )
)
_SCRIPT = frozenset(
    (
        *("Math.random", "Date.now", "performance.now", "Object.is", "JSON.stringify"),
        *("Promise.reject", "Array.isArray"),
    )
)


def patched(scene: Scene) -> Iterator[Suspicion]:
    """Attributes of modules that tests rest on, set where the base did not set them."""
    for view in scene.views:
        if view.after is None or not view.after.is_code:
            continue
        had = {text for _, text in _found(view.before)} if view.before else set()
        for line, text in _found(view.after):
            if text not in had:
                yield suspicion("runner_patched", view.path, line, f"`{short(text)}`")


def _found(source: Source) -> Iterator[tuple[int, str]]:
    if source.tree is not None:
        yield from _assigned(source)
        yield from _set(source)
    elif source.language == "script":
        yield from _script(source.code)


def _assigned(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.every(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and _is_foundation(
                resolved(target, source.imports), source, target
            ):
                yield node.lineno, shown(node)


def _set(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.every(ast.Call):
        name = node.args[1] if called(node) == "setattr" and len(node.args) > 1 else None
        if isinstance(name, ast.Constant):
            whole = f"{resolved(node.args[0], source.imports)}.{name.value!s}"
            if _is_foundation(whole, source, node.args[0]):
                yield node.lineno, shown(node)


def _is_foundation(name: str, source: Source, node: ast.AST) -> bool:
    """True for something of the standard tools, by the name it was imported under."""
    first = shown(node).partition(".")[0]
    if first not in source.imports and first not in ("builtins", "__builtins__"):
        return False
    return _OWNERS.fullmatch(name) is not None and name not in _ALLOWED


def _script(code: Code) -> Iterator[tuple[int, str]]:
    for place in range(len(code.tokens)):
        if code.text(place + 3) == "=" and code.text(place + 1) == "." and code.text(place - 1) != ".":
            name = f"{code.text(place)}.{code.text(place + 2)}"
            if name in _SCRIPT or name in (
                "expect.extend",
                "assert.equal",
                "assert.strictEqual",
                "assert.deepEqual",
            ):
                yield code.line(place), code.shown(place, place + 10)
