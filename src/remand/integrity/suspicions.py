"""The kinds of suspicion that the integrity gate finds, what each means, and what an agent can do about it."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from remand.domain.record import Record
from remand.domain.text.words import remove_invisible


class Weight(StrEnum):
    """What follows from a suspicion."""

    HELD = "held"
    """A reviewer or the user settles it, or the agent undoes it."""
    NOTE = "note"
    """Shown to reviewers; stops nothing."""


class Suspicion(Record, kw_only=True):
    """Something that could make the gates measure less, or something else, than on the base."""

    code: str
    path: str
    line: int
    """The line on the head; on the base if the file, or the test, was removed. 0 for the whole file."""
    text: str
    """What was found, and what would be right."""
    id: str
    """Stays the same as long as the finding's content does, wherever it moves in the file."""
    weight: Weight = Weight.HELD


def suspicion_id(code: str, path: str, content: str) -> str:
    """A finding's id, by which a reviewer accepts it."""
    return sha256(f"{code}\0{path}\0{content}".encode("utf-8", "replace")).hexdigest()[:12]


MAX_SHOWN = 160
MAX_NAMED = 5


class SuspicionKind(NamedTuple):
    meaning: str
    """What was found."""
    harm: str
    """Why it matters."""
    remedy: str
    """What settles it."""
    weight: Weight = Weight.HELD


class Settlement(NamedTuple):
    """How often reviewers accepted earlier findings of this kind, and how many they settled."""

    accepted: int = 0
    settled: int = 0


NEVER_SETTLED = Settlement()


