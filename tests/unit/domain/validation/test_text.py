"""Holds that text is read out of anything, not too far, and taken apart in any script."""

import math
from datetime import date

import pytest

from remand.domain.validation.parsed_rejection import (
    TEXT_LIMIT,
    days_before,
    final_hours,
    hours_in,
    hours_of,
    mapping_items,
    parse_number,
    plain_text,
    text_items,
)
from remand.domain.validation.tokens import tokenise_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("  a ", "a"),
        (None, ""),
        (7, "7"),
        (48.0, "48"),
        (1.9, "1.9"),
        (True, "true"),
        (math.nan, ""),
        (-math.inf, ""),
        (10**400, ""),
        (b"a", ""),
        (object(), ""),
        ({"a": 1, "b": [2, 3]}, "a: 1, b, 2, 3"),
        ([["a"], [], {}], "a"),
    ],
)
def test_a_value_gives_its_text(value: object, text: str) -> None:
    assert plain_text(value) == text


def test_reading_comes_to_an_end() -> None:
    wide: list[object] = []
    for _ in range(40):
        wide = [wide] * 40

    assert plain_text(wide) == ""
    assert len(plain_text("x" * 1_000_000)) == TEXT_LIMIT
    assert len(plain_text(["x" * 1_000_000] * 1000)) <= TEXT_LIMIT


def test_blank_items_do_not_count() -> None:
    assert text_items(["", "  ", None, "a", {"b": 1}]) == ("a", "b: 1")
    assert text_items("alone") == ("alone",)
    assert text_items(7) == ()


def test_only_mappings_that_hold_something_count() -> None:
    assert mapping_items([{}, {"a": None}, 7, "x"]) == ({"a": None},)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (6, 6.0),
        ("6x", 6.0),
        ("1e3", 1000.0),
        (True, None),
        ("nan", None),
        (10**400, None),
        ("a", None),
        (None, None),
    ],
)
def test_a_number_is_finite(value: object, found: float | None) -> None:
    assert parse_number(value) == found


def test_figures_and_identifiers_are_told_from_words() -> None:
    text = tokenise_text(
        "Ran --pull on kafka-stg-1:9094 (dmac/transfer.rs:210): 4,018 of 61.2 KB, QWebFrame, read_only, auth/"
    )

    assert text.figures == ("4,018", "61.2")
    assert {"--pull", "kafka-stg-1:9094", "dmac/transfer.rs:210", "qwebframe", "read_only", "auth/"} <= set(
        text.codes
    )
    assert "kb" in text.words


def test_a_script_without_spaces_gives_pairs() -> None:
    assert tokenise_text("接口报错").words == ("接口", "口报", "报错")


@pytest.mark.parametrize("raw", ["tests: 3 failed", "build -> 404", "计数:12", "probe - not found", "a；b"])
def test_an_outcome_is_seen(raw: str) -> None:
    assert tokenise_text(raw).has_outcome


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("4 h -> 44 h", (4, 44)),
        ("16-20 hours", (18,)),
        ("1,5 Stunden", (1.5,)),
        ("2 days", (16,)),
        ("half a day", (4,)),
        ("30 min", (0.5,)),
        ("约 3 小时", (3,)),
        ("1 week", (40,)),
        ("1,200 hours", (1200,)),
        ("48 KB and 2 headers", ()),
    ],
)
def test_durations_are_read_as_hours(text: str, hours: tuple[float, ...]) -> None:
    assert hours_in(text) == pytest.approx(hours)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("Expose rpc, 3 h", 3),
        ("Rename it (~2 hours)", 2),
        ("Keep for 90 days, then delete.", None),
        ("Half a day.", 4),
    ],
)
def test_only_a_closing_duration_is_an_estimate(text: str, hours: float | None) -> None:
    assert final_hours(text) == hours


def test_durations_in_evidence_are_found_by_key() -> None:
    assert hours_of({"plan_h": 3, "original_days": 2, "errors": 5, "spent": "4 h", "x_h": math.nan}) == (
        ("plan_h", 3.0),
        ("original_days", 16.0),
        ("spent", 4.0),
    )


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("2026-03-09 and 2026-03-14", (3, -2)),
        ("on 2 March", (10,)),
        ("March 2, 2026", (10,)),
        ("2. März", (10,)),
        ("2 de marzo de 2026", (10,)),
        ("3月2日", (10,)),
        ("30 December", (72,)),
        ("2026-02-31, 99 March, 12 marbles, 20 may be lost, 3 settings", ()),
    ],
)
def test_dates_are_read_as_people_write_them(text: str, days: tuple[int, ...]) -> None:
    assert days_before(text, date(2026, 3, 12)) == days
