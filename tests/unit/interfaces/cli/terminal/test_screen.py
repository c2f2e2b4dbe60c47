"""Holds what is drawn: everything within the screen, problems first, nothing hostile, the question always in sight."""

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from remand.app.board import Board, BoardAlert
from remand.app.scheduler.ports import SchedulerStatus
from remand.domain.instant import add_seconds
from remand.interfaces.cli.terminal.screen import render_plain, render_screen
from remand.interfaces.cli.terminal.state import KeyPress, ViewState, handle_key, initial_state
from remand.testing.builders import NOW
from tests.unit.interfaces.cli.terminal.example_boards import a_board, a_full_board, a_question

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202eevil\u2066\u200b\n\t\r\x9b31m" + "界" * 300
SIZES = [(80, 24), (120, 40), (139, 24), (140, 24), (250, 60), (250, 24), (40, 10), (80, 5), (20, 3)]


def drawn(board: Board, state: ViewState | None = None, size: tuple[int, int] = (80, 24)) -> list[str]:
    """The rows that are drawn, without colours."""
    out = io.StringIO()
    console = Console(file=out, width=size[0], height=size[1], color_system=None, highlight=False)
    console.print(
        render_screen(board, state or initial_state(board.questions), size, add_seconds(NOW, 125), "shop"),
        end="",
    )
    return out.getvalue().removesuffix("\n").split("\n")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("text", ["Mend the roof", HOSTILE, ""], ids=["plain", "hostile", "empty"])
def test_whatever_is_on_the_board_fits_the_screen_and_commands_it_nothing(
    text: str, size: tuple[int, int]
) -> None:
    board = a_full_board(text)
    for key in ("", "j", "?", "g", "1"):
        state, _ = handle_key(initial_state(board.questions), board.questions, KeyPress(key), 9.0)
        rows = drawn(board, state, size)

        assert len(rows) == size[1]
        assert max(map(cell_len, rows)) <= size[0]
        assert all(row.isprintable() for row in rows), [row for row in rows if not row.isprintable()]


def test_a_hostile_board_colours_nothing_by_itself() -> None:
    out = io.StringIO()
    console = Console(
        file=out, width=80, height=24, force_terminal=True, color_system="truecolor", _environ={}
    )
    board = a_full_board(HOSTILE)
    console.print(render_screen(board, initial_state(board.questions), (80, 24), NOW, HOSTILE))

    left = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "\x1b" not in left
    assert "\x9b" not in left
    assert "\u202e" not in left
    assert "owned" in left


def test_without_colour_nothing_but_weight_is_sent() -> None:
    out = io.StringIO()
    console = Console(
        file=out, width=80, height=24, force_terminal=True, no_color=True, _environ={"TERM": "xterm"}
    )
    board = a_full_board()
    console.print(render_screen(board, initial_state(board.questions), (80, 24), NOW))

    codes = {code for found in re.findall(r"\x1b\[([0-9;]*)m", out.getvalue()) for code in found.split(";")}
    assert codes <= {"0", "1", "2", "4", ""}


def test_problems_come_first_then_the_inbox_then_the_rest() -> None:
    rows = drawn(a_full_board(many=1), size=(80, 90))
    titles = [
        row for row in rows if row in ("Problems", "Inbox", "At work", "Gates running", "Waiting", "Recently")
    ]

    assert titles == ["Problems", "Inbox", "At work", "Gates running", "Waiting", "Recently"]


def test_a_wide_screen_has_what_goes_on_beside_what_is_asked() -> None:
    rows = drawn(a_full_board(many=1), size=(160, 40))

    assert rows[2].startswith("Problems")
    assert "│ At work" in rows[2]
    assert len({row.index("│") for row in rows if "│" in row}) == 1


