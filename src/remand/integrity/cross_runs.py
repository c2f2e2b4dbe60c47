"""What runs show: which side's tests to run on which side's code, and what their results say about a change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from remand.domain.gate.gate import TestOutcome
from remand.domain.gate.judge import is_file_of, is_named_by
from remand.domain.record import Record
from remand.domain.text.words import word_set
from remand.integrity.changeset import Changeset, PlacedTest
from remand.integrity.comparison import Comparison, FileDiff
from remand.integrity.harness import harness_paths, is_steering_path
from remand.integrity.paths import is_collected_path, is_test_path, language_of
from remand.integrity.readers.cases import BOUNDED, EXACT, NOTHING, ParsedTest
from remand.integrity.readers.names import defined_names
from remand.integrity.readers.source import SourceFile
from remand.integrity.rules.missing_tests import (
    RAN_OUTCOMES,
    ChangedPaths,
    has_words,
    id_words,
    is_loss_explained,
    is_subject_gone,
    without_parameters,
)
from remand.integrity.rules.weakened_tests import is_weaker, pair_assertions
from remand.integrity.suspicions import Suspicion, quote_names, suspicion

BAD_OUTCOMES = ("failed", "error")
_LEVELLERS = word_set("""
sort sort_unstable sort_by sort_by_key sorted toSorted Sort SortFunc Strings Ints lower upper to_lowercase to_uppercase
to_ascii_lowercase toLowerCase toUpperCase ToLower ToUpper EqualFold eq_ignore_ascii_case strip trim TrimSpace dedup
casefold assertCountEqual
""")
"""What makes different values equal before they are compared."""
MAX_DATA = 200_000
"""Letters of a file of test data that is compared line by line."""


class CrossChecks(Record, kw_only=True):
    """The two trees to compose; nothing in one means that there is nothing to check."""

    from_base: tuple[str, ...] = ()
    """On the head's tree, as the base has them: its tests and what steers them."""
    spliced: dict[str, bytes] = msgspec.field(default_factory=dict)
    """On the head's tree: product files with the test modules that the base has in them."""
    from_head: tuple[str, ...] = ()
    """On the base's tree, as the head has them: the tests that are new or changed."""
    has_other_tests: bool = False
    """True for new tests that stand in a Rust file of the product, and for changed helpers of tests in Go and Rust."""


def plan_cross_checks(
    comparison: Comparison, paths_base: Iterable[str], paths_head: Iterable[str]
) -> CrossChecks:
    """What base's tests on the head's code, and head's new tests on the base's code, are made of.

    The base's tests are run so whenever a file of tests or of what steers them differs, also when tests are only
    added: a new test can change the product in the process in which the others run.
    """
    changeset = Changeset(comparison)
    patterns = changeset.test_patterns
    tests = [change for change in comparison.changes if _is_test_change(change, patterns)]
    steered = any(is_steering_path(change.path) for change in comparison.changes)
    old = {path for change in tests for path in (change.path, change.base_path)}
    spliced = dict(_spliced_files(comparison))
    has_new = changeset.has_product_change and any(_has_new_tests(changeset, change) for change in tests)
    return CrossChecks(
        from_base=tuple(sorted({*old, *harness_paths(paths_base, paths_head)}))
        if tests or steered or spliced
        else (),
        spliced=spliced,
        from_head=tuple(sorted(change.path for change in tests if change.status != "D")) if has_new else (),
        has_other_tests=changeset.has_product_change
        and any(
            view.after is not None
            and view.after.language in ("go", "rust")
            and (view.is_test or _has_new_tests(changeset, view.change))
            for view in changeset.views
        ),
    )


def _is_test_change(change: FileDiff, patterns: tuple[str, ...]) -> bool:
    return is_test_path(change.path, patterns) or is_test_path(change.base_path, patterns)


def _has_new_tests(changeset: Changeset, change: FileDiff) -> bool:
    """True when a file has tests that prove something the base's did not."""
    return any(placed.view.change is change and placed.is_run for placed in changeset.test_pairs.new) or any(
        after.view.change is change and before.case.body != after.case.body and after.is_run
        for before, after in changeset.test_pairs.kept
    )


