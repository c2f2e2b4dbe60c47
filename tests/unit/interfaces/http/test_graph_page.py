"""The drawing of a graph: what follows stands to the right, and no line runs through a box."""

from __future__ import annotations

import random
import re
from itertools import combinations

from remand.interfaces.http.pages.graph import (
    BOX_HEIGHT,
    WAITS,
    GraphBox,
    GraphLine,
    draw,
    wrap_title,
)


def a_box(name: str) -> GraphBox:
    return GraphBox(name, f"Task {name}", name, "incoming", name)


def test_no_line_runs_through_a_box_and_no_box_lies_on_another() -> None:
    chance = random.Random(19)
    for _ in range(30):
        names = [str(number) for number in range(chance.randint(1, 25))]
        pairs = [pair for pair in combinations(names, 2) if chance.random() < 0.15]
        drawing = draw([a_box(name) for name in names], [GraphLine(*pair, WAITS) for pair in pairs])

        places = {one.box.id: (one.x, one.y) for one in drawing.boxes}
        assert all(places[one][0] < places[other][0] for one, other in pairs)
        for (x, y), (other_x, other_y) in combinations(places.values(), 2):
            assert x != other_x or abs(y - other_y) >= BOX_HEIGHT
        for line in drawing.lines:
            # A curve stays between two columns; a straight part crosses one, at a height where no box is.
            for x, y in re.findall(r"C\d+ \d+ \d+ \d+ (\d+) (\d+)H", line.path):
                assert not any(
                    box_x == int(x) and box_y <= int(y) <= box_y + BOX_HEIGHT
                    for box_x, box_y in places.values()
                )


def test_tasks_in_a_circle_are_drawn_too() -> None:
    names = ("a", "b", "c")
    circle = [GraphLine("a", "b", WAITS), GraphLine("b", "c", WAITS), GraphLine("c", "a", WAITS)]

    drawing = draw([a_box(name) for name in names], circle)

    assert len({one.x for one in drawing.boxes}) == 3
    assert len(drawing.lines) == 3


def test_a_long_title_says_that_it_was_cut() -> None:
    assert wrap_title("Let clients retry after a rate limit was met, and tell them when") == (
        *("Let clients retry after a", "rate limit was met, and …"),
    )
    assert [len(line) <= 26 for line in wrap_title("x" * 100)] == [True, True]
