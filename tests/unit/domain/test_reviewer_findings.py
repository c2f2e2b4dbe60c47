"""Holds how findings are read from what a reviewer types."""

import pytest

from remand.domain.events.reviews import Finding
from remand.domain.reviewer import parse_finding, parse_findings


@pytest.mark.parametrize(
    ("text", "path", "line", "said"),
    [
        ("src/a.py:12: It leaks", "src/a.py", 12, "It leaks"),
        ("a b.py:3:no", "a b.py", 3, "no"),
        ("It leaks", "", 0, "It leaks"),
        ("Note: it leaks", "", 0, "Note: it leaks"),
        (":12: It leaks", "", 0, ":12: It leaks"),
        ("a.py:1234567890: x", "", 0, "a.py:1234567890: x"),
        ("a.py:1: two\nlines", "a.py", 1, "two\nlines"),
    ],
)
def test_a_place_before_the_text_is_understood(text: str, path: str, line: int, said: str) -> None:
    assert parse_finding(text, is_blocking=True) == Finding(text=said, path=path, line=line)


@pytest.mark.parametrize(
    "row",
    [
        "nit: a name",
        "Suggestion: a name",
        "- optional: a name",
        "1. question: a name?",
        "a.py:3: nit: a name",
    ],
)
def test_what_says_that_it_does_not_block_is_a_suggestion(row: str) -> None:
    (found,) = parse_findings(row)

    assert not found.is_blocking


def test_the_place_may_stand_behind_the_word() -> None:
    assert parse_findings("nit: src/a.py:3: a name\nBLOCKING: src/b.py:4: a leak") == (
        Finding(text="nit: a name", path="src/a.py", line=3, is_blocking=False),
        Finding(text="BLOCKING: a leak", path="src/b.py", line=4),
    )


def test_every_line_with_something_in_it_is_one_finding() -> None:
    found = parse_findings("- Fix fork snap\n\n* dedup mouse handler\r\n3) dedup SVG rendering\n---\n")

    assert [one.text for one in found] == ["Fix fork snap", "dedup mouse handler", "dedup SVG rendering"]
    assert all(one.is_blocking for one in found)
