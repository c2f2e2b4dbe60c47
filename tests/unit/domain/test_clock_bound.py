"""How far the times of events may be ahead of the machine's clock."""

from __future__ import annotations

import pytest

from remand.domain.instant import (
    add_seconds,
    format_duration,
    is_clock_ahead,
    latest_event_time,
    require_clock_near,
)
from remand.domain.refusals import ENVIRONMENT, MEANINGS, Refused

NOW = "2026-11-15T09:00:00.000000Z"


def test_events_may_be_as_far_ahead_as_the_bound() -> None:
    assert latest_event_time(NOW, 600) == add_seconds(NOW, 600)


def test_events_of_before_the_bound_was_known_may_be_a_day_ahead() -> None:
    assert latest_event_time(NOW, 600, add_seconds(NOW, 3600)) == add_seconds(NOW, 3600)
    assert latest_event_time(NOW, 600, add_seconds(NOW, 400 * 86_400)) == add_seconds(NOW, 86_400)
    assert latest_event_time(NOW, 600, add_seconds(NOW, -3600)) == add_seconds(NOW, 600)


@pytest.mark.parametrize(("ahead", "is_refused"), [(-86_400, False), (0, False), (599, False), (600, True)])
def test_a_write_is_refused_when_its_time_would_be_later_than_the_bound(ahead: int, is_refused: bool) -> None:
    assert is_clock_ahead(add_seconds(NOW, ahead), NOW, 600) is is_refused


def test_the_refusal_names_both_times_and_what_to_do() -> None:
    with pytest.raises(Refused) as refused:
        require_clock_near(add_seconds(NOW, 400 * 86_400), NOW, 600)

    assert refused.value.code == "clock_ahead"
    for text in ("2027-12-20T09:00:00", NOW, "400 days", "10 minutes"):
        assert text in refused.value.message
    assert "remand log repair" in MEANINGS["clock_ahead"][1]
    assert "clock_ahead" in ENVIRONMENT


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1 second"), (59.9, "59 seconds"), (60, "1 minute"), (7200, "2 hours"), (86_400, "1 day")],
)
def test_a_span_of_time_is_told_in_its_largest_whole_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
