"""What tests told while they ran: their results beside the report that the tool left behind, and assertions that were not executed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from remand.domain.gate.gate import Irregularity, Measurement, TestOutcome, WatchedTest
from remand.domain.record import Record
from remand.domain.text.words import format_count, word_set
from remand.integrity.changeset import Changeset, PlacedTest
from remand.integrity.comparison import Comparison
from remand.integrity.paths import language_of
from remand.integrity.readers.cases import NOTHING
from remand.integrity.readers.python_tree import child_nodes, walk_tree
from remand.integrity.readers.source import SourceFile
from remand.integrity.rules.missing_tests import id_words, without_parameters
from remand.integrity.suspicions import Suspicion, shorten, suspicion

MAX_IRREGULARITIES = 20
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


class ResultRecord(Record, kw_only=True):
    """One line from a test runner; its place in the sequence is its number."""

    kind: str
    """`start`, `collected`, `uncollected`, `result`, `retry` or `end`; `unfit` from a runner that is not known.

    `watched` names a file of tests in which assertions are told as `held`, by line and for the whole file. `named` says
    that a program of tests has named all of them, `untold` that one runs which tells nothing. `package` names the folder
    of a package of Go and its files of tests.
    """
    pid: int = 0
    id: str = ""
    when: str = ""
    """`setup`, `call` or `teardown`."""
    outcome: str = ""
    is_part: bool = False
    """True for a subtest, of which one test has several."""
    lines: tuple[int, ...] | None = None
    """Where assertions of the test's own file held so far; None when that was not watched."""
    takes_files: bool = False
    """At the start: this run is able to leave out files of tests."""
    seconds: float = 0.0
    text: str = ""
    """What a failure says."""
    ids: tuple[str, ...] = msgspec.field(default_factory=tuple)
    names_all: bool = False
    """At the start of a program, and of a package: every test that is named has to report."""
    status: int = -1


class _ToldTest:
    """What was told of one test."""

    def __init__(self) -> None:
        self.is_failed = False
        self.is_passed = False
        self.lines: tuple[int, ...] | None = None
        self.seconds = 0.0
        self.text = ""
        self.phases: list[str] = []


