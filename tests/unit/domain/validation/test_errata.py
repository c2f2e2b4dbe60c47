"""Holds the stated rules where the requirements' sample code breaks them, one test an erratum."""

import math
from typing import Any

import pytest

from remand.domain.rejection import TaskRejection
from remand.domain.validation.assessment import NamedTask, ValidationFacts
from remand.domain.validation.validator import RejectionValidator
from tests.unit.domain.validation.records import BLOCKER, SCOPE_CREEP, codes, judged, record


def test_05_a_record_can_be_made_from_the_same_dict_twice() -> None:
    data = record("BLOCKER").to_dict()

    assert TaskRejection.from_dict(data) == TaskRejection.from_dict(data)


def test_06_asking_someone_else_is_too_generic() -> None:
    assert "alternative_generic" in codes("BLOCKER", suggested_alternative="Ask someone else to do it")


@pytest.mark.parametrize(
    "attempts",
    [
        ["", ""],
        ["x", "x"],
        ["   ", "Ran pytest: 3 failed"],
        ["Looked at it", "Ran pytest tests/io: 3 failed"],
    ],
    ids=["empty", "letters", "blank", "one vague"],
)
def test_07_two_attempts_must_both_be_concrete(attempts: list[str]) -> None:
    assert codes("BLOCKER", what_attempted=attempts) & {"effort_too_few", "effort_vague"}


def test_08_concrete_attempts_may_use_any_verb() -> None:
    attempts = [
        "Checked /etc/backup.conf: key DRILL_KEY missing",
        "Looked at the log of run 812: found unchecked error 403 in upload.go:41",
        "Tried to read the bucket with the old key: AccessDenied",
    ]

    assert codes("BLOCKER", what_attempted=attempts) == set()


@pytest.mark.parametrize(
    ("field", "text", "code"),
    [
        ("blocking_factor", "Missing information", "blocking_factor_vague"),
        ("blocking_factor", "Too complex", "blocking_factor_vague"),
        ("blocking_factor", " " * 15, "blocking_factor_missing"),
        ("suggested_alternative", "Break into smaller tasks", "alternative_generic"),
        ("suggested_alternative", "Get more context", "alternative_generic"),
        ("suggested_alternative", " " * 20, "alternative_missing"),
    ],
)
def test_09_the_documented_bad_examples_fail(field: str, text: str, code: str) -> None:
    assert code in codes("BLOCKER", **{field: text})


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("blocking_factor", "Need API key for external service X"),
        ("suggested_alternative", "Ask user for production API credentials"),
        ("suggested_alternative", "Ask the user for the production API key"),
        ("suggested_alternative", "Get the production SMTP credentials from the owner"),
    ],
)
def test_09_the_documented_good_examples_pass(field: str, text: str) -> None:
    record = TaskRejection(
        reason_type="BLOCKER",
        reason_summary="No production API key for the payment service",
        reason_detail=(
            "The payment API answers 401 to every call, and SMTP receipts wait for it: the environment holds only a "
            "sandbox key. The production key is issued to the account's owner alone."
        ),
        what_attempted=[
            "Ran curl https://api.pay.example/v1/charges with the sandbox key: 401 invalid_api_key",
            "Searched .env, vault/ and the CI secrets for PAY_API_KEY: 0 matches",
        ],
        blocking_factor="Need API key for external service pay.example: every call gives 401",
        evidence=[
            {
                "type": "error_log",
                "data": "HTTP 401 invalid_api_key",
                "source": "curl https://api.pay.example/v1/charges",
            }
        ],
        suggested_alternative="The account's owner puts the production key into the vault as PAY_API_KEY.",
    )
    setattr(record, field, text)

    assert RejectionValidator().validate(record, {"title": "Charge cards by pay.example"}) == (True, [])


@pytest.mark.parametrize("text", ["Ask the API team", "Ask the user about the API", "Fix the API"])
def test_09_an_acronym_alone_makes_no_alternative(text: str) -> None:
    assert "alternative_generic" in codes("BLOCKER", suggested_alternative=text)


def test_10_unclear_requirements_may_say_unclear_and_ask_the_user() -> None:
    honest = record("UNCLEAR_REQUIREMENTS")

    assert "unclear" in honest.blocking_factor
    assert "Ask the user" in honest.suggested_alternative
    assert codes("UNCLEAR_REQUIREMENTS") == set()