_RUST_MODULE = re.compile(
    r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s+)?mod\s+(\w+)\s*\{"
)
_RUST_PART = re.compile(
    r'//[^\n]*|/\*[\s\S]*?\*/|b?r(#*)"[\s\S]*?"\1|"(?:[^"\\]|\\[\s\S])*"'
    r"|'(?:[^'\\\n]|\\[^\n]{1,10})'|[{}]"
)


def _spliced_files(comparison: Comparison) -> Iterator[tuple[str, bytes]]:
    """Rust files of the head whose test module differs, each with the base's module in its place."""
    for change in comparison.changes:
        if not change.path.endswith(".rs") or change.before is None or change.after is None:
            continue
        old, new = _rust_test_module(change.before), _rust_test_module(change.after)
        if old is None or is_test_path(change.path):
            continue
        before, after = change.before[slice(*old)], change.after
        if new is None:
            yield change.path, f"{after}\n{before}\n".encode()
        elif after[slice(*new)] != before:
            yield change.path, f"{after[: new[0]]}{before}{after[new[1] :]}".encode()


def with_test_module(text: str, other: str) -> bytes:
    """A Rust file of the product with the test module that another has."""
    old, new = _rust_test_module(text), _rust_test_module(other)
    module = other[slice(*new)] if new else ""
    return (f"{text[: old[0]]}{module}{text[old[1] :]}" if old else f"{text}\n{module}\n").encode()


def _rust_test_module(text: str) -> tuple[int, int] | None:
    """Where the first module of tests of a Rust file begins and ends."""
    found = _RUST_MODULE.search(text)
    if found is None:
        return None
    depth = 0
    for part in _RUST_PART.finditer(text, found.end() - 1):
        depth += {"{": 1, "}": -1}.get(part[0], 0)
        if depth == 0 and part[0] == "}":
            return found.start(), part.end()
    return None


class TestRuns(Record, kw_only=True):
    """The results of one gate's tests: each side's own, and those of one side's tests on the other side's code."""

    __test__ = False  # pytest would take it for a test class

    on_base: tuple[TestOutcome, ...] = ()
    on_head: tuple[TestOutcome, ...] = ()
    crossed: tuple[TestOutcome, ...] = ()
    notices_faults: bool = False
    """True when a new or changed test fails while the changed functions are broken on purpose."""


def judge_base_tests(
    comparison: Comparison, runs: TestRuns, must_pass: Sequence[str] = ()
) -> tuple[Suspicion, ...]:
    """Tests of the base that fail on the head's code, where that is more than a change of behaviour.

    A test in an unchanged file that passes in the head's own run is kept green by other files of the tests. One in a
    changed file counts when the head's version of it is weaker, or is not there without a reason; a version that asks
    for something else as exactly is a change of behaviour, and honest. A test that failed on the base and still does,
    while the head's version of it passes and expects something else, was made to fit the fault it showed; of a test that
    the task must pass nothing else has to be shown.
    """
    judge = _BaseTestJudge(comparison)
    known = _outcomes_by_id(runs.on_base)
    green = {test.id for test in runs.on_head if test.outcome == "passed"}
    failing = [test for test in runs.crossed if test.outcome in BAD_OUTCOMES]
    found = [
        judge.judge_failing(test.id, is_green=test.id in green)
        for test in failing
        if known.get(test.id) == "passed"
    ]
    proofs = {test.id for test in failing if any(is_named_by(test.id, one) for one in must_pass)}
    found += [
        judge.judge_red(test.id, is_proof=test.id in proofs)
        for test in failing
        # Before the work is done, a proof often cannot even be loaded.
        if test.id in green
        and (
            test.outcome == known.get(test.id) == "failed"
            or (test.id in proofs and known.get(test.id) != "passed")
        )
    ]
    found += [
        judge.judge_red(test.id)
        for test in failing
        if test.outcome == known.get(test.id) == "failed"
        and (
            _has_new_row(test.id, runs)
            or judge.has_new_name(test.id, runs)
            or judge.is_replaced(test.id, runs)
        )
    ]
    return tuple(item for item in found if item is not None)


