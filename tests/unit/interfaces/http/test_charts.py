"""What the server draws: every number has its place in the box, and the table has the same numbers."""

from remand.interfaces.http.pages.charts import (
    FEWEST_DAYS,
    HEIGHT,
    LINE_HEIGHT,
    MOST_DAYS,
    WIDTH,
    bar_width,
    chart_days,
    line_points,
)

SERIES = (("passed", "good"), ("rejected", "bad"))


def test_days_are_stacked_columns_of_a_line_of_days_that_ends_with_the_last() -> None:
    chart = chart_days(SERIES, {"2026-11-18": [3, 1], "2026-11-16": [1, 0]})

    assert chart is not None
    assert (chart.first, chart.last, chart.most) == ("2026-10-20", "2026-11-18", 4)
    assert chart.rows == (("2026-11-18", (3, 1)), ("2026-11-16", (1, 0)))
    early, passed, rejected = chart.bars
    assert (early.height, passed.height, rejected.height) == (HEIGHT / 4, HEIGHT * 3 / 4, HEIGHT / 4)
    assert (passed.y, rejected.y) == (HEIGHT / 4, 0)
    assert early.x < passed.x == rejected.x <= WIDTH - passed.width
    assert (passed.title, passed.tone) == ("2026-11-18: 3 passed", "good")
    assert chart_days(SERIES, {}) is None


def test_a_chart_shows_the_last_days_of_a_long_time() -> None:
    chart = chart_days(SERIES, {"2020-01-01": [9, 9], "2026-11-18": [1, 0]})

    assert chart is not None
    assert (len(chart.rows), chart.most) == (1, 1)
    assert chart.first == "2026-08-21"
    assert FEWEST_DAYS < MOST_DAYS


def test_lines_and_bars_stay_in_their_box_whatever_the_values() -> None:
    for values in ([1.0], [2.0, 2.0], [-5.0, 0.0, 1e12], [0.0] * 60):
        points = [tuple(map(float, point.split(","))) for point in line_points(values).split(" ")]
        assert len(points) == max(2, len(values))
        assert all(0 <= x <= 120 and 0 <= y <= LINE_HEIGHT for x, y in points)
    assert line_points([1.0, 3.0, 2.0]) == "2.0,22.0 60.0,2.0 118.0,12.0"
    assert line_points([]) == ""
    assert [bar_width(*pair) for pair in ((1, 4), (9, 4), (-1, 4), (1, 0))] == [25.0, 100.0, 0.0, 0.0]
