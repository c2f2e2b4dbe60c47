"""Assertions that stand in a test and were not executed when it passed, as runs of the tests show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from remand.domain.gate.gate import WatchedTest
from remand.domain.text.words import word_set
from remand.integrity.changeset import Changeset, PlacedTest
from remand.integrity.comparison import Comparison
from remand.integrity.paths import language_of
from remand.integrity.readers.cases import NOTHING
from remand.integrity.readers.python_tree import child_nodes, walk_tree
from remand.integrity.readers.source import SourceFile
from remand.integrity.rules.missing_tests import id_words, without_parameters
from remand.integrity.suspicions import Suspicion, shorten, suspicion

WATCHED_METHODS = word_set("""
assertEqual assertNotEqual assertTrue assertFalse assertIs assertIsNot assertIsNone assertIsNotNone assertIn assertNotIn
assertIsInstance assertNotIsInstance assertAlmostEqual assertNotAlmostEqual assertGreater assertGreaterEqual assertLess
assertLessEqual assertRegex assertNotRegex assertCountEqual assertMultiLineEqual assertSequenceEqual assertListEqual
assertTupleEqual assertSetEqual assertDictEqual
""")
"""unittest's own assertions, which the plugin notes; those of a project's base class may mean anything."""
_CATCHES_ASSERTIONS = frozenset(("AssertionError", "Exception", "BaseException"))


_EXPECT = re.compile(r"expect\b(?!\W*fail\b)")
_WAITED = re.compile(r"\b(?:resolves|rejects)\b")
"""What is executed when the function that asserts is left already: its place is not always known."""
_OWN_EXPECT = re.compile(r"""["'](?:vitest|@jest/globals)["']|\bimport\W*meta\W*vitest\b""")


class _Statement(NamedTuple):
    """One assertion in a test's own text."""

    line: int
    last_line: int
    text: str


class _ReachedLines(NamedTuple):
    """The assertions of a test, and those of them that held in a run."""

    statements: tuple[_Statement, ...]
    held: tuple[_Statement, ...]
    is_empty: bool
    """True when none at all was executed, wherever it stands."""


def find_unreached_assertions(
    comparison: Comparison, on_base: Sequence[WatchedTest], on_head: Sequence[WatchedTest]
) -> tuple[Suspicion, ...]:
    """Tests that passed without an assertion of theirs, where that says something.

    A new test counts when it has assertions and none was executed; one of the base when fewer are executed than there,
    and one is still in its text that held on the base. A test that proves by something else has none in its text.
    """
    changeset = Changeset(comparison)
    before, after = _LinesByTest(on_base), _LinesByTest(on_head)
    found = tuple(_find_unreached(changeset, before, after))
    if any(test.held_lines for test in (*on_base, *on_head)):
        return found
    # A project whose scripts never call the runner's own `expect` asserts by another one of that name.
    return tuple(one for one in found if language_of(one.path) != "script")


def _find_unreached(changeset: Changeset, before: _LinesByTest, after: _LinesByTest) -> Iterator[Suspicion]:
    for placed in changeset.test_pairs.new:
        now = _read_reached_lines(placed, placed.view.after, after)
        if now is not None and now.statements and now.is_empty:
            yield _make_suspicion(placed, now.statements[0])
    for old, new in changeset.test_pairs.kept:
        was = _read_reached_lines(old, old.view.before, before)
        now = _read_reached_lines(new, new.view.after, after)
        if was is None or now is None or len(now.held) >= len(was.held):
            continue
        held = {statement.text for statement in was.held}
        lost = [one for one in now.statements if one not in now.held and one.text in held]
        if lost or (was.held and now.statements and now.is_empty):
            yield _make_suspicion(new, (lost or now.statements)[0])


def _make_suspicion(placed: PlacedTest, statement: _Statement) -> Suspicion:
    found = f"`{shorten(statement.text)}` in `{placed.case.name}` was not executed"
    return suspicion("assertion_not_reached", placed.view.path, statement.line, found)


class _LinesByTest:
    """Where assertions held, by the words of the tests' ids without parameters."""

    def __init__(self, tests: Sequence[WatchedTest]) -> None:
        self._lines: dict[tuple[str, ...], set[int] | None] = {}
        for test in tests:
            words = id_words(without_parameters(test.id))
            known = self._lines.get(words, set())
            is_known = test.outcome == "passed" and test.held_lines is not None
            self._lines[words] = (
                known | set(test.held_lines or ()) if is_known and known is not None else None
            )

    def lines_of(self, name: tuple[str, ...]) -> set[int] | None:
        """The lines for a test of that name; None when it did not pass, was not watched, or is not the only one."""
        found = [lines for words, lines in self._lines.items() if words[-len(name) :] == name]
        return found[0] if len(found) == 1 else None


def _read_reached_lines(
    placed: PlacedTest, source: SourceFile | None, runs: _LinesByTest
) -> _ReachedLines | None:
    if not placed.is_run or source is None:
        return None
    lines = runs.lines_of(_test_words(placed, source))
    statements = tuple(_statements_of(placed, source))
    if lines is None:
        return None
    held = tuple(one for one in statements if any(one.line <= line <= one.last_line for line in lines))
    return _ReachedLines(statements, held, is_empty=not held and 0 not in lines)


def _statements_of(placed: PlacedTest, source: SourceFile) -> Iterator[_Statement]:
    """The assertions in a test's own text that its runner would tell of."""
    if source.language == "script":
        if _has_own_expect(source):
            yield from _script_statements(placed)
        return
    function = _function_of(source.tree, placed) if source.tree else None
    if function is not None:
        yield from _assertions(function)


def _script_statements(placed: PlacedTest) -> Iterator[_Statement]:
    for item in placed.case.assertions:
        if item.strength > NOTHING and _EXPECT.match(item.text) and not _WAITED.search(item.text):
            yield _Statement(item.line, max(item.line, item.last_line), item.text)


def _has_own_expect(source: SourceFile) -> bool:
    """True for a file whose `expect` is that of vitest or jest, as far as the file says."""
    code = source.code
    for node in code.nodes_of("import_statement", "variable_declarator", "function_declaration"):
        named = node if node.kind == "import_statement" else node.child("name")
        if named is None or "expect" not in re.findall(r"\w+", code.node_text(named)):
            continue
        if not _OWN_EXPECT.search(code.node_text(node)):
            return False
    return True


def _test_words(placed: PlacedTest, source: SourceFile) -> tuple[str, ...]:
    return (*id_words(source.path.rpartition(".")[0]), *id_words(placed.case.name))


def _function_of(tree: ast.Module, placed: PlacedTest) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    found = [
        node
        for node in walk_tree(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == placed.case.short_name
    ]
    return min(found, key=lambda node: abs(node.lineno - placed.case.line), default=None)


def _assertions(node: ast.AST) -> Iterator[_Statement]:
    """The assertions in a function; those behind a call that is expected to raise need not be reached."""
    for child in child_nodes(node):
        if isinstance(child, ast.Assert) or (isinstance(child, ast.Call) and _is_method_assertion(child)):
            yield _Statement(child.lineno, child.end_lineno or child.lineno, ast.unparse(child))
        elif not (isinstance(child, ast.With | ast.AsyncWith) and _expects_error(child)):
            yield from _assertions(child)


def _is_method_assertion(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return False
    return call.func.value.id == "self" and call.func.attr in WATCHED_METHODS


def _expects_error(node: ast.With | ast.AsyncWith) -> bool:
    """True for a block that an error ends, unless that error is what a failing assertion raises."""
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    for call in calls:
        name = ast.unparse(call.func).rpartition(".")[2]
        if name in ("raises", "assertRaises", "assertRaisesRegex", "RaisesGroup", "suppress"):
            words = {word for argument in call.args for word in id_words(ast.unparse(argument))}
            return not words & _CATCHES_ASSERTIONS
    return False