def _has_new_row(test_id: str, runs: TestRuns) -> bool:
    """True for a row of parameters that the head has no more, while another row of the same test came and passes."""
    ids = {test.id for test in runs.on_head}
    name, had = without_parameters(test_id), {test.id for test in runs.on_base}
    return test_id not in ids and any(
        test.outcome == "passed" and test.id not in had and without_parameters(test.id) == name != test.id
        for test in runs.on_head
    )


def _outcomes_by_id(tests: Sequence[TestOutcome]) -> Mapping[str, str]:
    return {test.id: test.outcome for test in tests}


class _BaseTestJudge:
    """Tells what a failure of a base's test on the head's code means, by what the change did to the tests."""

    def __init__(self, comparison: Comparison) -> None:
        self._changeset = Changeset(comparison)
        patterns = self._changeset.test_patterns
        # Of the product's files, these hold no tests, and have the names of the files that do.
        self._files = ChangedPaths(
            change
            for change in comparison.changes
            if language_of(change.base_path) not in ("script", "go") or _is_test_change(change, patterns)
        )
        self._is_steered = any(is_steering_path(change.path) for change in comparison.changes)

    def judge_failing(self, test_id: str, *, is_green: bool) -> Suspicion | None:
        """A test that passed on the base and fails on the head's code."""
        path = self._path_of(test_id)
        if path:
            is_weaker_now = _is_weakened(self._changeset, path, test_id)
            code = "base_test_fails" if is_weaker_now else "expectation_changed"
            return suspicion(code, path, 0, f"`{test_id}`", test_id)
        if not is_green:
            return None
        if self._is_steered:
            found = f"`{test_id}` passes only with the changed harness"
            return suspicion("harness_tampered", "", 0, found, test_id)
        if self._support is None:
            found = f"`{test_id}` passes only when the new or changed tests run with it"
            return suspicion("harness_tampered", "", 0, found, test_id)
        code = "base_test_fails" if self._is_support_weaker else "expectation_changed"
        found = f"`{test_id}` passes only with the changed `{self._support.path}`"
        return suspicion(code, self._support.path, 0, found, test_id)

    def judge_red(self, test_id: str, *, is_proof: bool = False) -> Suspicion | None:
        """A test that fails on the base and on the head as the base has it, and passes as the head has it."""
        pair = self._pair_of(test_id)
        if (
            pair is not None
            and not is_proof
            and not _is_expectation_changed(*pair, self._changeset.comparison.changes)
        ):
            return None
        path = self._path_of(test_id) or (self._support.path if self._support else "")
        if path:
            return suspicion("expectation_fits_fault", path, 0, f"`{test_id}`", test_id)
        if self._has_new_data:
            return None
        found = f"`{test_id}` passes only when the new tests run with it"
        return suspicion("harness_tampered", "", 0, found, test_id)

    def has_new_name(self, test_id: str, runs: TestRuns) -> bool:
        """True for a test that the head has under another name, by which it passes."""
        pair = self._pair_of(test_id)
        if pair is None or pair[0].case.name == pair[1].case.name:
            return False
        return test_id not in {test.id for test in runs.on_head} and any(
            test.outcome == "passed" and is_test_id_of(pair[1], test.id) for test in runs.on_head
        )

    def is_replaced(self, test_id: str, runs: TestRuns) -> bool:
        """True for a test that is gone although what it tested is there, while other tests came to its file and pass."""
        pairs, changeset = self._changeset.test_pairs, self._changeset
        gone = [one for one in pairs.gone if one.is_run and is_test_id_of(one, test_id)]
        if test_id in {test.id for test in runs.on_head} or not gone:
            return False
        if any(is_subject_gone(changeset, one) for one in gone):
            return False
        known = {test.id for test in runs.on_base}
        files = {one.view.change.base_path for one in gone}
        new = [one for one in pairs.new if one.view.change.base_path in files]
        return any(
            test.outcome == "passed" and test.id not in known and is_test_id_of(one, test.id)
            for test in runs.on_head
            for one in new
        )

    def _path_of(self, test_id: str) -> str:
        """The changed file in which the base has a test, by its id or by the names of tests that are read there."""
        pairs = self._changeset.test_pairs
        placed = (*(before for before, _ in pairs.kept), *pairs.gone)
        return self._files.path_of(test_id) or next(
            (one.view.change.base_path for one in placed if one.is_run and _is_named_in(one, test_id)), ""
        )

    def _pair_of(self, test_id: str) -> tuple[PlacedTest, PlacedTest] | None:
        """Both versions of a test whose own text differs; None for one that is as it was, or is not read."""
        for before, after in self._changeset.test_pairs.kept:
            is_changed = before.case.body != after.case.body or before.case.literals != after.case.literals
            if _is_named_in(before, test_id) and is_changed:
                return before, after
        return None

    @cached_property
    def _has_new_data(self) -> bool:
        """True when files come that are no tests and that a test may have waited for."""
        return any(
            change.status == "A" and is_test_path(change.path) and not is_collected_path(change.path)
            for change in self._changeset.comparison.changes
        )

    @cached_property
    def _support(self) -> FileDiff | None:
        """A changed file of the base's that serves tests and is none itself."""
        patterns = self._changeset.test_patterns
        return next(
            (
                change
                for change in self._changeset.comparison.changes
                if change.status != "A"
                and is_test_path(change.base_path, patterns)
                and not is_collected_path(change.base_path)
            ),
            None,
        )

    @cached_property
    def _is_support_weaker(self) -> bool:
        """True when a function beside tests that asserts for them proves less than it did, or their data says less."""
        data = [
            change
            for change in self._changeset.comparison.changes
            if change.status != "A" and is_test_path(change.base_path) and not language_of(change.base_path)
        ]
        return any(_leaves_out(change.before or "", change.content or "") for change in data) or any(
            _proves_less(before, after)
            for before, after in self._changeset.test_pairs.kept
            if not before.is_run
        )


