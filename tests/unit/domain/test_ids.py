"""Holds how the names of things look, and that old ones are read."""

import pytest

from remand.domain import ids

NOW = "2026-11-15T09:08:07.000000Z"


def test_an_id_tells_the_second_it_was_made_in() -> None:
    assert ids.make_id("T", NOW, "1a2b3c4d") == "T-20261115-090807-1a2b3c4d"
    assert ids.make_session_name(NOW, "1a2b3c4d") == "20261115-090807-1a2b3c4d"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T-20261115-090807-1a2b3c4d", "T-20261115-090807-1a2b3c4d"),
        ("task:T-20261115-090807-1a2b3c4d", "T-20261115-090807-1a2b3c4d"),
        ("T-20251220-194437-27b1", "T-20251220-194437-27b1"),
        ("task:T-20251220-194437-27b1", "T-20251220-194437-27b1"),
        ("task:task:T-1", None),
        ("T-", None),
        ("T--1", None),
        ("H-20261115-090807-1a2b3c4d", None),
        ("T-1\n", None),
        ("T-1 ", None),
        ("T-../../etc/passwd", None),
        ("T-" + "1" * 63, "T-" + "1" * 63),
        ("T-" + "1" * 64, None),
        ("T-é", None),
        ("", None),
    ],
)
def test_a_task_id_is_read_with_and_without_its_prefix(text: str, expected: str | None) -> None:
    assert ids.parse_task_id(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("H-1", "H-1"), ("handoff:H-1", "H-1"), ("task:H-1", None), ("T-1", None), ("", None)],
)
def test_a_handoff_id_is_read_with_and_without_its_prefix(text: str, expected: str | None) -> None:
    assert ids.parse_handoff_id(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T-1", "task:T-1"),
        ("task:T-1", "task:T-1"),
        ("decision:D-1", "decision:D-1"),
        ("a\nb", None),
        ("", None),
        ("x" * 201, None),
    ],
)
def test_a_task_carries_its_prefix_in_the_graph(text: str, expected: str | None) -> None:
    assert ids.parse_node_id(text) == expected


@pytest.mark.parametrize("text", ["#1", "#123456789012", "owner/name#42", "name#1"])
def test_a_forge_number_is_an_alias(text: str) -> None:
    assert ids.is_alias(text)


@pytest.mark.parametrize(
    "text", ["", "#", "42", "#-1", "#4 2", "T-1", "#1234567890123", "a b#1", "#1\n", "#٤"]
)
def test_anything_else_is_no_alias(text: str) -> None:
    assert not ids.is_alias(text)


@pytest.mark.parametrize(
    "text", ["Fenster", "sub-agent-1", "claude[bot]", "github:octocat", "Zoë Ø", "a@b.c"]
)
def test_a_name_may_be_written_in_any_script(text: str) -> None:
    assert ids.is_agent_name(text)


@pytest.mark.parametrize(
    "text", ["", " ", " Alice", "Alice ", "a\nb", "a\x1eb", "a\x00", "\u202eAlice", "a" * 65, "a;b", "\ud800"]
)
def test_a_name_holds_nothing_that_could_harm_a_line(text: str) -> None:
    assert not ids.is_agent_name(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a" * 40, True), ("0" * 64, True), ("a" * 39, False), ("A" * 40, False), ("HEAD", False)],
)
def test_only_a_full_id_is_a_commit(text: str, expected: bool) -> None:
    assert ids.is_commit(text) is expected