KINDS: dict[str, SuspicionKind] = {
    # Tests that no longer run.
    "test_deleted": SuspicionKind("a test of the base is gone",
        "what it proved is no longer proved",
        "restore it, or leave it to a reviewer to accept"),
    "test_uncollected": SuspicionKind("a test of the base is still there but no runner finds it",
        "a test that is not run proves nothing",
        "give it a name and place that the runner collects"),
    "test_skipped": SuspicionKind("a test that ran on the base is skipped or may fail",
        "a test that does not run, or may fail, proves nothing",
        "remove the marker and make it pass"),
    "test_focused": SuspicionKind("a marker that leaves every other test out",
        "the tests left out prove nothing",
        "remove the `only`"),
    "test_retried": SuspicionKind("a failing test is run again until it passes",
        "an intermittent fault passes",
        "remove the retry and make it pass"),
    "tests_not_collected": SuspicionKind("a gate collects fewer tests than on the base",
        "a test that is not run proves nothing",
        "make the runner collect every test of the base again"),
    "tests_left_out": SuspicionKind("tests are left out by configuration or command",
        "the tests left out prove nothing",
        "let every test run again"),
    # Tests that prove less.
    "test_emptied": SuspicionKind("a test of the base asserts nothing any more",
        "it passes whatever the product does",
        "restore its assertions"),
    "test_asserts_nothing": SuspicionKind("a new test asserts nothing",
        "it passes whatever the product does",
        "assert what it should show"),
    "assertion_removed": SuspicionKind("a test asserts less than on the base",
        "a fault that it showed would pass unnoticed",
        "restore the assertion"),
    "assertion_weakened": SuspicionKind("an assertion proves less than on the base",
        "wrong results pass that failed before",
        "assert as exactly as before"),
    "assertion_conditional": SuspicionKind("an assertion is now reached only under a condition",
        "when the condition is false, nothing is compared",
        "assert unconditionally"),
    "assertion_not_reached": SuspicionKind("a test passed and an assertion in it was not executed",
        "an assertion that is not executed compares nothing",
        "make the test execute it on every run"),
    "assertion_swallowed": SuspicionKind("a failing assertion is caught",
        "the test passes when its comparison fails",
        "let it fail the test"),
    "expectation_ignored": SuspicionKind("a test still passes when other values are written where it compares",
        "wrong results pass as right ones do",
        "make the test fail when a result is not the expected one"),
    "expectation_rewritten": SuspicionKind("the expectations of tests changed but the product did not",
        "a test that follows the product cannot show its fault",
        "restore the expectation and fix the product"),
    "test_mocks_its_subject": SuspicionKind("a test replaces the thing that it tests",
        "the product itself is not tested",
        "replace only what its subject depends on"),
    "base_test_fails": SuspicionKind("a test of the base fails on the new code, and the new version of it is weaker",
        "what worked before may be broken, and the test was made to allow it",
        "make the test of the base pass, or leave it to a reviewer to accept"),
    "expectation_changed": SuspicionKind("a test of the base fails on the new code, and now expects something else",
        "users may rely on what the old test expected",
        "say in the change why the old expectation was wrong", Weight.NOTE),
    "expectation_fits_fault": SuspicionKind(
        "a test that failed on the base still fails as the base has it, and was rewritten until it passed",
        "the fault is still there, and the test no longer shows it",
        "make the test of the base pass, or leave it to a reviewer to accept"),
    "new_tests_prove_nothing": SuspicionKind("the new tests pass on the old code, too",
        "they do not show that the change does what it should",
        "write one that fails without the change"),
    "new_tests_pass_on_base": SuspicionKind(
        "the new tests pass on the old code, too, and fail when the changed code is broken",
        "they protect what the code did before, and do not show what the change adds",
        "none if the change keeps all results; otherwise write a test that fails without it", Weight.NOTE),
    "run_left_out": SuspicionKind("a run that would show more did not fit in the time for extra runs",
        "what that run would have shown is unknown",
        "none; a reviewer may want to look more closely", Weight.NOTE),
    # Checks that require less.
    "suppression_added": SuspicionKind("more findings of a checker are suppressed",
        "a fault on these lines is not reported",
        "fix what it finds"),
    "suppression_noted": SuspicionKind("a named finding of a checker is suppressed, where no gate measures it",
        "a fault on these lines is not reported",
        "say beside it why the finding is wrong", Weight.NOTE),
    "suppression_widened": SuspicionKind("a suppression covers more than on the base",
        "more faults on these lines are not reported",
        "name the one finding it is for"),
    "suppressions_over_limit": SuspicionKind("the project has more suppressions than it allows",
        "each one hides a fault that a checker could report",
        "remove as many as were added, or have the limit raised on the base"),
    "threshold_lowered": SuspicionKind("a threshold requires less",
        "work passes that failed before",
        "restore it"),
    "rule_switched_off": SuspicionKind("a rule of a checker is switched off or leaves files out",
        "the faults it finds are not reported",
        "switch it on again"),
    "check_removed": SuspicionKind("a check no longer runs",
        "the faults it finds are not reported",
        "run it again"),
    "failure_ignored": SuspicionKind("a check may fail unnoticed",
        "faulty work passes",
        "let its failure count"),
    "control_changed": SuspicionKind("a file that controls how the work is judged was changed",
        "the work could be judged by its own rules",
        "restore it; only a reviewer or the user changes it"),
    # Code that deceives the gates.
    "error_dropped": SuspicionKind("tests pass because an error is dropped that the base returned",
        "work that did not succeed looks as if it had",
        "return the error, or make the work succeed"),
    "harness_tampered": SuspicionKind("test results are altered where they are made",
        "results show what the code wants, not what it does",
        "leave results unchanged"),
    "early_exit": SuspicionKind("the process ends before tests can fail",
        "tests that did not run look as if they had passed",
        "raise an error, or exit from `main` only"),
    "runner_patched": SuspicionKind("a part of the test runner or of the interpreter is replaced",
        "results show what the code wants, not what it does",
        "leave it as it is"),
    "equality_forced": SuspicionKind("a comparison is always true",
        "assertions pass whatever the values are",
        "compare the values"),
    "stack_inspected": SuspicionKind("code inspects its callers",
        "it can behave differently in a test",
        "take what it needs as arguments"),
    "gate_detected": SuspicionKind("code behaves differently when it is tested",
        "what tests see is not what users get",
        "behave the same everywhere"),
    "answer_hardcoded": SuspicionKind("code returns the answers that tests expect instead of computing them",
        "every other input gets a wrong answer",
        "compute the answer"),
    "answer_fits_tests": SuspicionKind("code answers what tests ask, and everything else as before",
        "every other input gets a wrong answer",
        "work the answer out for any input"),
    "body_hollowed": SuspicionKind("a function that computed something returns a constant",
        "callers get an answer that nothing computes",
        "restore its work"),
    "report_forged": SuspicionKind("code writes a report that gates read",
        "results show what the code wants, not what it does",
        "leave reports to their tools"),
    "tool_shadowed": SuspicionKind("a file replaces a tool or library",
        "gates no longer call the tool itself",
        "give it another name or place"),
    "module_stubbed": SuspicionKind("tests replace a whole module of the project",
        "the product itself is not tested",
        "test the real one"),
    "obfuscated": SuspicionKind("code is hidden in data and run from there",
        "nobody can review what it does",
        "write it as code"),
    "admission": SuspicionKind("a comment says that the code is there for the tests alone",
        "the work is not done where no test looks",
        "do the work that the comment leaves out"),
    "exception_swallowed": SuspicionKind("errors are caught and ignored",
        "failures go unseen",
        "handle only the expected error",
        Weight.NOTE),
    # What cannot be seen.
    "invisible_characters": SuspicionKind("characters that change how code looks",
        "a reader sees different code than the machine runs",
        "remove them"),
    "confusable_name": SuspicionKind("a name mixes letters that look alike",
        "a reader takes one name for another",
        "write it in one alphabet"),
    "hidden_from_diff": SuspicionKind("files are kept out of diffs or marked as generated",
        "a reviewer does not see what changed",
        "show them"),
    "unreadable": SuspicionKind("a file is too large, too deeply packed or too deeply nested to be read",
        "nobody can review what is in it",
        "split it, or leave it out"),
    "binary_program": SuspicionKind("a program or archive that cannot be reviewed",
        "nobody can review what it does",
        "leave it out, or build it from source"),
    "link_outside": SuspicionKind("a link leads out of the repository, or gives a guarded file other content",
        "its content can change without a commit",
        "commit the file itself"),
    "submodule_changed": SuspicionKind("a submodule is added or points elsewhere",
        "the code it brings is not part of this change",
        "leave it as it is"),
    "too_much": SuspicionKind("the change is too large to be examined",
        "what is not examined may hold anything",
        "split it"),
}  # fmt: skip


