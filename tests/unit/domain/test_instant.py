"""Holds that the order of instants as text is the order of time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.instant import (
    BEGINNING,
    add_seconds,
    format_instant,
    is_instant,
    next_instant,
    parse_instant,
    parse_local_instant,
)

NOW = "2026-11-15T09:00:00.000000Z"
END = "9999-12-31T23:59:59.999999Z"
moments = st.datetimes(timezones=st.just(UTC))


@given(moments, moments)
def test_the_order_of_text_is_the_order_of_time(one: datetime, other: datetime) -> None:
    assert (format_instant(one) < format_instant(other)) == (one < other)


@given(moments)
def test_an_instant_reads_back_as_its_moment(value: datetime) -> None:
    assert is_instant(format_instant(value))
    assert datetime.fromisoformat(format_instant(value)) == value


def test_a_naive_moment_is_taken_as_utc() -> None:
    naive = datetime(2026, 11, 15, 9)  # noqa: DTZ001 - naive by intent

    assert format_instant(naive) == NOW


def test_a_moment_elsewhere_is_written_in_utc() -> None:
    elsewhere = datetime(2026, 11, 15, 18, 30, tzinfo=timezone(timedelta(hours=9, minutes=30)))

    assert format_instant(elsewhere) == NOW


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (1800, "2026-11-15T09:30:00.000000Z"),
        (-0.5, "2026-11-15T08:59:59.500000Z"),
        (1e30, END),
        (float("inf"), END),
        (-1e30, BEGINNING),
    ],
)
def test_seconds_are_added_within_the_calendar(seconds: float, expected: str) -> None:
    assert add_seconds(NOW, seconds) == expected


def test_the_next_instant_is_a_microsecond_later() -> None:
    assert next_instant(NOW) == "2026-11-15T09:00:00.000001Z"
    assert next_instant("2026-12-31T23:59:59.999999Z") == "2027-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-15T09:00:00Z",
        "2026-11-15T09:00:00",
        "2026-11-15 09:00:00.000000",
        "2026-11-15T10:00:00+01:00",
        "20261115T090000Z",
        "2026-W46-7T09:00:00Z",
    ],
)
def test_any_iso_time_is_read(text: str) -> None:
    assert parse_instant(text) == NOW


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00.000000Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "1700000000",
        "2026-11-15T09:00:00.000000Z ",
        "٢٠٢٦-11-15T09:00:00.000000Z",
    ],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_instant(text) is None
    assert not is_instant(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-W46-7T09:00:00.000000Z",
        "2026-11-15T09:00:00.000000+",
        "2026-11-15t09:00:00.000000Z",
        "2026-11-15T09:00:00,000000Z",
        "2026-11-15T09:00:00.00000ZZ",
        "2026-11-15T09.00.00.000000Z",
        "2026-11-15T24:00:00.000000Z",
        "2026-11-15T09:00+01.000000Z",
        "2026-11-15T09:00:0Z.000000Z",
        "2026-11-15T09:00:00.00000٠Z",
        "2026-11-15T09:00:00.00+000Z",
        "2026-11-15T09:00:60.000000Z",
    ],
)
def test_only_the_fixed_form_is_an_instant(text: str) -> None:
    assert not is_instant(text)


@given(st.text(alphabet="0123456789-:.,TtZzW +", min_size=27, max_size=27))
def test_whatever_counts_as_an_instant_sorts_by_time(text: str) -> None:
    assert not is_instant(text) or format_instant(datetime.fromisoformat(text)) == text


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        ("JST-9", "2026-11-15", "2026-11-14T15:00:00.000000Z"),
        ("JST-9", "2026-11-15T09:00:00", "2026-11-15T00:00:00.000000Z"),
        ("JST-9", "2026-11-15T09:00:00Z", "2026-11-15T09:00:00.000000Z"),
        ("JST-9", "2026-11-15T09:00:00+01:00", "2026-11-15T08:00:00.000000Z"),
        ("EST5EDT,M3.2.0,M11.1.0", "2026-07-01", "2026-07-01T04:00:00.000000Z"),
        ("EST5EDT,M3.2.0,M11.1.0", "2026-12-01", "2026-12-01T05:00:00.000000Z"),
        ("UTC0", "2026-11-15", "2026-11-15T00:00:00.000000Z"),
        ("UTC0", "20261115", "2026-11-15T00:00:00.000000Z"),
        ("JST-9", "0001-01-01", "0001-01-01T00:00:00.000000Z"),
        ("EST5", "9999-12-31T23:59:59", "9999-12-31T23:59:59.000000Z"),
        ("UTC0", "yesterday", None),
        ("UTC0", "", None),
        ("UTC0", "2026-13-01", None),
    ],
)
def test_what_people_write_without_a_zone_is_local_time(
    local_zone: Callable[[str], None], zone: str, text: str, expected: str | None
) -> None:
    local_zone(zone)

    assert parse_local_instant(text) == expected


@pytest.mark.parametrize("zone", ["UTC0", "JST-9", "EST5"])
def test_what_a_log_says_without_a_zone_is_utc_on_every_machine(
    local_zone: Callable[[str], None], zone: str
) -> None:
    local_zone(zone)

    assert parse_instant("2025-12-20T23:26:28.099321") == "2025-12-20T23:26:28.099321Z"
