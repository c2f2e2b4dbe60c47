"""What tools say is shown without what could deceive, and at bearable length."""

import pytest

from remand.adapters.parsers.results import (
    MAX_FINDINGS,
    MAX_ID,
    MAX_TEXT,
    Findings,
    RunOutcomes,
    bounded_number,
    find_places,
    last_text,
    relative_path,
    shorten_text,
)


def test_colours_control_and_invisible_characters_are_taken_out() -> None:
    assert shorten_text("\x1b[31mred\x1b[0m \x1b]0;title\x07ta\u200bg\U000e0041\u202e\x00\ud800") == "red tag"


def test_long_texts_are_cut() -> None:
    assert len(shorten_text("x" * 10_000)) == MAX_TEXT
    assert shorten_text("x" * 10_000).endswith("…")


def test_of_long_output_whole_last_lines_are_shown() -> None:
    end = last_text("\n".join(f"line {count}" for count in range(1_000)).encode())

    assert end.endswith("\nline 999")
    assert end.startswith("line 9")
    assert len(end) <= MAX_TEXT


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/src/pkg/a.py", "pkg/a.py"),
        ("/src/./pkg/../a.py", "a.py"),
        ("./pkg/a.py", "pkg/a.py"),
        ("file:///src/a%20b.py", "a b.py"),
        ("file://host/src/a.py", "a.py"),
        ("/srcfoo/a.py", "/srcfoo/a.py"),
        ("/usr/lib/a.py", "/usr/lib/a.py"),
        ("a\nb.py", "a b.py"),
        ("", ""),
    ],
)
def test_paths_are_told_from_the_repositorys_root(path: str, expected: str) -> None:
    assert relative_path(path, "/src") == expected


def test_places_outside_the_repository_and_in_packages_are_passed_over() -> None:
    trace = (
        "at x (/src/node_modules/a.js:1:2)\nat y (/usr/lib/b.js:3:4)\nat z (file:///src/c.js:5:6)\nd.py:7: E"
    )

    assert find_places(trace, "/src") == [("c.js", 5), ("d.py", 7)]


@pytest.mark.parametrize(("value", "expected"), [(-3, 0), (7.9, 7), (1 << 80, 2**31 - 1), (float("nan"), 0)])
def test_numbers_stay_within_what_can_be_kept(value: float, expected: int) -> None:
    assert bounded_number(value) == expected


def test_all_findings_count_and_of_very_many_the_gravest_are_kept() -> None:
    found = Findings("/src")
    for _ in range(MAX_FINDINGS):
        found.add(text="w", severity="warning")
    found.add(text="e")

    assert (found.errors, found.warnings, len(found.kept_findings)) == (1, MAX_FINDINGS, MAX_FINDINGS)
    assert found.kept_findings[0].text == "e"


def test_long_ids_stay_apart() -> None:
    tests = RunOutcomes()
    ids = [tests.add("x" * 5_000 + end, "passed") for end in ("a", "b")]

    assert len(set(ids)) == 2
    assert max(map(len, ids)) <= MAX_ID
    assert not any("#" in test_id for test_id in ids)