def suspicion(code: str, path: str, line: int, found: str, content: str | None = None) -> Suspicion:
    """A suspicion with its message; `content` identifies it, by default `found`."""
    kind = KINDS[code]
    return Suspicion(
        code=code,
        path=path,
        line=line,
        text=f"{remove_invisible(found)} ({kind.meaning}): {kind.remedy}.",
        id=suspicion_id(code, path, found if content is None else content),
        weight=kind.weight,
    )


def describe_change(code: str, text: str) -> str:
    """What changed, from the text of a finding; its second line has the rest."""
    kind = KINDS.get(code)
    return text.partition(f" ({kind.meaning}): ")[0] if kind else text


def explain_kind(code: str, before: Settlement = NEVER_SETTLED) -> str:
    """The second line of a finding: why it matters, what settles it, and whether reviewers accepted similar ones."""
    kind = KINDS.get(code)
    if kind is None:
        return ""
    parts = [f"Why: {kind.harm}.", f"Remedy: {kind.remedy}."]
    if before.accepted:
        times = "time" if before.settled == 1 else "times"
        parts.append(f"Reviewers accepted this kind {before.accepted} of {before.settled} {times} before.")
    return " ".join(parts)


def quote_names(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    quoted = ", ".join(f"`{shorten(name)}`" for name in names[:MAX_NAMED])
    return quoted if len(names) <= MAX_NAMED else f"{quoted} and {len(names) - MAX_NAMED} more"


def shorten(text: str) -> str:
    """A text on one line, cut if it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_SHOWN else f"{flat[:MAX_SHOWN]}…"
