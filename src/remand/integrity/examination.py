"""Applies every rule to a change, and judges runs of one side's tests on the other side's code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from remand.domain.gate.gate import TestOutcome
from remand.domain.record import Record
from remand.integrity.changeset import Changeset, PlacedTest, Rule
from remand.integrity.comparison import Comparison, FileDiff
from remand.integrity.harness import harness_paths, is_steering_path
from remand.integrity.paths import is_test_path
from remand.integrity.readers.cases import NOTHING
from remand.integrity.rules import (
    check_commands,
    control_files,
    forced_passes,
    forged_results,
    gate_detection,
    hardcoded_answers,
    hidden_content,
    hollowed_functions,
    missing_tests,
    suppressions,
    tool_settings,
    weakened_tests,
)
from remand.integrity.rules.forged_results import find_forged_reports
from remand.integrity.rules.hidden_content import find_obfuscated_code
from remand.integrity.rules.missing_tests import (
    RAN_OUTCOMES,
    ChangedPaths,
    id_words,
    is_loss_explained,
    without_parameters,
)
from remand.integrity.rules.weakened_tests import is_weaker, pair_assertions
from remand.integrity.suspicions import Suspicion, quote_names, suspicion

RULES: tuple[Rule, ...] = (
    missing_tests.find_deleted_tests,
    missing_tests.find_uncollected_tests,
    missing_tests.find_fewer_tests,
    missing_tests.find_tests_not_collected,
    missing_tests.find_skipped_tests,
    missing_tests.find_focused_tests,
    weakened_tests.find_weakened_tests,
    weakened_tests.find_empty_tests,
    weakened_tests.find_rewritten_expectations,
    weakened_tests.find_mocked_subjects,
    weakened_tests.find_mapped_modules,
    forged_results.find_hollow_decorators,
    forged_results.find_altered_results,
    suppressions.find_suppressions,
    tool_settings.find_lowered_settings,
    check_commands.find_ignored_failures,
    check_commands.find_narrowed_checks,
    check_commands.find_removed_checks,
    tool_settings.find_switched_off_checks,
    tool_settings.find_lowered_coverage,
    control_files.find_protected_changes,
    control_files.find_host_setting_changes,
    control_files.find_removed_hooks,
    control_files.find_narrowed_triggers,
    forced_passes.find_early_exits,
    forced_passes.find_forced_equality,
    forced_passes.find_runner_patches,
    gate_detection.find_gate_detection,
    hardcoded_answers.find_hardcoded_answers,
    hollowed_functions.find_hollowed_functions,
    find_forged_reports,
    find_obfuscated_code,
    control_files.find_shadowed_tools,
    hidden_content.find_invisible_characters,
    hidden_content.find_confusable_names,
    hidden_content.find_hidden_files,
    hidden_content.find_binary_programs,
    hidden_content.find_unreadable_files,
    hidden_content.find_oversized_change,
    hidden_content.find_unsafe_links,
    hidden_content.find_submodules,
    forced_passes.find_admissions,
    forced_passes.find_swallowed_exceptions,
)


def examine(comparison: Comparison) -> tuple[Suspicion, ...]:
    """Every suspicion a change gives rise to, each once, by path and line."""
    changeset = Changeset(comparison)
    found = {item.id: item for rule in RULES for item in rule(changeset)}
    return tuple(sorted(found.values(), key=lambda item: (item.path, item.line, item.code)))


class CrossChecks(Record, kw_only=True):
    """The two trees to compose; empty paths mean that there is nothing to check."""

    from_base: tuple[str, ...] = ()
    """On the head's tree, as the base has them: its tests and what steers them."""
    from_head: tuple[str, ...] = ()
    """On the base's tree, as the head has them: the tests that are new or changed."""


def plan_cross_checks(
    comparison: Comparison, paths_base: Iterable[str], paths_head: Iterable[str]
) -> CrossChecks:
    """What base's tests on the head's code, and head's new tests on the base's code, are made of."""
    patterns = comparison.test_patterns
    tests = [change for change in comparison.changes if _is_test_change(change, patterns)]
    changeset = Changeset(comparison)
    steered = any(is_steering_path(change.path) for change in comparison.changes)
    old = {path for change in tests for path in (change.path, change.base_path)}
    has_old = any(change.status != "A" for change in tests) or steered
    has_new = changeset.has_product_change and any(_has_new_tests(changeset, change) for change in tests)
    return CrossChecks(
        from_base=tuple(sorted({*old, *harness_paths(paths_base, paths_head)})) if has_old else (),
        from_head=tuple(sorted(change.path for change in tests if change.status != "D")) if has_new else (),
    )


