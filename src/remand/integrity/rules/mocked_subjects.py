"""Tests that replace the very thing they test, and runners that load a stand-in for it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from remand.domain.text.words import word_set
from remand.integrity.changeset import ChangedFile, Changeset
from remand.integrity.paths import is_collected_path, is_product_path, is_test_path, language_of
from remand.integrity.readers.configuration import configured_tool, read_settings
from remand.integrity.readers.python_tree import (
    Function,
    all_nodes,
    call_argument,
    called_functions,
    called_name,
    constant_texts,
    decorator_names,
    last_name,
    node_source,
    walk_tree,
)
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NAME, STRING, BracketedCode, unquote
from remand.integrity.suspicions import Suspicion, shorten, suspicion

_PATCHERS = re.compile(r"(.*\.)?(patch|patch\.object|setattr)")
_HINT = re.compile(r"\bpatch|setattr|Mock\(|lambda|create_autospec")
_MAPPED = re.compile(r"(?:modulenamemapper|alias)\.(.+)$")
_STAND_IN = re.compile(r"mock|stub|fake|dummy|(^|/)(tests?|__tests__|spec)/", re.IGNORECASE)
_FAKES = frozenset(("Mock", "MagicMock", "AsyncMock", "create_autospec", "Fake"))
_STANDARD_NAMES = word_set("StringIO BytesIO Path datetime date time sleep open print input uuid4 getpass")
"""What modules import from the standard library: replacing it there replaces no part of the product."""
_SPIES = frozenset(("mockReturnValue", "mockResolvedValue", "mockImplementation", "returns", "resolves"))


def find_mocked_subjects(changeset: Changeset) -> Iterator[Suspicion]:
    """Subjects that tests newly replace."""
    for view in changeset.views:
        if view.after is not None and view.after.language == "rust":
            for line, name in view.find_added(_shadowed_in_examples):
                yield suspicion(
                    "test_mocks_its_subject", view.path, line, f"an example defines `{name}` itself"
                )
        if view.after is None or not view.is_test:
            continue
        had = {name for name, _ in _replaced_subjects(view.before, changeset)} if view.before else set()
        for name, line in _replaced_subjects(view.after, changeset):
            if name not in had:
                yield suspicion(
                    "test_mocks_its_subject",
                    view.path,
                    line,
                    f"`{shorten(name)}` is replaced and then tested",
                )
        yield from _find_stubbed_modules(changeset, view.path, view.before, view.after)


def _shadowed_in_examples(source: SourceFile) -> Iterator[tuple[int, str]]:
    """The functions of a file that an example in its documentation defines anew."""
    for number, line in enumerate(source.lines, 1):
        match = _EXAMPLE_FUNCTION.match(line)
        if match and re.search(rf"^\s*pub\b[^/\n]*\bfn {match[1]}\b", source.text, re.MULTILINE):
            yield number, match[1]


_EXAMPLE_FUNCTION = re.compile(r"\s*//[/!]\s*(?:# ?)?(?:pub )?fn (\w+)\s*[(<]")


def find_mapped_modules(changeset: Changeset) -> Iterator[Suspicion]:
    """Modules of the project for which a runner is configured to load a stand-in."""
    own = {
        path.rpartition("/")[2].partition(".")[0].lower()
        for path in changeset.comparison.paths
        if is_product_path(path)
    }
    for view in changeset.views:
        if view.after is None or not configured_tool(view.path):
            continue
        yield from _find_aliases(view, own)
        had = read_settings(view.before) if view.before else {}
        for key, value in read_settings(view.after).items():
            match = _MAPPED.search(key)
            name = re.split(r"[^\w-]+", match[1].strip("^$()"))[-1] if match else ""
            if name in own and key not in had and isinstance(value, str) and _STAND_IN.search(value):
                message = f"`{shorten(match[1] if match else key)}` is loaded from `{shorten(value)}`"
                yield suspicion("test_mocks_its_subject", view.path, 0, message)


def _find_aliases(view: ChangedFile, own: set[str]) -> Iterator[Suspicion]:
    """`alias: [{ find: /discount$/, replacement: path("./test/support/discount.ts") }]`, however it is written."""
    for line, text in view.find_added(_stand_ins) if view.after and _ALIASES.search(view.after.text) else ():
        if text.rpartition("/")[2].partition(".")[0].lower() in own:
            message = f"a module is loaded from `{shorten(text)}`"
            yield suspicion("test_mocks_its_subject", view.path, line, message)


def _stand_ins(source: SourceFile) -> Iterator[tuple[int, str]]:
    """The paths of scripts beside tests that a file names."""
    for token in source.tokens if source.language == "script" else ():
        text = unquote(token.text)
        path = text.lstrip("./")
        is_script = token.kind == STRING and language_of(path) == "script"
        if is_script and is_test_path(path) and not is_collected_path(path.rpartition("/")[2]):
            yield token.line, text


_ALIASES = re.compile(r"\balias\b|\bmoduleNameMapper\b")


def _replaced_subjects(source: SourceFile, changeset: Changeset) -> Iterator[tuple[str, int]]:
    if source.tree is not None:
        if _HINT.search(source.text):
            for _, node in source.functions:
                if node.name.startswith("test"):
                    yield from _replaced_in_test(node)
                    yield from _shadowed_by_fakes(node, source.imports)
            yield from _replaced_around_tests(source, changeset.own_packages)
    elif source.language == "script":
        yield from _replaced_in_script(source.code)
        yield from _mocked_own_module(source)


def _replaced_in_test(node: Function) -> Iterator[tuple[str, int]]:
    """Patched names that the test itself then calls and compares."""
    used = _expected_calls(node)
    for part in (*node.decorator_list, *walk_tree(node)):
        for name, line in _patched_names(part):
            last = name.rpartition(".")[2]
            if last in used - _STANDARD_NAMES and name.partition(".")[0] not in sys.stdlib_module_names:
                yield name, line


def _shadowed_by_fakes(node: Function, imports: dict[str, str]) -> Iterator[tuple[str, int]]:
    """`total = Mock(return_value=35)`, if `total` was imported and the test then expects its answers."""
    used = _expected_calls(node)
    for part in walk_tree(node):
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name) and _is_fake(part.value):
            name = part.targets[0].id
            if name in used and name in imports:
                yield name, part.lineno


def _replaced_around_tests(source: SourceFile, own: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Parts of the project that are replaced for several tests, which expect their answers."""
    tests = [node for _, node in source.functions if node.name.startswith("test")]
    used = {name for node in tests for name in _expected_calls(node)}
    around: list[ast.AST] = [part for owner in source.nodes_of(ast.ClassDef) for part in owner.decorator_list]
    around += [part for _, node in source.functions if _is_setup(node) for part in walk_tree(node)]
    around += [node for node in source.tree.body if isinstance(node, ast.Assign)] if source.tree else []
    for part in around:
        for name, line in _patched_names(part):
            first = source.imports.get(name.partition(".")[0], name).partition(".")[0]
            if first in own and name.rpartition(".")[2] in used:
                yield name, line


