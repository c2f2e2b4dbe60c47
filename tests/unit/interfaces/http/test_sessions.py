"""Sessions and log-in codes end by themselves, callers are held to a rate, and none of it grows without bound."""

from __future__ import annotations

import pytest

from remand.domain.access.tokens import Caller, TokenRole
from remand.interfaces.http.sessions import ExpiringSecrets, RateLimiter, address_key

USER = Caller(member="user", role=TokenRole.USER)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def kept(most: int = 3) -> tuple[ExpiringSecrets[Caller], Clock]:
    clock = Clock()
    return ExpiringSecrets(60.0, most, clock), clock


def test_a_value_is_found_by_its_secret_until_its_time_is_over() -> None:
    values, clock = kept()
    secret = values.add(USER)

    assert values.find(secret) == USER
    assert values.find(secret + "x") is None
    clock.now += 60
    assert values.find(secret) is None


def test_what_is_taken_is_found_once() -> None:
    values, _ = kept()
    secret = values.add(USER)

    assert (values.take(secret), values.take(secret)) == (USER, None)


def test_the_oldest_goes_when_there_are_too_many() -> None:
    values, _ = kept(most=3)
    first, *others = [values.add(USER) for _ in range(4)]

    assert values.find(first) is None
    assert all(map(values.find, others))
    assert len(values) == 3


def test_whoever_has_too_many_loses_its_own_oldest_and_nobody_elses() -> None:
    values: ExpiringSecrets[Caller] = ExpiringSecrets(60.0, 100, Clock(), most_each=3)
    other = values.add(USER, "another")
    first, *rest = [values.add(USER, "one") for _ in range(4)]

    assert values.find(first) is None
    assert all(map(values.find, (other, *rest)))
    values.take(rest[0])
    values.add(USER, "one")
    assert values.find(rest[1]) == USER
    assert len(values) == 4


def test_what_is_over_is_forgotten_when_something_comes() -> None:
    values, clock = kept(most=100)
    for _ in range(50):
        values.add(USER)
    clock.now += 61
    values.add(USER)

    assert len(values) == 1


def test_a_key_gets_a_burst_and_then_its_rate() -> None:
    clock = Clock()
    limiter = RateLimiter(10.0, 5.0, clock=clock)

    assert [limiter.take("a") for _ in range(5)] == [0.0] * 5
    assert limiter.take("a") == pytest.approx(0.1)
    assert limiter.take("b") == 0.0
    clock.now += 0.1
    assert limiter.take("a") == 0.0
    assert limiter.take("a") > 0
    clock.now += 100
    assert [limiter.take("a") == 0.0 for _ in range(6)] == [True] * 5 + [False]


def test_whoever_goes_on_calling_does_not_wait_longer_for_it() -> None:
    clock = Clock()
    limiter = RateLimiter(1.0, 1.0, clock=clock)
    limiter.take("a")
    for _ in range(100):
        limiter.take("a")

    assert limiter.take("a") <= 1.0


def test_a_limiter_knows_a_bounded_number_of_keys() -> None:
    limiter = RateLimiter(1.0, 1.0, most=100, clock=Clock())
    for number in range(1000):
        limiter.take(str(number))

    assert len(limiter) == 100


@pytest.mark.parametrize(
    ("address", "other", "is_same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "10.0.0.1", False),
    ],
)
def test_addresses_of_one_subscriber_are_one_caller(address: str, other: str, is_same: bool) -> None:
    assert (address_key(address) == address_key(other)) is is_same