def test_the_question_that_is_looked_at_is_in_sight_with_its_options() -> None:
    questions = tuple(a_question(number) for number in range(1, 40))
    trouble = tuple(BoardAlert(kind="task", text="is failed", label="#1") for _ in range(40))
    board = a_board(questions=questions, troubles=trouble)
    state = initial_state(questions)
    for _ in range(30):
        state, _ = handle_key(state, questions, KeyPress("j"), 9.0)

    rows = drawn(board, state)

    assert "▸ E-000000000031  Mend roof 31  2 m" in rows
    assert [row.strip() for row in rows if row.startswith("    ")][:6] == [
        "Issue #31 needs a decision: what now?",
        "1  Do fix",
        "2  Do unlock:Alice",
        "3  Do reassign:Bob",
        "4  Do reopen",
        "5  Do wontfix",
    ]
    assert [row for row in rows if row.startswith("Problems")]


def test_what_is_left_out_is_counted() -> None:
    board = a_board(troubles=tuple(BoardAlert(kind="task", text="is failed") for _ in range(40)))

    assert "Problems  19 of 40 lines" in drawn(board)


def test_an_empty_ledger_says_what_to_do() -> None:
    assert drawn(a_board())[1] == "There are no tasks yet: remand task add TITLE"


def test_the_headline_says_how_the_scheduler_is_doing() -> None:
    status = SchedulerStatus(
        pid=4711, started_at=NOW, tick_at=NOW, tier="plain", waiting="ten submissions wait for review"
    )

    assert drawn(a_board())[0] == "remand shop  09:02:05 UTC  no scheduler is running"
    assert drawn(a_board(scheduler=status, is_scheduled=True), size=(120, 24))[0] == (
        "remand shop  09:02:05 UTC  scheduler 4711, plain, silent for 2 m  waits: ten submissions wait for review"
    )


@pytest.mark.parametrize(
    ("keys", "message", "meaning"),
    [
        ([], "", "1-5 answer · g guidance · j k move · ? help · r refresh · q quit"),
        (["5"], "Close it as won't-fix? Mend roof 1", "y: yes · any other key: no"),
        (["2", "h", "i"], "Guidance for Alice: hi▏", "enter: answer · esc: cancel"),
        (["g", "h", "i"], "Guidance: hi▏", "enter: continue to the answer · esc: cancel"),
        (["g", "h", "i", "enter"], "With guidance: hi", "1-5 answer · g guidance"),
    ],
    ids=["look", "confirm", "unlock", "type", "typed"],
)
def test_the_last_rows_say_what_is_typed_and_what_keys_mean(
    keys: list[str], message: str, meaning: str
) -> None:
    board = a_board(questions=(a_question(),))
    state = initial_state(board.questions)
    for key in keys:
        state, _ = handle_key(state, board.questions, KeyPress(key), 9.0)

    *_, said, known = drawn(board, state)

    assert said == message
    assert known.startswith(meaning)


def test_of_a_long_guidance_the_end_is_seen() -> None:
    board = a_board(questions=(a_question(),))
    state, _ = handle_key(initial_state(board.questions), board.questions, KeyPress("g"), 9.0)
    state, _ = handle_key(state, board.questions, KeyPress(pasted="x" * 200 + "界end"), 9.0)

    assert drawn(board, state)[-2].endswith("x界end▏")
    assert cell_len(drawn(board, state)[-2]) <= 80


def test_in_an_agents_place_the_screen_says_that_it_is_only_to_look_at() -> None:
    board = a_board(questions=(a_question(),))

    assert drawn(board, initial_state(board.questions, why_not="Only the user answers."))[-1].startswith(
        "Only the user answers. · j k move"
    )


def test_the_plain_board_has_everything_and_says_how_to_answer() -> None:
    text = render_plain(a_full_board(many=2), "shop")

    assert text.count("Answer: remand inbox answer E-") == 2
    assert "40  Do reassign:Mend the roof39" in text
    assert "Answer:" not in render_plain(a_full_board(many=2), "shop", may_answer=False)
    assert all(row.isprintable() for row in render_plain(a_full_board(HOSTILE), HOSTILE).split("\n"))
