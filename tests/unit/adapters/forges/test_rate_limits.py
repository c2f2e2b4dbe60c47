"""How long a limit lasts, by what the forge says of it."""

import pytest

from remand.adapters.forges.transport import (
    LONGEST,
    PAUSE,
    WINDOW,
    ForgeReply,
    is_quota_empty,
    is_rate_limited,
    pause_seconds,
)

NOW = "2026-11-15T09:00:00.000000Z"
EPOCH = 1794733200


def reply(status: int = 429, **headers: str) -> ForgeReply:
    return ForgeReply(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "90"}, 90.0),
        ({"retry_after": "0"}, 1.0),
        ({"retry_after": "9999999"}, LONGEST),
        ({"retry_after": "Sun, 15 Nov 2026 09:02:00 GMT"}, 120.0),
        ({"retry_after": "Sun, 15 Nov 2026 08:00:00 GMT"}, 1.0),
        ({"retry_after": "soon"}, PAUSE),
        ({"retry_after": "٣"}, PAUSE),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(EPOCH + 600)}, 600.0),
        ({"ratelimit_remaining": "0", "ratelimit_reset": str(EPOCH + 600)}, 600.0),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(EPOCH + 99999)}, WINDOW),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(EPOCH - 600)}, PAUSE),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": "never"}, PAUSE),
        ({"x_ratelimit_remaining": "70", "x_ratelimit_reset": str(EPOCH + 600)}, PAUSE),
        ({}, PAUSE),
    ],
)
def test_a_limit_is_waited_for_as_told_and_never_for_ever(headers: dict[str, str], seconds: float) -> None:
    assert pause_seconds(reply(**headers), NOW, 0) == seconds


def test_limits_in_a_row_are_waited_for_twice_as_long_each_up_to_an_hour() -> None:
    assert [pause_seconds(reply(), NOW, count) for count in (0, 1, 2, 3, 99)] == [60, 120, 240, 480, WINDOW]


@pytest.mark.parametrize(
    ("status", "headers", "said", "is_one"),
    [
        (429, {}, "", True),
        (403, {"retry_after": "5"}, "", True),
        (403, {"x_ratelimit_remaining": "0"}, "", True),
        (403, {}, "You have exceeded a secondary rate limit", True),
        (403, {}, "You have triggered an abuse detection mechanism", True),
        (403, {"x_ratelimit_remaining": "12"}, "Must have admin rights", False),
        (503, {"retry_after": "5"}, "", False),
        (404, {}, "rate limit", False),
    ],
)
def test_a_limit_is_told_from_a_refusal(
    status: int, headers: dict[str, str], said: str, *, is_one: bool
) -> None:
    assert is_rate_limited(reply(status, **headers), said) is is_one


def test_a_limit_is_used_up_when_nothing_remains() -> None:
    assert is_quota_empty(reply(200, x_ratelimit_remaining="0"))
    assert not is_quota_empty(reply(200, x_ratelimit_remaining="1"))
    assert not is_quota_empty(reply(200))