class ToldRun:
    """All records of one run of a gate's command."""

    def __init__(self, records: Iterable[ResultRecord]) -> None:
        self.starts = 0
        self.takes_files = False
        self.is_unfit = False
        self.ends: list[int] = []
        self.tests: dict[tuple[int, str], _ToldTest] = {}
        self.uncollected = 0
        self.twice: list[str] = []
        self.lines_by_file: dict[str, set[int]] = {}
        """Where assertions were executed in files of tests, from runners that do not tell it by test."""
        self.is_partial = False
        """True when a part of the run told nothing."""
        self.packages: list[ResultRecord] = []
        self.unended: dict[int, str] = {}
        """The programs that have not ended yet."""
        self._collected: set[tuple[int, str]] = set()
        self._programs: dict[int, str] = {}
        """Those that name all of their tests."""
        self._named: set[int] = set()
        for record in records:
            self._take(record)

    def _take(self, record: ResultRecord) -> None:
        self.uncollected += record.kind == "uncollected"
        if record.kind == "start":
            self.starts += 1
            self.takes_files |= record.takes_files
            self.unended[record.pid] = record.id
            self._programs |= {record.pid: record.id} if record.names_all else {}
        elif record.kind == "end":
            self.ends.append(record.status)
            self.unended.pop(record.pid, None)
        elif record.kind == "package":
            self.packages.append(record)
        elif record.kind == "named":
            self._named.add(record.pid)
        elif record.kind in ("unfit", "untold"):
            self.is_unfit |= record.kind == "unfit"
            self.is_partial |= record.kind == "untold"
        elif record.kind == "retry":
            self.tests.pop((record.pid, record.id), None)
        elif record.kind == "watched":
            self.lines_by_file.setdefault(record.id, set())
        elif record.kind == "held" and record.id in self.lines_by_file:
            self.lines_by_file[record.id] |= set(record.lines or ())
        elif record.kind == "collected":
            self._collected |= {(record.pid, test_id) for test_id in record.ids}
        elif record.kind == "result" and record.outcome in ("passed", "failed", "skipped"):
            self._take_result(record, self.tests.setdefault((record.pid, record.id), _ToldTest()))

    def _take_result(self, record: ResultRecord, test: _ToldTest) -> None:
        if record.when == "setup" and not test.is_failed:
            test.phases = []  # plugins that run a failing test again begin so
        elif not record.is_part and record.when in test.phases:
            self.twice.append(record.id)
        if not record.is_part:
            test.phases.append(record.when)
            test.is_passed |= record.when == "call" and record.outcome == "passed"
        test.is_failed |= record.outcome == "failed"
        test.seconds += record.seconds
        test.text = test.text or (record.text if record.outcome == "failed" else "")
        test.lines = record.lines if record.lines is not None else test.lines

    def watched_tests(self, root: str) -> Iterator[WatchedTest]:
        """The tests as they ended, with what is known of their assertions."""
        for (_, test_id), test in self.tests.items():
            path = test_id.partition("::")[0]
            lines = self.lines_by_file.get(path, test.lines)
            outcome = "failed" if test.is_failed else "passed" if test.is_passed else "skipped"
            held = None if lines is None else tuple(sorted(lines))
            own_id, seconds = _own_id(test_id, root), test.seconds
            yield WatchedTest(id=own_id, outcome=outcome, held_lines=held, seconds=seconds, text=test.text)

    @property
    def unknown(self) -> list[str]:
        """Tests with a result that were not collected before any ran; none where other processes collect."""
        if not self._collected:
            return []
        return [key[1] for key in self.tests if key not in self._collected]

    @property
    def unnamed_programs(self) -> list[str]:
        """Programs of tests that did not come to the end of naming them."""
        return [name for pid, name in self._programs.items() if pid not in self._named]

    @property
    def missing_results(self) -> list[str]:
        """Tests without a result, of programs that name all of theirs and tell their results."""
        telling = {pid for pid, _ in self.tests}
        return sorted(
            test_id
            for pid, test_id in self._collected - self.tests.keys()
            if pid in self._programs and (pid in telling or not self.is_partial)
        )

    @property
    def pass_count(self) -> int:
        return sum(test.is_passed and not test.is_failed for test in self.tests.values())

    @property
    def failure_count(self) -> int:
        return self.uncollected + sum(test.is_failed for test in self.tests.values())


_REPEATED = re.compile(r"#\d+$")
_DOCUMENTATION = re.compile(r"^[^/:]+/doc::|^\S+\.rs - ")
"""A test in the documentation of a Rust crate, which no program of tests runs."""
_ENDING = re.compile(r"\.\w+$")


def _own_id(told: str, root: str) -> str:
    """A test's id by the path of its file below the checkout, without its ending."""
    path, separator, names = told.partition("::")
    return f"{_ENDING.sub('', path.removeprefix(f'{root}/'))}{separator}{names}"


def read_no_file(path: str) -> bytes | None:  # noqa: ARG001 - as others are called
    """For runners that name their tests themselves."""
    return None


def compare_with_records(
    found: Measurement,
    records: Sequence[ResultRecord],
    status: int,
    root: str = "",
    read_file: Callable[[str], bytes | None] = read_no_file,
) -> Measurement:
    """A measurement with what was told of its tests, and with what does not agree; `root` is where the checkout was.

    `read_file` reads a file as the checkout had it before the run.
    A run whose plugin never began is taken as the report has it.
    """
    told = ToldRun(records)
    if told.packages:
        wrong = tuple(_find_lost_packages(told, found, read_file))[:MAX_IRREGULARITIES]
        return replace(found, irregularities=wrong)
    if not told.starts or (told.is_unfit and not told.tests and not told.unnamed_programs):
        return found
    watched = found.watched or tuple(told.watched_tests(root))
    wrong = tuple(_find_irregularities(told, found, status))[:MAX_IRREGULARITIES]
    if not found.tests:
        # Its exit status is all that the gate reads; what was told says which tests there were.
        known = {one.id: TestOutcome(id=one.id, outcome=one.outcome, seconds=one.seconds) for one in watched}
        found = replace(found, tests=tuple(known.values()))
    return replace(found, watched=watched, takes_files=told.takes_files, irregularities=wrong)


