"""Applies every rule to a change."""

from __future__ import annotations

from collections.abc import Sequence

from remand.domain.gate.gate import GateFinding
from remand.domain.gate.judge import MAX_KEPT_FINDINGS, clean_text
from remand.domain.gate.verdict import INTEGRITY_GATE, GateResult, GateStatus
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
from remand.integrity.suspicions import Suspicion, Weight

KEPT_SUSPICIONS = 200

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
    control_files.find_switched_off_checks,
    control_files.find_lowered_coverage,
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
    hollowed_functions.find_unfailing_commands,
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
    # Trees are taken apart, so that no garbage collection has to look for them.
    sides = (side for view in changeset.views for side in (view.before, view.after) if side)
    for source in (*sides, *changeset.unchanged_tests):
        source.release()
    return tuple(sorted(found.values(), key=lambda item: (item.path, item.line, item.code)))


def integrity_result(suspicions: Sequence[Suspicion]) -> GateResult:
    """The gate's result: a suspicion that a reviewer must settle holds the work."""
    serious = [one for one in suspicions if one.weight is Weight.HELD]
    notes = [one for one in suspicions if one.weight is not Weight.HELD]
    count = len(serious)
    return GateResult(
        name=INTEGRITY_GATE,
        status=GateStatus.HELD if serious else GateStatus.PASSED,
        measured={"findings": float(count)},
        required={"max_findings": 0.0},
        line=f"- Integrity: {count} {'finding' if count == 1 else 'findings'} (requires 0)",
        findings=tuple(
            _integrity_finding(one) for one in (*serious[:KEPT_SUSPICIONS], *notes[:MAX_KEPT_FINDINGS])
        ),
        finding_count=len(suspicions),
        suspicions=tuple(one.id for one in serious),
        excess=float(count),
    )


def _integrity_finding(one: Suspicion) -> GateFinding:
    severity = "error" if one.weight is Weight.HELD else "note"
    text = clean_text(one.text)
    return GateFinding(
        path=clean_text(one.path),
        line=one.line,
        code=one.code,
        text=f"{text} [{one.id}]" if one.weight is Weight.HELD else text,
        severity=severity,
    )
