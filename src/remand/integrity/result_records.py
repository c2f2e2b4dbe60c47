"""Results as they were told while tests ran, compared with the report that the tool left behind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from remand.domain.gate.gate import Irregularity, Measurement, TestOutcome, WatchedTest
from remand.domain.record import Record
from remand.domain.text.words import format_count
from remand.integrity.readers.source import SourceFile

MAX_IRREGULARITIES = 20


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
        test.lines = record.lines if record.lines is not None else test.lines

    def watched_tests(self, root: str) -> Iterator[WatchedTest]:
        """The tests as they ended, with what is known of their assertions."""
        for (_, test_id), test in self.tests.items():
            path = test_id.partition("::")[0]
            lines = self.lines_by_file.get(path, test.lines)
            outcome = "failed" if test.is_failed else "passed" if test.is_passed else "skipped"
            held = None if lines is None else tuple(sorted(lines))
            own_id, seconds = _own_id(test_id, root), test.seconds
            yield WatchedTest(id=own_id, outcome=outcome, held_lines=held, seconds=seconds)

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
    watched = tuple(told.watched_tests(root))
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
