"""Server-side charts: coordinates in a fixed box that templates render as SVG, and the period that a page covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from remand.domain.instant import Instant, add_seconds
from remand.domain.record import NamedTuple
from remand.interfaces.http.pages.page import PageQuery

WIDTH, HEIGHT = 600.0, 110.0
LINE_WIDTH, LINE_HEIGHT = 120.0, 24.0
FEWEST_DAYS, MOST_DAYS = 30, 90
"""How many days a chart shows: with fewer, a single day's bar would be as wide as the page."""
_GAP = 0.25
_EDGE = 2.0
PERIODS = (("", "All"), ("90", "90 days"), ("30", "30 days"), ("7", "7 days"))
_DAY_SECONDS = 86_400.0


class ChartBar(NamedTuple):
    """One segment of a stacked bar."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    title: str


class DayChart(NamedTuple):
    """Stacked counts per day, with the underlying numbers."""

    series: tuple[tuple[str, str], ...]
    """The label and tone of each series."""
    bars: tuple[ChartBar, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    """The days with data, latest first."""
    first: str
    last: str
    most: int
    """The count of the highest bar."""


def chart_days(series: Sequence[tuple[str, str]], counts: Mapping[str, Sequence[int]]) -> DayChart | None:
    """A bar per day up to the last day with data; None without data. Each day's counts are in the order of the series."""
    if not counts:
        return None
    last = date.fromisoformat(max(counts))
    first = date.fromisoformat(min(counts))
    number = min(MOST_DAYS, max(FEWEST_DAYS, (last - first).days + 1))
    days = [(last - timedelta(days=back)).isoformat() for back in range(number)][::-1]
    shown = [tuple(counts.get(day, (0,) * len(series))) for day in days]
    most = max(1, *(sum(row) for row in shown))
    slot = WIDTH / number
    bars = []
    for place, (day, row) in enumerate(zip(days, shown, strict=True)):
        top = HEIGHT
        for (label, tone), count in zip(series, row, strict=True):
            if not count:
                continue
            height = round(count / most * HEIGHT, 2)
            top -= height
            left = round((place + _GAP / 2) * slot, 2)
            bars.append(
                ChartBar(
                    left, round(top, 2), round(slot * (1 - _GAP), 2), height, tone, f"{day}: {count} {label}"
                )
            )
    rows = tuple((day, row) for day, row in zip(days, shown, strict=True) if any(row))[::-1]
    return DayChart(tuple(series), tuple(bars), rows, days[0], days[-1], most)


def line_points(values: Sequence[float]) -> str:
    """SVG points of a line through the values in order; the lowest value is at the bottom."""
    if not values:
        return ""
    low, high = min(values), max(values)
    step = (LINE_WIDTH - 2 * _EDGE) / max(1, len(values) - 1)
    room = LINE_HEIGHT - 2 * _EDGE

    def height(value: float) -> float:
        return (high - value) / (high - low) * room if high > low else room / 2

    points = values if len(values) > 1 else [values[0]] * 2
    step = step if len(values) > 1 else LINE_WIDTH - 2 * _EDGE
    return " ".join(
        f"{_EDGE + place * step:.1f},{_EDGE + height(value):.1f}" for place, value in enumerate(points)
    )


def bar_width(value: float, most: float) -> float:
    """The width of a bar in percent."""
    return round(max(0.0, min(1.0, value / most)) * 100, 1) if most else 0.0


def chosen_period(query: PageQuery) -> tuple[str, Instant]:
    """The number of days in the query and the start of that period; both empty for all time."""
    days = query.address.query.get("days", "")
    if days not in dict(PERIODS) or not days:
        return "", ""
    return days, add_seconds(query.now, -int(days) * _DAY_SECONDS)
