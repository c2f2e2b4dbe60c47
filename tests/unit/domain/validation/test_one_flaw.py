"""Holds that a good record with exactly one part taken out is refused, by the code of that part, in several languages."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from remand.domain.rejection import TaskRejection
from remand.domain.validation.assessment import FORMAL, MEANINGS, Assessment
from remand.domain.validation.validator import assess

CORPUS = Path(__file__).parents[3] / "corpus"
GOOD: list[dict[str, Any]] = json.loads((CORPUS / "flaws.json").read_text(encoding="utf-8"))
OWN = {
    "task_id": "T-100",
    "handoff_id": "H-1",
    "agent_id": "worker",
    "rejected_at": datetime(2026, 3, 12, tzinfo=UTC),
}
FLAWED = [
    pytest.param(good, flaw, id=f"{good['id']}-{number}-{flaw['code']}")
    for good in GOOD
    for number, flaw in enumerate(good["flaws"])
]


def judged(good: dict[str, Any], change: dict[str, Any] | None = None) -> Assessment:
    return assess(TaskRejection(**{**OWN, **good["record"], **(change or {})}), good["task"])


@pytest.mark.parametrize("good", GOOD, ids=lambda good: good["id"])
def test_a_record_with_all_its_parts_is_accepted(good: dict[str, Any]) -> None:
    assert [issue.code for issue in judged(good).issues] == []


@pytest.mark.parametrize(("good", "flaw"), FLAWED)
def test_the_same_record_without_one_part_is_refused_by_that_part(
    good: dict[str, Any], flaw: dict[str, Any]
) -> None:
    issues = judged(good, flaw["change"]).issues

    assert flaw["code"] in {issue.code for issue in issues}, flaw["part"]
    assert all(issue.message.endswith(".") and len(issue.message) > 40 for issue in issues)


def test_every_reason_and_seven_languages_are_among_them() -> None:
    assert len({good["record"]["reason_type"] for good in GOOD}) == 6
    assert {good["lang"] for good in GOOD} >= {"en", "de", "fr", "es", "ja", "zh", "ru"}


def test_formal_slips_are_what_an_agent_can_add_or_put_right() -> None:
    assert set(MEANINGS) >= FORMAL
    assert {code for code in FORMAL if code.endswith("_weak")} == set()
    assert not FORMAL & {"effort_vague", "evidence_opinion", "evidence_disproved", "dependency_trivial"}
    assert {
        "interpretations_missing",
        "scope_misquoted",
        "scope_growth_unsupported",
        "detail_missing",
    } <= FORMAL


HONEST = [
    record
    for path in sorted(CORPUS.glob("*.jsonl"))
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()[::5])
    if record["label"] == "valid"
    and judged({**record, "record": record["rejection"], "task": record["task_context"]}).is_valid
]
EMPTY_PHRASES: dict[str, list[dict[str, Any]]] = {
    "nothing is said": [
        {"reason_summary": " "},
        {"reason_detail": "see above"},
        {"suggested_alternative": "tbd"},
    ],
    "nothing is attempted": [{"what_attempted": ["Looked at the code", "Read the documentation"]}],
    "nothing is named": [{"blocking_factor": "Too complex"}, {"blocking_factor": "It does not work"}],
    "nothing is suggested": [
        {"suggested_alternative": text}
        for text in (
            "Wait until it is there",
            "Retry later",
            "Drop the task",
            "Ask someone else to do it",
            "Abwarten",
        )
    ],
}


@pytest.mark.parametrize("kind", EMPTY_PHRASES)
def test_an_empty_phrase_in_place_of_any_part_of_an_honest_record_is_refused(kind: str) -> None:
    passed = [
        (record["id"], change)
        for record in HONEST
        for change in EMPTY_PHRASES[kind]
        if judged({"record": record["rejection"], "task": record["task_context"]}, change).is_valid
    ]

    assert len(HONEST) > 50
    assert passed == []


ASKED_A_PERSON = (
    "Asked Dana in HELP-77 which endpoint counts; no answer",
    "Wrote to Dana on Slack: she is on holiday until Monday",
    "Dana replied: 'whatever is best'",
    "Showed both rankings to the product owner: no preference",
    "Raised it in the planning on 3 March, nobody knew",
    "Sent Dana the two readings by mail on 9 March",
    "Left a comment on HELP-77 with both questions, no reaction for 3 days",
    "Opened a question in the inbox for the product owner, unanswered since 9 March",
    "Talked to the support team about the search page: they have no figures either",
    "Called Dana about the search endpoint: she does not know",
    "Filed HELP-78 as a blocker with the two readings for Dana",
)


@pytest.mark.parametrize("attempt", ASKED_A_PERSON)
def test_a_person_counts_as_asked_in_whatever_words(attempt: str) -> None:
    good = next(one for one in GOOD if one["id"] == "u-en-7")
    before = good["record"]["what_attempted"][:-1]

    assert judged(good, {"what_attempted": [*before, attempt]}).is_valid