def _leaves_out(before: str, after: str) -> bool:
    """True when the lines of a text are some of those that it had, with parts left out and nothing new in them."""
    had = [_without_spaces(line) for line in before.splitlines()]
    has = [_without_spaces(line) for line in after.splitlines()]
    if len(before) > MAX_DATA or list(filter(None, had)) == list(filter(None, has)):
        return False
    waiting = iter(filter(None, had))
    return all(any(_is_within(line, old) for old in waiting) for line in filter(None, has))


def _without_spaces(line: str) -> str:
    return "".join(line.split())


def _is_within(part: str, text: str) -> bool:
    """True when the letters of one text are in another in the same order."""
    letters = iter(text)
    return all(letter in letters for letter in part)


_VALUE = re.compile(r"""-?\b\d[\w.]*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\b(?:true|false|True|False)\b""")


def _is_expectation_changed(one: PlacedTest, other: PlacedTest, changes: Sequence[FileDiff]) -> bool:
    """True when a test expects something else or less; a test whose set-up alone was mended does not."""
    before, after = one.case, other.case
    if after.proofs < before.proofs or before.literals - after.literals or _has_way_past(before, after):
        return True
    if _levelling_calls(other) - before.calls or _compares_fewer_names(one, other):
        return True
    if _fails_in_fewer_places(one, other) or _gives_expectation(one, other):
        return True
    bodies = [_VALUE.sub("", case.body) for case in (before, after)]
    if not one.view.path.endswith(".py") and before.body != after.body and bodies[0] == bodies[1]:
        return True  # a row of a table whose small values, which are no literals, are others
    bounds = [item for item in after.assertions if item.strength == BOUNDED]
    if any(
        item.strength == BOUNDED and item.expectation not in {one.expectation for one in bounds}
        for item in before.assertions
    ):
        return True
    asked = {item.subject: item.text for item in before.assertions}
    if any(asked.get(item.subject, item.text) != item.text for item in after.assertions):
        return True
    if _expectations(before) - _expectations(after):
        return True
    old = {literal for item in before.assertions for literal in item.literals}
    if old - {literal for item in after.assertions for literal in item.literals}:
        return True
    return before.body != after.body and _loses_values(one, changes)