def _expected_calls(node: Function) -> set[str]:
    asserted = [part for part in walk_tree(node) if isinstance(part, ast.Assert)]
    compared = [
        arg
        for part in walk_tree(node)
        if isinstance(part, ast.Call) and last_name(part.func).startswith("assert")
        for arg in part.args
    ]
    return set(called_functions(all_nodes([*asserted, *compared]))) | _assigned_calls(node)


def _is_setup(node: Function) -> bool:
    setups = ("setUp", "setUpClass", "setup_method", "setup_class", "setup_module")
    return node.name in setups or "fixture" in decorator_names(node)


def _assigned_calls(node: Function) -> set[str]:
    """The functions whose results are assigned to a variable."""
    values = (part.value for part in walk_tree(node) if isinstance(part, ast.Assign))
    return {last_name(value.func) for value in values if isinstance(value, ast.Call)} - _FAKES


def _patched_names(node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Call) and _PATCHERS.fullmatch(called_name(node)) and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            if "." in first.value and _has_answer(node, 1):
                yield first.value, node.lineno
        elif len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and _has_answer(node, 2):
            yield f"{node_source(first)}.{node.args[1].value!s}", node.lineno
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and _is_fake(node.value):
        yield node_source(node.targets[0]), node.lineno


def _has_answer(call: ast.Call, place: int) -> bool:
    """True if the replacement is given its answer."""
    if call_argument(call, "return_value") is not None or call_argument(call, "side_effect") is not None:
        return True
    replacement = call_argument(call, "new", place) or call_argument(call, "value")
    return isinstance(replacement, ast.Lambda) or (replacement is not None and _is_fake(replacement))


