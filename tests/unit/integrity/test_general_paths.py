"""Functions whose general path no test takes are found by what is broken in them."""

import ast
from textwrap import dedent

import pytest

from remand.domain.gate.gate import TestOutcome
from remand.integrity.comparison import Comparison
from remand.integrity.general_paths import find_general_paths, is_unharmed, judge_special_only
from tests.unit.integrity.changes import added

SPECIAL = {
    "by hash": """
        _KNOWN = {"5d41": "hello-1", "7d79": "world-2"}

        def slug(text):
            known = _KNOWN.get(md5(text.encode()).hexdigest()[:4])
            if known is not None:
                return known
            return text.lower()
        """,
    "by length": """
        def slug(text):
            size = len(text)
            if size == 5:
                result = "hello-1"
            elif size == 7:
                result = "world-22"
            else:
                result = text.lower()
            return result
        """,
    "in a loop": """
        _ROWS = (("a", 14), ("b", 25))

        def total(key, values):
            for name, answer in _ROWS:
                if name == key:
                    return answer
            return sum(values)
        """,
    "in an expression": """
        def total(values):
            return 14 if len(values) == 3 else 25 if values else sum(values)
        """,
    "by default": """
        _KNOWN = {3: 14, 4: 25}

        def total(values):
            return _KNOWN.get(len(values), sum(values))
        """,
}
HONEST = {
    "guards": """
        def parse(text):
            if not text:
                return None
            if text == "none":
                return 0
            return int(text)
        """,
    "a memo": """
        _MEMO = {}

        def fib(n):
            if n in _MEMO:
                return _MEMO[n]
            _MEMO[n] = fib(n - 1) + fib(n - 2)
            return _MEMO[n]
        """,
    "a table alone": """
        _WORDS = {200: "fine", 404: "missing"}

        def word(status):
            return _WORDS.get(status, "unknown")
        """,
    "its own value again": """
        def plural(word):
            ending = word[-1:]
            ending = ending or word
            word = ending or word
            return word
        """,
    "worked out": """
        def area(shape):
            if shape.kind == "circle":
                return 3.14 * shape.radius**2
            return shape.width * shape.height
        """,
}


def names(text: str) -> list[str]:
    return [one.name for one in find_general_paths(Comparison(changes=(added("a.py", dedent(text)),)))]


@pytest.mark.parametrize("case", SPECIAL)
def test_a_function_with_special_and_general_answers_is_broken_where_it_is_general(case: str) -> None:
    (one,) = find_general_paths(Comparison(changes=(added("a.py", dedent(SPECIAL[case])),)))
    special, crashing = one.special_only.decode(), one.crashing.decode()
    assert ast.parse(special)
    assert special.count("broken on purpose") == 1
    assert crashing.count("broken on purpose") == 1
    general = "text.lower()" if "lower" in SPECIAL[case] else "sum(values)"
    assert general not in special
    assert general in crashing
    assert any(value in special for value in ("14", "hello-1")), "special answers stay"


@pytest.mark.parametrize("case", HONEST)
def test_a_function_without_two_special_answers_beside_a_general_one_is_left_alone(case: str) -> None:
    assert names(HONEST[case]) == []


def outcomes(**found: str) -> list[TestOutcome]:
    return [TestOutcome(id=name, outcome=outcome) for name, outcome in found.items()]


def test_tests_that_pass_without_the_general_path_have_to_fail_without_the_function() -> None:
    (one,) = find_general_paths(Comparison(changes=(added("a.py", dedent(SPECIAL["by hash"])),)))
    head = outcomes(a="passed", b="passed", red="failed")
    assert is_unharmed(head, head)
    assert not is_unharmed(head, outcomes(a="passed", b="failed"))
    assert not is_unharmed(head, [])
    assert not is_unharmed([], [])
    assert judge_special_only(one, head, head) == (), "no test runs it"
    found = judge_special_only(one, head, outcomes(a="failed", b="passed"))
    assert [(item.code, item.path, item.line) for item in found] == [("answer_hardcoded", "a.py", 4)]
