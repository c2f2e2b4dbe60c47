"""The facts of a rejection are told whole, each with how far it was checked, whatever the record holds."""

from typing import Any

import pytest

from remand.app.history.rejections import RejectionView, rejection_facts, value_text
from remand.domain.validation.assessment import EvidenceGrade


def a_view(**record: Any) -> RejectionView:
    return RejectionView(
        rejection_id="R-1",
        task_id="T-1",
        handoff_id="H-1",
        agent="Alice",
        at="",
        is_valid=True,
        rejection={"reason_type": "BLOCKER", **record},
        graded=(EvidenceGrade(index=3, grade="disproved", detail="there is no such line"),),
        attempts=(EvidenceGrade(index=1, grade="corroborated", detail="ran pytest"),),
    )


def test_a_grade_belongs_to_the_part_at_its_place_and_the_rest_is_reported() -> None:
    evidence = [
        {"data": "one"},
        "two",
        {},
        {"type": "log", "data": "four", "source": "mail.log"},
        {"data": "five"},
    ]

    found = rejection_facts(a_view(evidence=evidence, what_attempted=["first", "second"]))

    assert [one.grade for one in found.evidence] == ["reported"] * 3 + ["disproved", "reported"]
    assert found.evidence[3].text == "log: four (mail.log)"
    assert found.evidence[3].detail == "there is no such line"
    assert found.evidence[1].text == "two"
    assert [(one.text, one.grade) for one in found.attempts] == [
        ("first", "reported"),
        ("second", "corroborated"),
    ]


def test_nothing_is_left_out_of_a_long_record() -> None:
    found = rejection_facts(a_view(what_attempted=[f"attempt {n} " + "x" * 5000 for n in range(40)]))

    assert len(found.attempts) == 40
    assert all(len(one.text) > 5000 for one in found.attempts)


@pytest.mark.parametrize("value", [None, "", "x", 3, True, [], [None], {}, {"a": [1, {"b": 2}]}, [[[]]]])
def test_a_record_of_any_shape_has_facts(value: Any) -> None:
    names = ("blocking_factor", "what_attempted", "evidence", "suggested_alternative", "alternative_tasks")

    found = rejection_facts(
        a_view(**dict.fromkeys((*names, "scope_growth_factor", "task_original_scope"), value))
    )

    assert isinstance(found.blocking_factor, str)
    assert all(isinstance(one.text, str) for one in found.attempts)
    assert all(isinstance(one.text, str) for one in found.evidence)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"pages": 31, "hours": 4.0, "is_done": True}, "pages: 31, hours: 4, is_done: true"),
        ({"a": {"b": [1, "ü"]}}, '{"a": {"b": [1, "ü"]}}'),
        (6.0, "6"),
        (2.5, "2.5"),
        (float("nan"), "NaN"),
        (None, ""),
    ],
)
def test_a_value_as_text(value: Any, text: str) -> None:
    assert value_text(value) == text