def _is_fake(node: ast.expr) -> bool:
    if isinstance(node, ast.Lambda):
        is_plain = isinstance(node.body, ast.Constant | ast.Name | ast.Attribute)
        return bool(constant_texts(walk_tree(node.body))) or is_plain
    is_mock = isinstance(node, ast.Call) and last_name(node.func) in _FAKES
    return is_mock and isinstance(node, ast.Call) and call_argument(node, "return_value") is not None


def _replaced_in_script(code: BracketedCode) -> Iterator[tuple[str, int]]:
    """`jest.spyOn(cart, 'total').mockReturnValue(3)`, then `expect(cart.total()).toBe(3)`."""
    for place, token in enumerate(code.tokens):
        if token.text not in ("spyOn", "stub") or code.text(place + 1) != "(":
            continue
        arguments = list(code.arguments(place + 1))
        after = code.closing_place(place + 1)
        if len(arguments) < 2 or code.text(after + 2) not in _SPIES:
            continue
        name = f"{code.text_between(*arguments[0])}.{unquote(code.text_between(*arguments[1]))}"
        if any(_is_expected(code, at, name) for at in range(after, min(after + 400, len(code.tokens)))):
            yield name, token.line


def _is_expected(code: BracketedCode, place: int, name: str) -> bool:
    if code.text(place) != "expect" or code.text(place + 1) != "(":
        return False
    start = place + 3 if code.text(place + 2) == "await" else place + 2
    return code.text_between(start, code.closing_place(place + 1)).startswith(f"{name}(")


def _mocked_own_module(source: SourceFile) -> Iterator[tuple[str, int]]:
    """`jest.mock('../src/cart', …)` in `cart.test.js`, keeping nothing of the real module."""
    subject = source.path.rpartition("/")[2].split(".")[0]
    code = source.code
    for place, token in enumerate(code.tokens):
        if token.text not in ("mock", "doMock") or code.text(place - 2) not in ("jest", "vi"):
            continue
        stop = code.closing_place(place + 1)
        module = unquote(code.text(place + 2))
        has_factory = stop > place + 3
        is_real = code.words(place, stop) & {"requireActual", "importActual", "importOriginal", "spy"}
        if (
            has_factory
            and (not is_real or _has_faked_subject(code, place, stop))
            and module.startswith(".")
            and module.rpartition("/")[2].split(".")[0] == subject
        ):
            yield module, token.line


def _has_faked_subject(code: BracketedCode, start: int, stop: int) -> bool:
    """True if a factory that keeps the rest replaces something whose answers tests expect."""
    faked = {code.text(at) for at in range(start, stop) if code.text(at + 1) == ":" and code.kind(at) == NAME}
    subjects = (
        code.text(at + 2) for at, token in enumerate(code.tokens) if token.text == "expect" and at > stop
    )
    return bool(faked & set(subjects))


def _find_stubbed_modules(
    changeset: Changeset, path: str, before: SourceFile | None, after: SourceFile
) -> Iterator[Suspicion]:
    """`sys.modules["shop.cart"] = …`"""
    had = set(_stubbed_modules(before)) if before else set()
    for name, line in _stubbed_modules(after):
        if (
            name.partition(".")[0] in changeset.own_packages
            and (name, line) not in had
            and name not in {one for one, _ in had}
        ):
            yield suspicion("module_stubbed", path, line, f"`sys.modules[{name!r}]` is replaced")


def _stubbed_modules(source: SourceFile) -> Iterator[tuple[str, int]]:
    for node in source.nodes_of(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and node_source(target.value) == "sys.modules":
            key = target.slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, target.lineno
