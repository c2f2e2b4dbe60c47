"""Holds that every refusal the system can give is explained, and nothing else is."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import remand
from remand.domain.refusals import MEANINGS, Refused

SOURCE = Path(remand.__file__).parent


def refusals() -> Iterator[tuple[str, ast.Call]]:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused":
                yield str(path.relative_to(SOURCE)), node


@cache
def codes() -> dict[str, str]:
    found = {}
    for place, call in refusals():
        if call.args and isinstance(call.args[0], ast.Constant):
            found[str(call.args[0].value)] = place
    return found


@cache
def words() -> set[str]:
    """Every text in the source besides the explanations: a code may be chosen before it is given."""
    return {
        node.value
        for path in SOURCE.rglob("*.py")
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if not (isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "MEANINGS")
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_code_given_is_explained() -> None:
    unexplained = {code: place for code, place in codes().items() if code not in MEANINGS}

    assert codes()
    assert not unexplained


def test_only_the_domain_refuses() -> None:
    """What may not be done is a rule."""
    outside = [place for place, _ in refusals() if not place.startswith("domain/")]

    assert not outside


def test_every_code_explained_is_given() -> None:
    assert set(MEANINGS) <= words()


@pytest.mark.parametrize("code", MEANINGS)
def test_an_explanation_says_what_is_so_and_what_to_do(code: str) -> None:
    meaning, remedy = MEANINGS[code]

    assert meaning.endswith(".")
    assert remedy.endswith(".")
    assert meaning != remedy


def test_a_refusal_reads_as_its_message() -> None:
    refusal = Refused("taken", "Task T-1 already exists.")

    assert str(refusal) == refusal.message
    assert refusal.code == "taken"
