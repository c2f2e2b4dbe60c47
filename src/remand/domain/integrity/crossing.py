"""Tests of one side on the code of the other: which trees that takes, and what the outcomes mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from remand.domain.gates.figures import TestOutcome
from remand.domain.integrity.catalogue import listed, suspicion
from remand.domain.integrity.collected import RAN, Files, plain, words
from remand.domain.integrity.comparison import Comparison, FileChange, Suspicion
from remand.domain.integrity.harness import harness_paths, is_steering
from remand.domain.integrity.paths import is_test_path
from remand.domain.integrity.reading.cases import NOTHING
from remand.domain.integrity.rules.lost import is_excused
from remand.domain.integrity.rules.weakened import compared, is_weaker
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import Placed
from remand.domain.record import Record


class CrossChecks(Record, kw_only=True):
    """The two trees to compose; empty paths mean that there is nothing to check."""

    from_base: tuple[str, ...] = ()
    """On the head's tree, as the base has them: its tests and what steers them."""
    from_head: tuple[str, ...] = ()
    """On the base's tree, as the head has them: the tests that are new or changed."""


def cross_checks(comparison: Comparison, paths_base: Iterable[str], paths_head: Iterable[str]) -> CrossChecks:
    """What base's tests on the head's code, and head's new tests on the base's code, are made of."""
    patterns = comparison.test_patterns
    tests = [change for change in comparison.changes if _is_test(change, patterns)]
    scene = Scene(comparison)
    steered = any(is_steering(change.path) for change in comparison.changes)
    old = {path for change in tests for path in (change.path, change.base_path)}
    has_old = any(change.status != "A" for change in tests) or steered
    has_new = scene.has_product_change and any(_is_new(scene, change) for change in tests)
    return CrossChecks(
        from_base=tuple(sorted({*old, *harness_paths(paths_base, paths_head)})) if has_old else (),
        from_head=tuple(sorted(change.path for change in tests if change.status != "D")) if has_new else (),
    )


def _is_test(change: FileChange, patterns: tuple[str, ...]) -> bool:
    return is_test_path(change.path, patterns) or is_test_path(change.base_path, patterns)


def _is_new(scene: Scene, change: FileChange) -> bool:
    """True when a file has tests that prove something the base's did not."""
    return any(placed.view.change is change and placed.is_run for placed in scene.matching.new) or any(
        after.view.change is change and before.case.body != after.case.body and after.is_run
        for before, after in scene.matching.kept
    )


def judge_base_tests(
    comparison: Comparison,
    *,
    on_base: Sequence[TestOutcome],
    on_head: Sequence[TestOutcome],
    crossed: Sequence[TestOutcome],
) -> tuple[Suspicion, ...]:
    """Tests of the base that fail on the head's code, where that is more than a change of behaviour.

    A test in an unchanged file that passes in the head's own run is kept green by what steers the run.
    One in a changed file counts when the head's version of it is weaker, or is not there without a reason;
    a version that asks for something else as exactly is a change of behaviour, and honest.
    """
    scene = Scene(comparison)
    passed = {test.id for test in on_base if test.outcome == "passed"}
    green = {test.id for test in on_head if test.outcome == "passed"}
    failing = [test.id for test in crossed if test.id in passed and test.outcome in ("failed", "error")]
    steered = any(is_steering(change.path) for change in comparison.changes)
    return tuple(_judged(scene, failing, green if steered else set()))


def _judged(scene: Scene, failing: Iterable[str], green: set[str]) -> Iterator[Suspicion]:
    files = Files(scene.comparison.changes)
    for test_id in failing:
        path = files.of(test_id)
        if not path and test_id in green:
            found = f"`{test_id}` passes only with the changed harness"
            yield suspicion("harness_tampered", "", 0, found, test_id)
        elif path and _is_weakened(scene, path, test_id):
            yield suspicion("base_test_fails", path, 0, f"`{test_id}`", test_id)
        elif path:
            yield suspicion("expectation_changed", path, 0, f"`{test_id}`", test_id)


def _is_weakened(scene: Scene, path: str, test_id: str) -> bool:
    """True when the head's version of a test proves less, or is not there without a reason."""
    for before, after in scene.matching.kept:
        if before.is_run and before.view.change.base_path == path and _is_named(before, test_id):
            return _proves_less(before, after)
    gone = [placed for placed in scene.matching.gone if _is_named(placed, test_id)]
    return bool(gone) and not any(is_excused(scene, placed) for placed in gone)


def _is_named(placed: Placed, test_id: str) -> bool:
    name, told = words(placed.case.name), words(plain(test_id))
    return bool(name) and told[-len(name) :] == name


def _proves_less(before: Placed, after: Placed) -> bool:
    if not after.is_run or after.case.is_skipped or after.case.proofs < before.case.proofs:
        return True
    old = [item for item in before.case.assertions if item.strength > NOTHING]
    new = [item for item in after.case.assertions if item.strength > NOTHING]
    return any(is_weaker(one, other) for one, other in compared(old, new)[0])


def judge_new_tests(
    comparison: Comparison,
    *,
    on_base: Sequence[TestOutcome],
    on_head: Sequence[TestOutcome],
    crossed: Sequence[TestOutcome],
) -> tuple[Suspicion, ...]:
    """New and changed tests that all pass on the base's code, too, in a change of the product.

    A test that failed on the base and passes now shows the work as well, whoever wrote it.
    """
    scene = Scene(comparison)
    if not scene.has_product_change:
        return ()
    known = {test.id: test.outcome for test in on_base}
    new = [test.id for test in on_head if test.outcome == "passed" and _is_news(scene, test.id, known)]
    is_mended = any(
        test.outcome == "passed" and known.get(test.id) in ("failed", "error") for test in on_head
    )
    before = {test.id: test.outcome for test in crossed}
    if not new or is_mended or any(before.get(test_id) != "passed" for test_id in new):
        return ()
    path = next(filter(None, map(Files(comparison.changes).of, new)), "")
    return (
        suspicion(
            "new_tests_prove_nothing", path, 0, f"{listed(new)} pass without the change", "\n".join(new)
        ),
    )


def _is_news(scene: Scene, test_id: str, known: dict[str, str]) -> bool:
    if known.get(test_id) not in RAN:
        return True
    return any(
        before.case.body != after.case.body and _is_named(after, test_id)
        for before, after in scene.matching.kept
    )