_NAME = re.compile(r"[^\W\d]\w*")
_EQUALLY_EXACT = re.compile(r"\bto(?:Be|Equal|StrictEqual)\(|\bassert(?:List|Dict)?Equal\(")


def _expectations(case: ParsedTest) -> frozenset[str]:
    """What the assertions of a test compare with, where their text says what they check."""
    items = [item for item in case.assertions if item.strength > NOTHING]
    if any(item.subject not in item.text for item in items):
        return frozenset()
    return frozenset(_EQUALLY_EXACT.sub("toEqual(", item.expectation) for item in items)


def _loses_values(one: PlacedTest, changes: Sequence[FileDiff]) -> bool:
    """True when a test had values, in its text or beside the tests of its file, that no changed file of tests has now."""
    kept = (change.content or "" for change in changes if is_test_path(change.path))
    return bool(_told_values(one, one.view.before) - _values("\n".join(kept)))


def _only_loses_values(one: PlacedTest, other: PlacedTest, changes: Sequence[FileDiff]) -> bool:
    """True when a test has less in it than it had, and values no more: it lost a row, or a field of what it compares."""
    had, has = (_own_words(one, one.view.before), _own_words(other, other.view.after))
    is_less = has <= had and _told_values(other, other.view.after) < _told_values(one, one.view.before)
    return is_less and _loses_values(one, changes)


def _own_words(placed: PlacedTest, source: SourceFile | None) -> frozenset[str]:
    lines = source.lines if source else ()
    spans = source.test_spans if source and source.language in ("python", "script") else ()
    own = (
        (first, last) for _, is_test, first, last in spans if is_test and first <= placed.case.line <= last
    )
    first, last = next(own, (1, 0))
    return frozenset(_NAME.findall(_VALUE.sub("", "\n".join(lines[first - 1 : last]))))


def _told_values(placed: PlacedTest, source: SourceFile | None) -> frozenset[str]:
    """The values in a test of Python or a script, and in what belongs to no test of its file."""
    if source is None or source.language not in ("python", "script"):
        return frozenset()
    others = {
        line
        for _, is_test, first, last in source.test_spans
        if is_test and not first <= placed.case.line <= last
        for line in range(first, last + 1)
    }
    lines = (line for number, line in enumerate(source.lines, start=1) if number not in others)
    return _values("\n".join(lines))


def _values(text: str) -> frozenset[str]:
    return frozenset(value.strip("'\"") for value in _VALUE.findall(text))


