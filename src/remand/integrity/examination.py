"""Applies every rule to a change."""

from __future__ import annotations

from remand.integrity.changeset import Changeset, Rule
from remand.integrity.comparison import Comparison
from remand.integrity.rules import (
    check_commands,
    control_files,
    disguised_answers,
    forced_passes,
    forged_results,
    gate_detection,
    hardcoded_answers,
    hidden_content,
    hollowed_functions,
    missing_tests,
    mocked_subjects,
    suppressions,
    tool_settings,
    weakened_tests,
)
from remand.integrity.rules.forged_results import find_forged_reports
from remand.integrity.rules.hidden_content import find_obfuscated_code
from remand.integrity.suspicions import Suspicion

RULES: tuple[Rule, ...] = (
    missing_tests.find_deleted_tests,
    missing_tests.find_uncollected_tests,
    missing_tests.find_fewer_tests,
    missing_tests.find_tests_not_collected,
    missing_tests.find_skipped_tests,
    missing_tests.find_idle_examples,
    missing_tests.find_focused_tests,
    weakened_tests.find_weakened_tests,
    weakened_tests.find_empty_tests,
    weakened_tests.find_rewritten_expectations,
    mocked_subjects.find_mocked_subjects,
    mocked_subjects.find_mapped_modules,
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
    disguised_answers.find_disguised_answers,
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
    """Every suspicion that the rules find in a change, without duplicates, by path and line."""
    changeset = Changeset(comparison)
    found = {item.id: item for rule in RULES for item in rule(changeset)}
    return tuple(sorted(found.values(), key=lambda item: (item.path, item.line, item.code)))