def _is_test_change(change: FileDiff, patterns: tuple[str, ...]) -> bool:
    return is_test_path(change.path, patterns) or is_test_path(change.base_path, patterns)


def _has_new_tests(changeset: Changeset, change: FileDiff) -> bool:
    """True when a file has tests that prove something the base's did not."""
    return any(placed.view.change is change and placed.is_run for placed in changeset.test_pairs.new) or any(
        after.view.change is change and before.case.body != after.case.body and after.is_run
        for before, after in changeset.test_pairs.kept
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
    changeset = Changeset(comparison)
    passed = {test.id for test in on_base if test.outcome == "passed"}
    green = {test.id for test in on_head if test.outcome == "passed"}
    failing = [test.id for test in crossed if test.id in passed and test.outcome in ("failed", "error")]
    steered = any(is_steering_path(change.path) for change in comparison.changes)
    return tuple(_judge_failing_tests(changeset, failing, green if steered else set()))


def _judge_failing_tests(
    changeset: Changeset, failing: Iterable[str], green: set[str]
) -> Iterator[Suspicion]:
    files = ChangedPaths(changeset.comparison.changes)
    for test_id in failing:
        path = files.path_of(test_id)
        if not path and test_id in green:
            found = f"`{test_id}` passes only with the changed harness"
            yield suspicion("harness_tampered", "", 0, found, test_id)
        elif path and _is_weakened(changeset, path, test_id):
            yield suspicion("base_test_fails", path, 0, f"`{test_id}`", test_id)
        elif path:
            yield suspicion("expectation_changed", path, 0, f"`{test_id}`", test_id)


def _is_weakened(changeset: Changeset, path: str, test_id: str) -> bool:
    """True when the head's version of a test proves less, or is not there without a reason."""
    for before, after in changeset.test_pairs.kept:
        if before.is_run and before.view.change.base_path == path and _is_test_id_of(before, test_id):
            if not after.is_run or after.case.is_skipped or after.case.proofs < before.case.proofs:
                return True
            old = [item for item in before.case.assertions if item.strength > NOTHING]
            new = [item for item in after.case.assertions if item.strength > NOTHING]
            return any(is_weaker(one, other) for one, other in pair_assertions(old, new)[0])
    gone = [placed for placed in changeset.test_pairs.gone if _is_test_id_of(placed, test_id)]
    return bool(gone) and not any(is_loss_explained(changeset, placed) for placed in gone)


def _is_test_id_of(placed: PlacedTest, test_id: str) -> bool:
    name, words = id_words(placed.case.name), id_words(without_parameters(test_id))
    return bool(name) and words[-len(name) :] == name


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
    changeset = Changeset(comparison)
    if not changeset.has_product_change:
        return ()
    known = {test.id: test.outcome for test in on_base}
    new = [
        test.id
        for test in on_head
        if test.outcome == "passed" and _is_new_or_changed(changeset, test.id, known)
    ]
    is_fixed = any(test.outcome == "passed" and known.get(test.id) in ("failed", "error") for test in on_head)
    before = {test.id: test.outcome for test in crossed}
    if not new or is_fixed or any(before.get(test_id) != "passed" for test_id in new):
        return ()
    path = next(filter(None, map(ChangedPaths(comparison.changes).path_of, new)), "")
    return (
        suspicion(
            "new_tests_prove_nothing", path, 0, f"{quote_names(new)} pass without the change", "\n".join(new)
        ),
    )


def _is_new_or_changed(changeset: Changeset, test_id: str, known: dict[str, str]) -> bool:
    if known.get(test_id) not in RAN_OUTCOMES:
        return True
    return any(
        before.case.body != after.case.body and _is_test_id_of(after, test_id)
        for before, after in changeset.test_pairs.kept
    )