_NAMES = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|(\.?)\b([A-Za-z_]\w*)\b(?!\s*[(!])')
"""Texts, and the names in an expression that are not called; with a dot before those of members."""


def _compares_fewer_names(one: PlacedTest, other: PlacedTest) -> bool:
    """True for a test of Go or Rust that compared a field, a column or a variable exactly which it still has, or a field that it has no more."""
    if not one.view.path.endswith((".go", ".rs")):
        return False
    before, after = (
        {
            (bool(found[1]), found[2])
            for item in placed.case.assertions
            if item.strength >= EXACT
            for found in _NAMES.finditer(item.text)
            if found[2]
        }
        for placed in (one, other)
    )
    had = {name for _, name in after}
    return any(
        name not in had and (is_member or name in other.case.words)
        for is_member, name in before
        if after and name not in other.case.calls
    )


_FAILURES = {
    "go": re.compile(r"\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\("),
    "rust": re.compile(r"\bassert_eq!"),
}


def _fails_in_fewer_places(one: PlacedTest, other: PlacedTest) -> bool:
    """True for a test of Go or Rust that calls a function of its file which compares less than it did."""
    called = one.case.calls & other.case.calls
    before, after = (_failures_in(side) for side in (one.view.before, other.view.after))
    return any(after.get(name, before[name]) < before[name] for name in called & before.keys())


def _failures_in(source: SourceFile | None) -> dict[str, int]:
    """In how many places each function of a file of Go or Rust lets a test fail."""
    failure = _FAILURES.get(source.language) if source is not None else None
    if source is None or failure is None:
        return {}
    return {
        source.code.node_text(node.child("name")): len(failure.findall(source.code.node_text(node)))
        for node in source.code.nodes_of("function_declaration", "function_item")
    }


def _gives_expectation(one: PlacedTest, other: PlacedTest) -> bool:
    """True for a test of Go or Rust that gives a function what it expects of it, and did not."""
    given = [
        _given_names(placed, side) for placed, side in ((one, one.view.before), (other, other.view.after))
    ]
    called = {function for function, _ in given[0]}
    expected = {
        found[2]
        for item in one.case.assertions
        if item.strength >= EXACT
        for found in _NAMES.finditer(item.expectation)
    }
    return any(function in called and name in expected for function, name in given[1] - given[0])


def _given_names(placed: PlacedTest, source: SourceFile | None) -> set[tuple[str, str]]:
    """The functions that a test of Go or Rust calls, each with the names in its arguments."""
    if source is None or source.language not in ("go", "rust"):
        return set()
    code = source.code
    return {
        (code.node_text(call.child("function")), name)
        for node in code.nodes_of("function_declaration", "function_item")
        if code.node_text(node.child("name")) == placed.case.short_name
        for call in node.walk()
        if call.kind == "call_expression" and (given := call.child("arguments"))
        for name in code.words(given.start, given.stop)
    }


_LEAVES = re.compile(
    r"\b(?:continue|break|return|Skip|Skipf|SkipNow)\b|\[\w*:\w*\]|\.\.\w+\]|\.(?:take|skip|step_by|filter|\w+_while)\("
)


def _has_way_past(before: ParsedTest, after: ParsedTest) -> bool:
    """True for a test that asserts the same of fewer values: it leaves in more places, or takes a part of its rows."""
    leaves = [len(_LEAVES.findall(_VALUE.sub("", case.body))) for case in (before, after)]
    return leaves[1] > leaves[0] and before.literals == after.literals


def _levelling_calls(placed: PlacedTest) -> frozenset[str]:
    """The calls of a test that make different values equal, by themselves or in a function of its file."""
    source = placed.view.after
    if source is None or source.language not in ("go", "rust"):
        return placed.case.calls & _LEVELLERS
    code = source.code
    levelling = {
        code.node_text(node.child("name"))
        for node in code.nodes_of("function_declaration", "function_item")
        if code.calls(node.start, node.stop) & _LEVELLERS
    }
    return placed.case.calls & (_LEVELLERS | levelling)


def _is_weakened(changeset: Changeset, path: str, test_id: str) -> bool:
    """True when the head's version of a test proves less, or is not there without a reason."""
    for before, after in changeset.test_pairs.kept:
        if before.is_run and before.view.change.base_path == path and is_test_id_of(before, test_id):
            return (
                not after.is_run
                or after.case.is_skipped
                or _proves_less(before, after)
                or _asks_more_often(changeset, before.case, after.case)
                or _only_loses_values(before, after, changeset.comparison.changes)
                or bool((after.case.calls - before.case.calls) & _LEVELLERS)
                or _compares_fewer_names(before, after)
            )
    gone = [placed for placed in changeset.test_pairs.gone if is_test_id_of(placed, test_id)]
    return bool(gone) and not any(is_loss_explained(changeset, placed) for placed in gone)


def _proves_less(before: PlacedTest, after: PlacedTest) -> bool:
    if after.case.proofs < before.case.proofs:
        return True
    old = [item for item in before.case.assertions if item.strength > NOTHING]
    new = [item for item in after.case.assertions if item.strength > NOTHING]
    return any(is_weaker(one, other) for one, other in pair_assertions(old, new)[0])


def _asks_more_often(changeset: Changeset, before: ParsedTest, after: ParsedTest) -> bool:
    """True for a test that has fewer values written out, and calls a changed product's function in more places."""
    if len(before.literals - after.literals) <= len(after.literals - before.literals):
        return False
    defined = defined_names(
        view.after
        for view in changeset.views
        if view.after is not None and view.after.tokens and not view.is_test
    )
    return any(
        after.body.count(f"{name}(") > before.body.count(f"{name}(")
        for name in before.calls & after.calls & defined
    )


def is_test_id_of(placed: PlacedTest, test_id: str) -> bool:
    """True when an id ends with the name of a test."""
    name, words = id_words(placed.case.name), id_words(without_parameters(test_id))
    return bool(name) and words[-len(name) :] == name


def _is_named_in(placed: PlacedTest, test_id: str) -> bool:
    """True when an id has the name of a test in it, whatever follows: parameters, subtests, cases."""
    name = id_words(placed.case.name)
    return bool(name) and has_words(id_words(test_id), name)


def judge_new_tests(comparison: Comparison, runs: TestRuns) -> tuple[Suspicion, ...]:
    """New and changed tests that all pass on the base's code, too, in a change of the product.

    A test that failed on the base and passes now shows the work as well, whoever wrote it. Tests that notice when the
    changed code is broken are those of a change that keeps its results: they are noted and hold nothing.
    """
    changeset = Changeset(comparison)
    if not changeset.has_product_change:
        return ()
    known = _outcomes_by_id(runs.on_base)
    new = [
        test.id
        for test in runs.on_head
        if test.outcome == "passed" and is_new_or_changed(changeset, test.id, known)
    ]
    is_fixed = any(test.outcome == "passed" and known.get(test.id) in BAD_OUTCOMES for test in runs.on_head)
    before = _outcomes_by_id(runs.crossed)
    if not new or is_fixed or any(before.get(test_id) != "passed" for test_id in new):
        return ()
    path = next(filter(None, map(ChangedPaths(comparison.changes).path_of, new)), "")
    code = "new_tests_pass_on_base" if runs.notices_faults else "new_tests_prove_nothing"
    return (suspicion(code, path, 0, f"{quote_names(new)} pass without the change", "\n".join(new)),)


def judge_own_harness(comparison: Comparison, runs: TestRuns) -> tuple[Suspicion, ...]:
    """Tests that fail with what steers them on the base, and pass with what the head has in its place."""
    failing = {test.id for test in runs.on_head if test.outcome in BAD_OUTCOMES}
    names = [test.id for test in runs.crossed if test.outcome == "passed" and test.id in failing]
    path = next((one.path for one in comparison.changes if is_steering_path(one.path)), "")
    text = f"{quote_names(names)} pass only with the changed harness"
    return (suspicion("harness_tampered", path, 0, text, "\n".join(names)),) if names else ()


def is_new_or_changed(changeset: Changeset, test_id: str, known: Mapping[str, str]) -> bool:
    """True for a test that did not run on the base, or whose text differs from what the base has."""
    if known.get(test_id) not in RAN_OUTCOMES:
        return True
    return any(
        before.case.body != after.case.body and is_test_id_of(after, test_id)
        for before, after in changeset.test_pairs.kept
    )


def find_changed_proof(comparison: Comparison, must_pass: Sequence[str]) -> Iterator[Suspicion]:
    """Changes of the files that hold the tests a task must pass, where the base has them; lines may be added."""
    pairs = Changeset(comparison).test_pairs if must_pass else None
    placed = (*(before for before, _ in pairs.kept), *pairs.gone) if pairs else ()
    for change in comparison.changes:
        place = change.base_path.rpartition(".")[0]
        ids = [f"{place}::{one.case.name}" for one in placed if one.view.change is change]
        patterns = [
            one
            for one in must_pass
            if is_file_of(change.base_path, one) or any(is_named_by(name, one) for name in ids)
        ]
        if change.status == "A" or not patterns:
            continue
        rest = iter((change.content or "").splitlines())
        if change.path == change.base_path and all(
            line in rest for line in (change.before or "").splitlines()
        ):
            continue
        found = (
            f"`{patterns[0]}` is a test that the task must pass, and the base's text of its file was changed"
        )
        yield suspicion("control_changed", change.base_path, 0, found, change.content or "")
