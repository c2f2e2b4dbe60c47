"""Tables for people fit the terminal, and never at the cost of an id: without it nothing can be done with a row."""

from io import StringIO

import pytest

from remand.interfaces.cli.output import console, table

TASK = "T-20261117-211446-4faf3ff8"
COMMIT = "3ea86f5e179f"
FINDING = "same-de71483dd99e"
COLUMNS = ("time", "task", "event", "agent", "commit", "says")
ROW = ("11-17 21:15", TASK, "gate.accept", "A rather long name", COMMIT, f"{FINDING}: {'words ' * 20}")


def shown(width: int, *, is_terminal: bool = True, wraps: bool = False, row: tuple[str, ...] = ROW) -> str:
    written = StringIO()
    out = console(written, is_terminal=is_terminal, width=width, has_color=False)
    table(COLUMNS[: len(row)], [row], "", wraps=wraps)(out)
    return written.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 160])
@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("wraps", [True, False], ids=["wraps", "cut"])
def test_an_id_is_never_cut_off(width: int, is_terminal: bool, wraps: bool) -> None:
    text = shown(width, is_terminal=is_terminal, wraps=wraps)

    assert all(name in text for name in (TASK, COMMIT, FINDING)), text


def test_several_ids_in_one_cell_are_all_whole() -> None:
    other = TASK.replace("4", "7")

    text = shown(40, row=("12:00", f"{TASK}, {other}", "node.create"))

    assert TASK in text
    assert other in text


@pytest.mark.parametrize("width", [80, 100, 160])
def test_other_columns_give_way_so_that_the_table_fits(width: int) -> None:
    text = shown(width, row=ROW[:4])

    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(
    ("shows_last", "first", "last", "says"),
    [
        (False, "row-000", "row-009", "990 more are not shown"),
        (True, "row-990", "row-999", "990 earlier ones"),
    ],
)
def test_a_long_list_is_shown_a_page_at_a_time_and_says_how_to_see_the_rest(
    shows_last: bool, first: str, last: str, says: str
) -> None:
    written = StringIO()
    rows = [(f"row-{number:03}",) for number in range(1000)]

    table(("row",), rows, "", limit=10, shows_last=shows_last)(
        console(written, is_terminal=False, width=80, has_color=False)
    )

    shown_rows = [line.strip() for line in written.getvalue().splitlines() if "row-" in line]
    assert (len(shown_rows), shown_rows[0], shown_rows[-1]) == (10, first, last)
    assert says in written.getvalue()
    assert "--all" in written.getvalue()


def test_a_list_that_is_no_longer_than_a_page_says_nothing_of_more() -> None:
    written = StringIO()

    table(("row",), [("a",), ("b",)], "", limit=2)(
        console(written, is_terminal=False, width=80, has_color=False)
    )

    assert "not shown" not in written.getvalue()