def _find_irregularities(told: ToldRun, found: Measurement, status: int) -> Iterable[Irregularity]:
    outcomes = Counter(test.outcome for test in found.tests)
    failed = outcomes["failed"] + outcomes["error"]
    # A test that was run again stands in the report once more.
    passed = len(
        {
            _REPEATED.sub("", test.id)
            for test in found.tests
            if test.outcome == "passed" and not _DOCUMENTATION.search(test.id)
        }
    )
    if len(told.ends) < told.starts:
        yield Irregularity(code="early_exit", text="the test run ended before its closing record")
    elif told.starts == 1 and told.ends[0] not in (-1, status):
        text = f"the tests ended with {told.ends[0]}, and their process with {status}"
        yield Irregularity(code="early_exit", text=text)
    if found.tests and told.failure_count > failed:
        text = (
            f"{format_count(told.failure_count, 'test')} failed while running, and the report names {failed}"
        )
        yield Irregularity(code="report_forged", text=text)
    if passed > told.pass_count and not told.is_partial:
        text = f"{told.pass_count} passed while running, and the report names {passed}"
        yield Irregularity(code="report_forged", text=text)
    for test_id in told.twice:
        yield Irregularity(code="harness_tampered", text=f"a second result came for `{test_id}`")
    for test_id in told.unknown:
        yield _make_unknown(test_id)
    for name in told.unnamed_programs:
        yield Irregularity(code="early_exit", text=f"`{name}` ended before it had named its tests")
    yield from map(_make_unreported, told.missing_results)


def _make_unknown(test_id: str) -> Irregularity:
    return Irregularity(
        code="harness_tampered", text=f"a result came for `{test_id}`, which was not collected"
    )


def _make_unreported(test_id: str) -> Irregularity:
    return Irregularity(code="early_exit", text=f"`{test_id}` was to run, and no result came")


_GO_TEST = re.compile(r"Test(?:[^a-z].*)?")
_GO_PARAMETER = re.compile(r"\(\w+\s*\*\s*\w+\.T\)")


def _find_lost_packages(
    told: ToldRun, found: Measurement, read_file: Callable[[str], bytes | None]
) -> Iterator[Irregularity]:
    """What does not agree in a run of Go, whose report is what was told: it ended early, or has other tests than its files."""
    results = [(*test.id.partition("::")[::2], test.outcome) for test in found.tests]
    fallen = {package for package, _, outcome in results if outcome in ("failed", "error")}
    unended = set(told.unended.values())
    for package in told.packages:
        if package.id in fallen or not package.ids:
            continue
        folder, *files = package.ids
        if folder in unended:
            text = f"the tests of `{package.id}` ended before their closing record"
            yield Irregularity(code="early_exit", text=text)
        named = {name for file in files for name in _go_tests(f"{folder}/{file}", read_file)}
        ran = {_REPEATED.sub("", name).partition("/")[0] for owner, name, _ in results if owner == package.id}
        for name in sorted(named - ran) if package.names_all else ():
            yield _make_unreported(f"{package.id}::{name}")
        for name in sorted(name for name in ran - named if _GO_TEST.fullmatch(name) and named):
            yield _make_unknown(f"{package.id}::{name}")


def _go_tests(path: str, read_file: Callable[[str], bytes | None]) -> Iterator[str]:
    """The tests that a file of Go declares."""
    content = read_file(path)
    code = SourceFile(path, (content or b"").decode("utf-8", "replace")).code
    for node in code.nodes_of("function_declaration"):
        name = code.node_text(node.child("name"))
        if _GO_TEST.fullmatch(name) and _GO_PARAMETER.fullmatch(code.node_text(node.child("parameters"))):
            yield name


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
