"""Results as they were told while tests ran, compared with the report that the tool left behind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from remand.domain.gate.gate import Irregularity, Measurement, TestOutcome, WatchedTest
from remand.domain.record import Record
from remand.domain.text.words import format_count

MAX_IRREGULARITIES = 20


class ResultRecord(Record, kw_only=True):
    """One line from a test runner; its place in the sequence is its number."""

    kind: str
    """`start`, `collected`, `uncollected`, `result`, `retry` or `end`; `unfit` from a runner that is not known.

    `watched` names a file of tests in which assertions are told as `held`, by line and for the whole file.
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
        self._collected: set[tuple[int, str]] = set()
        for record in records:
            self._take(record)

    def _take(self, record: ResultRecord) -> None:
        self.uncollected += record.kind == "uncollected"
        if record.kind == "start":
            self.starts += 1
            self.takes_files |= record.takes_files
        elif record.kind == "end":
            self.ends.append(record.status)
        elif record.kind == "unfit":
            self.is_unfit = True
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
    def pass_count(self) -> int:
        return sum(test.is_passed and not test.is_failed for test in self.tests.values())

    @property
    def failure_count(self) -> int:
        return self.uncollected + sum(test.is_failed for test in self.tests.values())


_REPEATED = re.compile(r"#\d+$")
_ENDING = re.compile(r"\.\w+$")


def _own_id(told: str, root: str) -> str:
    """A test's id by the path of its file below the checkout, without its ending."""
    path, separator, names = told.partition("::")
    return f"{_ENDING.sub('', path.removeprefix(f'{root}/'))}{separator}{names}"


def compare_with_records(
    found: Measurement, records: Sequence[ResultRecord], status: int, root: str = ""
) -> Measurement:
    """A measurement with what was told of its tests, and with what does not agree; `root` is where the checkout was.

    A run whose plugin never began is taken as the report has it.
    """
    told = ToldRun(records)
    if not told.starts or (told.is_unfit and not told.tests):
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
    passed = len({_REPEATED.sub("", test.id) for test in found.tests if test.outcome == "passed"})
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
    if passed > told.pass_count:
        text = f"{told.pass_count} passed while running, and the report names {passed}"
        yield Irregularity(code="report_forged", text=text)
    for test_id in told.twice:
        yield Irregularity(code="harness_tampered", text=f"a second result came for `{test_id}`")
    for test_id in told.unknown:
        yield Irregularity(
            code="harness_tampered", text=f"a result came for `{test_id}`, which was not collected"
        )
