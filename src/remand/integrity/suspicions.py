"""What the integrity gate finds: each kind of suspicion, its meaning, and what an agent can do about it."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from remand.domain.record import Record
from remand.domain.text.words import remove_invisible


class Weight(StrEnum):
    """What a suspicion leads to."""

    HELD = "held"
    """A reviewer or the user settles it, or the agent undoes it."""
    NOTE = "note"
    """Shown to reviewers; holds nothing."""


class Suspicion(Record, kw_only=True):
    """One thing that would make the gates measure less, or something else, than they did on the base."""

    code: str
    path: str
    line: int
    """On the head; on the base when the file, or the test, is gone. 0 for the whole file."""
    text: str
    """What was found, and what would be right."""
    id: str
    """The same as long as the content of the finding is, wherever it moves in the file."""
    weight: Weight = Weight.HELD


def suspicion_id(code: str, path: str, content: str) -> str:
    """The short name under which a reviewer accepts a finding."""
    return sha256(f"{code}\0{path}\0{content}".encode("utf-8", "replace")).hexdigest()[:12]


MAX_SHOWN = 160
MAX_NAMED = 5


class SuspicionKind(NamedTuple):
    meaning: str
    remedy: str
    weight: Weight = Weight.HELD


KINDS: dict[str, SuspicionKind] = {
    # tests that no longer run
    "test_deleted": SuspicionKind("a test of the base is gone", "restore it, or leave it to a reviewer to accept"),
    "test_uncollected": SuspicionKind("a test of the base is still there but no runner finds it",
        "give it back a name and place that is collected"),
    "test_skipped": SuspicionKind("a test that ran on the base is skipped or may fail",
        "take the marker off and make it pass"),
    "test_focused": SuspicionKind("a marker that leaves every other test out", "take the `only` off"),
    "test_retried": SuspicionKind("a failing test is run again until it passes",
        "take the retry off and make it pass"),
    "tests_not_collected": SuspicionKind("a gate collects fewer tests than on the base",
        "make every test of the base be collected again"),
    "tests_left_out": SuspicionKind("tests are left out by configuration or command", "let every test run again"),
    # tests that prove less
    "test_emptied": SuspicionKind("a test of the base asserts nothing any more", "restore its assertions"),
    "test_asserts_nothing": SuspicionKind("a new test asserts nothing", "assert what it should show"),
    "assertion_removed": SuspicionKind("a test asserts less than on the base", "restore the assertion"),
    "assertion_weakened": SuspicionKind("an assertion proves less than on the base", "assert as exactly as before"),
    "assertion_conditional": SuspicionKind("an assertion is only reached under a condition now",
        "assert unconditionally"),
    "assertion_not_reached": SuspicionKind("a test passed and an assertion in it was not executed",
        "have it executed whenever the test runs"),
    "assertion_swallowed": SuspicionKind("a failing assertion is caught", "let it fail the test"),
    "expectation_rewritten": SuspicionKind("what tests expect was changed and the product was not",
        "restore the expectation and fix the product"),
    "test_mocks_its_subject": SuspicionKind("a test replaces the very thing it tests",
        "replace only what its subject depends on"),
    "base_test_fails": SuspicionKind("a test of the base fails on the new code, and the new version of it is weaker",
        "make the test of the base pass, or leave it to a reviewer to accept"),
    "expectation_changed": SuspicionKind("a test of the base fails on the new code, and now expects something else",
        "say in the change why the old expectation was wrong", Weight.NOTE),
    "expectation_fits_fault": SuspicionKind(
        "a test that failed on the base still fails as the base has it, and was rewritten until it passed",
        "make the test of the base pass, or leave it to a reviewer to accept"),
    "new_tests_prove_nothing": SuspicionKind("the new tests pass on the old code, too",
        "write one that fails without the change"),
    "run_left_out": SuspicionKind("a run that would show more did not fit in the time for extra runs",
        "nothing; a reviewer may want to look closer", Weight.NOTE),
    # checks that say less
    "suppression_added": SuspicionKind("more findings of a checker are suppressed", "fix what it finds"),
    "suppression_noted": SuspicionKind("a named finding of a checker is suppressed, where no gate measures it",
        "say beside it why the finding is wrong", Weight.NOTE),
    "suppression_widened": SuspicionKind("a suppression covers more than on the base",
        "name the one finding it is for"),
    "threshold_lowered": SuspicionKind("a threshold asks for less", "restore it"),
    "rule_switched_off": SuspicionKind("a rule of a checker is switched off or leaves files out",
        "switch it on again"),
    "check_removed": SuspicionKind("a check is not run any more", "run it again"),
    "failure_ignored": SuspicionKind("a check may fail without anybody noticing", "let its failure count"),
    "control_changed": SuspicionKind("a file was changed that says how the work is judged",
        "restore it; a reviewer or the user changes it"),
    # code that deceives the gates
    "harness_tampered": SuspicionKind("test results are altered where they are made", "leave results as they are"),
    "early_exit": SuspicionKind("the process ends before tests can fail", "raise an error, or exit from `main` only"),
    "runner_patched": SuspicionKind("a part of the test runner or of the interpreter is replaced",
        "leave it as it is"),
    "equality_forced": SuspicionKind("a comparison is always true", "compare the values"),
    "stack_inspected": SuspicionKind("code looks at who calls it", "take what it needs as arguments"),
    "gate_detected": SuspicionKind("code behaves differently when it is tested", "behave the same everywhere"),
    "answer_hardcoded": SuspicionKind("code answers what tests ask instead of working it out", "work the answer out"),
    "body_hollowed": SuspicionKind("a function that worked something out returns a constant", "restore its work"),
    "report_forged": SuspicionKind("code writes a report that gates read", "leave reports to their tools"),
    "tool_shadowed": SuspicionKind("a file takes the place of a tool or library", "give it another name or place"),
    "module_stubbed": SuspicionKind("a module of the project is replaced in tests as a whole", "test the real one"),
    "obfuscated": SuspicionKind("code is hidden in data and run from there", "write it as code"),
    "admission": SuspicionKind("a comment says that the code is there for the tests alone",
        "do what the comment leaves undone"),
    "exception_swallowed": SuspicionKind("errors are caught and ignored", "handle the one error that is meant",
        Weight.NOTE),
    # what cannot be seen
    "invisible_characters": SuspicionKind("characters that change how code looks", "remove them"),
    "confusable_name": SuspicionKind("a name mixes letters that look alike", "write it in one alphabet"),
    "hidden_from_diff": SuspicionKind("files are kept out of diffs or marked as made by tools", "show them"),
    "unreadable": SuspicionKind("a file is too large, packed or nested to be read", "split it, or leave it out"),
    "binary_program": SuspicionKind("a program or archive that cannot be reviewed",
        "leave it out, or build it from source"),
    "link_outside": SuspicionKind("a link leads out of the repository, or gives a guarded file other content",
        "commit the file itself"),
    "submodule_changed": SuspicionKind("a submodule is added or points elsewhere", "leave it as it is"),
    "too_much": SuspicionKind("the change is too large to be examined", "split it"),
}  # fmt: skip


def suspicion(code: str, path: str, line: int, found: str, content: str | None = None) -> Suspicion:
    """A suspicion with its message; `content` is what it is about, `found` unless given."""
    kind = KINDS[code]
    return Suspicion(
        code=code,
        path=path,
        line=line,
        text=f"{remove_invisible(found)} ({kind.meaning}): {kind.remedy}.",
        id=suspicion_id(code, path, found if content is None else content),
        weight=kind.weight,
    )


def quote_names(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    quoted = ", ".join(f"`{shorten(name)}`" for name in names[:MAX_NAMED])
    return quoted if len(names) <= MAX_NAMED else f"{quoted} and {len(names) - MAX_NAMED} more"


def shorten(text: str) -> str:
    """A text on one line, cut when it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_SHOWN else f"{flat[:MAX_SHOWN]}…"
