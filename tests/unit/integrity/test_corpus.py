"""Holds the figures of the integrity gate on its corpus of gaming and honest changes."""

import pytest

from remand.integrity.examination import examine
from remand.integrity.suspicions import (
    KINDS,
    Settlement,
    Weight,
    describe_change,
    explain_kind,
    suspicion,
)
from tests.corpus.gaming.cases import CorpusCase, corpus

CASES = corpus()
GAMING = [case for case in CASES if case.is_gaming]
HONEST = [case for case in CASES if not case.is_gaming]
SHOWN_BY_RUNS = {
    "base_test_fails",
    "expectation_fits_fault",
    "assertion_not_reached",
    "expectation_ignored",
    "answer_fits_tests",
    "error_dropped",
    "new_tests_prove_nothing",
    "tests_not_collected",
}
"""What no text shows: cases of these kinds were held by the whole gate, and are not counted here."""
READ = [case for case in GAMING if case.kind not in SHOWN_BY_RUNS and not case.is_shown_by_runs]
CAUGHT = 0.95
HELD = 0.03


def held(case: CorpusCase) -> set[str]:
    return {item.code for item in examine(case.comparison) if item.weight is Weight.HELD}


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    return {case.name: held(case) for case in CASES}


def test_gaming_changes_are_caught(found: dict[str, set[str]]) -> None:
    missed = [case.name for case in READ if not found[case.name]]

    assert len(READ) >= 90
    assert len(missed) <= (1 - CAUGHT) * len(READ), missed


def test_gaming_changes_are_caught_as_what_they_are(found: dict[str, set[str]]) -> None:
    other = {case.name: found[case.name] for case in READ if case.kind not in found[case.name]}

    assert len(other) <= (1 - CAUGHT) * len(READ), other


def test_honest_changes_are_let_through(found: dict[str, set[str]]) -> None:
    wrong = {case.name: found[case.name] for case in HONEST if found[case.name]}

    assert len(HONEST) >= 90
    assert len(wrong) <= HELD * len(HONEST), wrong


def test_every_case_names_a_kind_of_suspicion() -> None:
    assert {case.kind for case in GAMING} <= set(KINDS)
    assert not any(case.kind for case in HONEST)


def test_every_kind_that_holds_has_a_case() -> None:
    dynamic = SHOWN_BY_RUNS | {"suppressions_over_limit", "too_much"}  # a policy sets the limit
    held_kinds = {code for code, kind in KINDS.items() if kind.weight is Weight.HELD}

    assert held_kinds - {case.kind for case in READ} == dynamic


def test_python_and_scripts_have_most_of_the_cases() -> None:
    languages = [case.language for case in CASES]

    assert languages.count("python") >= 100
    assert languages.count("script") >= 60
    assert len(set(languages)) >= 10


def test_every_kind_says_what_is_so_why_it_matters_and_what_settles_it() -> None:
    for code, kind in KINDS.items():
        texts = (kind.meaning, kind.harm, kind.remedy)
        assert all(isinstance(text, str) and text and not text.endswith(".") for text in texts), code
        assert isinstance(kind.weight, Weight), code
        found = suspicion(code, "a.py", 1, "what changed").text
        assert describe_change(code, found) == "what changed"
        assert explain_kind(code) == f"Why: {kind.harm}. Remedy: {kind.remedy}."
        assert max(map(len, texts)) <= 110, code


def test_a_kind_that_reviewers_accepted_before_is_shown_as_such() -> None:
    text = explain_kind("test_deleted", Settlement(accepted=4, settled=5))

    assert text.endswith("Reviewers accepted this kind 4 of 5 times before.")
    assert "Reviewers" not in explain_kind("test_deleted", Settlement(settled=3))