@pytest.mark.parametrize(
    ("reason", "evidence", "code"),
    [
        ("BLOCKER", [], "evidence_missing"),
        ("BLOCKER", [{"type": "error_log"}], "evidence_empty"),
        ("MISSING_DEPENDENCY", [{"type": "error_log", "data": "  "}], "evidence_empty"),
        ("INFEASIBLE", [{}, {}], "evidence_too_few"),
        (
            "INFEASIBLE",
            [{"type": "conflict", "data": "61 KB > 48 KB"}, {"type": "conflict"}],
            "evidence_too_few",
        ),
    ],
)
def test_11_evidence_must_hold_data(reason: str, evidence: list[dict[str, Any]], code: str) -> None:
    assert code in codes(reason, evidence=evidence)


@pytest.mark.parametrize("kind", ["file_analysis", "time_estimate", "screenshot", "", None])
def test_12_evidence_of_any_type_counts(kind: object) -> None:
    evidence = [{**item, "type": kind} for item in BLOCKER["evidence"]]

    assert codes("BLOCKER", evidence=evidence) == set()


def test_13_a_dependency_is_named_and_not_a_phrase() -> None:
    moon = {
        "reason_summary": "Needs the moon",
        "reason_detail": "It is required because of the tides.",
        "blocking_factor": "Depends on the moon being full",
    }

    assert "dependency_unnamed" in codes("MISSING_DEPENDENCY", **moon)
    assert (
        codes("MISSING_DEPENDENCY", blocking_factor="Blocked by task:T-20251220-153045-a1b2, still in review")
        == set()
    )


@pytest.mark.parametrize("name", ["T-100", "task:T-100"])
def test_13_a_task_cannot_wait_for_itself(name: str) -> None:
    assert codes("MISSING_DEPENDENCY", blocking_factor=f"{name} must be merged first") == {
        "dependency_is_itself"
    }


def test_13_a_dependency_must_still_be_open() -> None:
    world = ValidationFacts(named=(NamedTask(name="T-41", task_id="T-41", status="done"),))

    assert codes("MISSING_DEPENDENCY", world) == {"dependency_done"}


def test_14_the_word_conflict_proves_nothing() -> None:
    claim = {
        "reason_detail": "There is no conflict.",
        "what_attempted": ["Assessed the demands: conflict", "Evaluated the demands: conflict"],
        "evidence": [{"type": "conflict", "data": "conflict"}, {"type": "conflict", "data": "no conflict"}],
        "suggested_alternative": "Reformulate the requirement so that the conflict is resolved.",
    }

    assert not judged("INFEASIBLE", **claim).is_valid


def test_14_a_question_mark_in_an_address_asks_nothing() -> None:
    silent = {
        "reason_summary": "Recent orders are not defined",
        "reason_detail": "The page is at https://shop.example/orders?sort=date and it is not said what recent means.",
        "blocking_factor": "Rule for recent orders, 30 days against 20 orders",
        "suggested_alternative": "Product owner names the rule; 2 h after that for page and tests.",
    }

    assert "questions_missing" in codes("UNCLEAR_REQUIREMENTS", **silent)


@pytest.mark.parametrize("factor", [math.nan, math.inf, -math.inf, -6, 0, "many", [6], {}])
def test_14_a_growth_factor_must_be_a_number(factor: object) -> None:
    assert "scope_growth_invalid" in codes("SCOPE_CREEP", scope_growth_factor=factor)


@pytest.mark.parametrize("factor", [None, 1.9])
def test_14_growth_must_be_at_least_twice(factor: float | None) -> None:
    assert "scope_growth_missing" in codes("SCOPE_CREEP", scope_growth_factor=factor)
    assert "2x" in " ".join(map(str, judged("SCOPE_CREEP", scope_growth_factor=factor).issues))


@pytest.mark.parametrize(
    "tasks", [[], [{}, {}], [SCOPE_CREEP["alternative_tasks"][0]] * 2, [{"scope": "a"}, {"scope": "b"}]]
)
def test_14_sub_tasks_must_be_two_with_a_title(tasks: list[dict[str, Any]]) -> None:
    assert "decomposition_too_few" in codes("SCOPE_CREEP", alternative_tasks=tasks)


def test_15_a_task_within_reach_cannot_be_rejected() -> None:
    own_finding = {
        "reason_detail": "The signature should rather come from the new store. hmac.new(key, body, 'sha256') would give it "
        "directly in one line, but signing belongs into the store.",
        "what_attempted": [
            "Read T-41: more helpers",
            "Signed 6 calls with hmac.new and the key from settings.py: 6 of 6 accepted",
            "Searched the store: no helper",
        ],
        "evidence": [{"type": "test_result", "data": {"calls": 6, "accepted": 6}, "source": "python 3.12"}],
        "suggested_alternative": "Wait for T-41 and call its helper then.",
    }

    assert not judged("MISSING_DEPENDENCY", **own_finding).is_valid
