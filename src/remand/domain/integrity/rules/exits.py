"""Code that ends the process before a test can fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_product_path, sets_tests_up
from remand.domain.integrity.reading.code import Code
from remand.domain.integrity.reading.python_tree import at_import, called, resolved, shown
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene

_HINT = re.compile(r"exit|quit|abort|kill|raise_signal|skip|xfail|SystemExit")
_SIGNALS = frozenset(("os.kill", "os.killpg", "signal.raise_signal"))
_PAUSES = re.compile(r"SIG(?:TSTP|STOP|CONT|WINCH|CHLD|USR\d|TTIN|TTOU)$|^0$")
_SOFT = frozenset(("sys.exit", "exit", "quit", "pytest.exit", "builtins.exit"))
_SKIPPING = frozenset(("pytest.skip", "unittest.SkipTest", "pytest.xfail", "pytest.exit"))
_EXITS = re.compile(
    r"process\.(?:exit|kill|reallyExit|abort)|Deno\.exit|std::process::exit|os\.Exit|System\.exit|Environment\.Exit"
)


def early_exits(scene: Scene) -> Iterator[Suspicion]:
    """Exits that the base has not: at import, in tests, or past every handler."""
    for view in scene.views:
        if view.after is None or not view.after.is_code:
            continue
        had = {text for _, text in _exits(view.before)} if view.before else set()
        for line, text in _exits(view.after):
            if text not in had:
                yield suspicion("early_exit", view.path, line, f"`{short(text)}`")


def _exits(source: Source) -> Iterator[tuple[int, str]]:
    if source.tree is not None:
        yield from _python(source, source.tree)
    elif source.tokens:
        yield from _braced(source, source.code)


def _python(source: Source, tree: ast.Module) -> Iterator[tuple[int, str]]:
    if not _HINT.search(source.text):
        return
    is_script = not source.is_test and not is_product_path(source.path)
    early = set() if is_script else {id(node) for node in at_import(tree)}
    for node in source.every(ast.Raise):
        if id(node) in early and "SystemExit" in shown(node):
            yield node.lineno, shown(node)
    for call in source.every(ast.Call):
        if _ends(call, source, is_early=id(call) in early):
            yield call.lineno, shown(call)


def _ends(call: ast.Call, source: Source, *, is_early: bool) -> bool:
    """True for a call that ends the process where it must not."""
    name = resolved(call.func, source.imports)
    if name in ("os._exit", "os.abort"):
        return "os.fork" not in source.text and (is_early or source.is_test or _is_clean(call))
    if name in _SIGNALS:
        is_own = any(called(arg) in ("os.getpid", "os.getpgrp", "os.getppid") for arg in call.args)
        return is_own and not any(_PAUSES.search(shown(arg)) for arg in call.args[1:])
    if name in _SOFT:
        return is_early or (source.is_test and _is_clean(call))
    if name in _SKIPPING:
        return is_product_path(source.path)
    return name in ("atexit.register", "signal.signal") and _leads_out(call, source)


def _is_clean(node: ast.Call) -> bool:
    """True for an exit that says all is well."""
    return not node.args or (
        isinstance(node.args[0], ast.Constant) and node.args[0].value in (0, None, False)
    )


def _leads_out(node: ast.Call, source: Source) -> bool:
    """True when what is registered ends the process past every handler."""
    given = {part.id for arg in node.args for part in ast.walk(arg) if isinstance(part, ast.Name)}
    bodies = [function for _, function in source.functions if function.name in given]
    calls = (called(part) for body in (*node.args, *bodies) for part in ast.walk(body))
    return any(name in ("os._exit", "os.kill") for name in (*calls, *map(shown, node.args)))


def _braced(source: Source, code: Code) -> Iterator[tuple[int, str]]:
    is_test = source.is_test or sets_tests_up(source.path)
    for place, token in enumerate(code.tokens):
        if token.text not in ("process", "Deno", "std", "os", "System", "Environment"):
            continue
        text = code.shown(place, place + 5)
        if _EXITS.match(text) and code.text(place - 1) != ".":
            end = next((at for at in range(place, place + 6) if code.text(at) == "("), place + 4)
            if is_test or _is_early(code, place, source):
                yield token.line, code.shown(place, code.close(end) + 1)
        elif text.startswith("process.exitCode=") and (is_test or _is_early(code, place, source)):
            yield token.line, text
        elif text.startswith("process.on(") and is_test and code.text(place + 4) in ("'exit'", '"exit"'):
            yield token.line, code.shown(place, code.close(place + 3) + 1)


def _is_early(code: Code, place: int, source: Source) -> bool:
    """True outside every block, or in an `init` of Go, of product code."""
    if not is_product_path(source.path) or re.search(r"(^|/)(main|cli|index|server|bin)\b", source.path):
        return False
    blocks = [
        at for at in range(max(0, place - 400), place) if code.text(at) == "{" and code.close(at) > place
    ]
    if not blocks:
        return True
    return code.text(blocks[0] - 3) == "init" and code.text(blocks[0] - 4) == "func"
