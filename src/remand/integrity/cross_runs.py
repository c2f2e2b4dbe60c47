"""What runs show: which side's tests to run on which side's code, and what their results say about a change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from remand.domain.gate.gate import TestOutcome
from remand.domain.gate.judge import is_file_of, is_named_by
from remand.domain.record import Record
from remand.integrity.changeset import Changeset, PlacedTest
from remand.integrity.comparison import Comparison, FileDiff
from remand.integrity.harness import harness_paths, is_steering_path
from remand.integrity.paths import is_collected_path, is_test_path, language_of
from remand.integrity.rules.missing_tests import (
    RAN_OUTCOMES,
    ChangedPaths,
    is_subject_gone,
    without_parameters,
)
from remand.integrity.suspicions import Suspicion, quote_names, suspicion
from remand.integrity.test_pairs import (
    is_expectation_changed,
    is_named_in,
    is_test_id_of,
    is_weakened,
    leaves_out,
    proves_less,
)

BAD_OUTCOMES = ("failed", "error")


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
            is_weaker_now = is_weakened(self._changeset, path, test_id)
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
            and not is_expectation_changed(*pair, self._changeset.comparison.changes)
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
            (one.view.change.base_path for one in placed if one.is_run and is_named_in(one, test_id)), ""
        )

    def _pair_of(self, test_id: str) -> tuple[PlacedTest, PlacedTest] | None:
        """Both versions of a test whose own text differs; None for one that is as it was, or is not read."""
        for before, after in self._changeset.test_pairs.kept:
            is_changed = before.case.body != after.case.body or before.case.literals != after.case.literals
            if is_named_in(before, test_id) and is_changed:
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
        return any(leaves_out(change.before or "", change.content or "") for change in data) or any(
            proves_less(before, after)
            for before, after in self._changeset.test_pairs.kept
            if not before.is_run
        )


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
