"""Holds that every issue the validator can raise is explained, and nothing else is."""

import ast
from pathlib import Path

import remand
from remand.domain.reasons import RejectionReason
from remand.domain.rejection import FIELDS
from remand.domain.validation.assessment import MEANINGS, field_of
from remand.domain.validation.measures import COUNTS_AGAINST, NOTES, weakness_code
from remand.domain.validation.weights import WEIGHTS

SOURCE = Path(remand.__file__).parent / "domain" / "validation"


def raised_by_rules() -> set[str]:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "issue":
                found |= {item.value for item in ast.walk(node.args[0]) if isinstance(item, ast.Constant)}
    return {str(code) for code in found}


def raised_by_the_score() -> set[str]:
    return {weakness_code(name, reason) for name in NOTES for reason in (*RejectionReason, None)}


def test_every_issue_raised_is_explained() -> None:
    assert raised_by_rules() | raised_by_the_score() <= set(MEANINGS)


def test_every_issue_explained_is_raised() -> None:
    assert set(MEANINGS) <= raised_by_rules() | raised_by_the_score()


def test_every_issue_is_about_a_field_of_the_record() -> None:
    assert {field_of(code) for code in MEANINGS} <= set(FIELDS)


def test_every_weight_is_of_a_measure_and_counts_the_way_it_is_meant() -> None:
    assert set(WEIGHTS) <= set(NOTES)
    assert {name for name, (_, weight) in WEIGHTS.items() if weight < 0} == COUNTS_AGAINST & set(WEIGHTS)


def test_every_measure_says_what_it_measures() -> None:
    assert all(NOTES.values())
