"""How sure a figure is: intervals that hold the true value 95 times in a hundred."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from remand.domain.record import Record

Interval = tuple[float, float]

_Z = 1.959963984540054
_MISSED = 0.025
_EXACT = 200
_DIGITS = 6


class Share(Record, kw_only=True, omit_defaults=False):
    """How many of how many, with Wilson's interval; without any there is no rate."""

    count: int
    of: int
    rate: float | None
    interval: Interval | None


class Quantile(Record, kw_only=True, omit_defaults=False):
    """A value that so many are not above, with the interval its neighbours in the order give."""

    value: float | None
    interval: Interval | None


def share(count: int, of: int) -> Share:
    """A share and its interval. Wilson's stays within 0 and 1 and is right for few and for extremes."""
    if of <= 0:
        return Share(count=count, of=0, rate=None, interval=None)
    rate, spread = count / of, _Z * _Z / of
    middle = (rate + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(rate * (1 - rate) / of + spread / (4 * of)) / (1 + spread)
    low = 0.0 if count == 0 else max(0.0, middle - half)
    high = 1.0 if count == of else min(1.0, middle + half)
    return Share(count=count, of=of, rate=rate, interval=(round(low, _DIGITS), round(high, _DIGITS)))


def quantile(values: Iterable[float], at: float) -> Quantile:
    """A quantile of values, whatever their distribution; too few values give no interval."""
    ordered = sorted(values)
    if not ordered:
        return Quantile(value=None, interval=None)
    return Quantile(value=_at(ordered, at), interval=_between(ordered, at))


def _at(ordered: Sequence[float], at: float) -> float:
    place = at * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * (place - below), 3)


def _between(ordered: Sequence[float], at: float) -> Interval | None:
    """The values between which the quantile lies: so many of the others are below it by chance."""
    count = len(ordered)
    low, high = _exact(count, at) if count <= _EXACT else _nearly(count, at)
    if low < 0 or high >= count:
        return None
    return (round(ordered[low], 3), round(ordered[high], 3))


def _exact(count: int, at: float) -> tuple[int, int]:
    chances = [math.comb(count, n) * at**n * (1 - at) ** (count - n) for n in range(count + 1)]
    below, low = 0.0, -1
    while below + chances[low + 1] <= _MISSED:
        low += 1
        below += chances[low]
    above, high = 0.0, count + 1
    while above + chances[high - 1] <= _MISSED:
        high -= 1
        above += chances[high]
    return low, high - 1


def _nearly(count: int, at: float) -> tuple[int, int]:
    middle, half = count * at, _Z * math.sqrt(count * at * (1 - at))
    return math.floor(middle - half), math.ceil(middle + half)
