"""One screen: the sections of the board fitted into the rows and columns there are."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from remand.app.board import Board
from remand.app.escalations import Question
from remand.domain.instant import Instant
from remand.domain.objections import DISMISS, DISMISS_ALL
from remand.interfaces.live import sections as s
from remand.interfaces.live.state import OPTION_KEYS, Mode, State, selected
from remand.interfaces.live.words import ending, shown

WIDE = 140
_LEAST = 3
_HELP = """\
j k, arrows     look at another question of the inbox
1 2 3 …         answer it so; what closes a task is asked once more
g               type what whoever goes on should know, then answer
r               look again now, event files that git brought among it
?               this page
q               leave

An answer is that of `remand inbox answer`, and the user's to give.
When the question changes by itself, the keys rest for a second.
Without an answer a task waits; nothing is released or closed."""


def screen(board: Board, state: State, size: tuple[int, int], now: Instant, name: str = "") -> Group:
    """What is shown on a screen of so many columns and rows: never more than fits."""
    width, height = size
    head = s.headline(board, name, now)
    foot = footer(board, state, width)
    room = max(height - len(head) - len(foot), 0)
    rows = _help() if state.mode is Mode.HELP else _body(board, state, width, room, now)
    rows = [*rows[:room], *(Text() for _ in range(room - len(rows)))]
    return Group(*(_cut(row, width) for row in [*head, *rows, *foot][:height]))


def _cut(row: Text, width: int, *, pad: bool = False) -> Text:
    row = row.copy()
    row.truncate(width, overflow="ellipsis", pad=pad)
    row.no_wrap = True
    return row


def _help() -> list[Text]:
    return [Text(), *map(Text, _HELP.splitlines())]


def _body(board: Board, state: State, width: int, height: int, now: Instant) -> list[Text]:
    if width < WIDE:
        return fitted(_sections(board, state, width, now), height)
    left_width = (width - 3) // 2
    left = [s.troubles(board, now), s.inbox(board, now, state.selected, left_width), s.waiting(board, now)]
    right = [s.at_work(board, now), s.gates(board, now), s.recent(board)]
    return _beside(fitted(left, height), fitted(right, height), left_width)


def _sections(board: Board, state: State, width: int, now: Instant) -> list[s.Section]:
    return [
        s.troubles(board, now),
        s.inbox(board, now, state.selected, width),
        s.at_work(board, now),
        s.gates(board, now),
        s.waiting(board, now),
        s.recent(board),
    ]


def _beside(left: list[Text], right: list[Text], left_width: int) -> list[Text]:
    rows = []
    for number in range(max(len(left), len(right))):
        row = _cut(left[number] if number < len(left) else Text(), left_width, pad=True)
        row.append(" │ ", style="dim")
        rows.append(row.append_text(right[number]) if number < len(right) else row)
    return rows


def fitted(found: Sequence[s.Section], height: int) -> list[Text]:
    """The sections that have something to say, each with as many rows as there is room for; the first come first."""
    kept = [section for section in found if section.rows]
    rooms = _shared_out(kept, height)
    has_gaps = sum(rooms) + len(kept) - 1 <= height
    rows: list[Text] = []
    for section, room in zip(kept, rooms, strict=True):
        rows += [Text()] if has_gaps and rows else []
        rows += _cropped(section, room)
    return rows


def _shared_out(kept: Sequence[s.Section], height: int) -> list[int]:
    """How many rows each section gets: a few for each, what has to be seen, a third, then what is left."""
    rooms = [0] * len(kept)
    for least in (_LEAST, 0, height // 3, height):
        for number, section in enumerate(kept):
            begin, end = section.focus
            wanted = min(1 + len(section.rows), least or 1 + end - begin)
            rooms[number] += max(0, min(wanted - rooms[number], height - sum(rooms)))
    return rooms


def _cropped(section: s.Section, room: int) -> list[Text]:
    """A section's title and rows in so much room; what has to be seen is, and what is left out is counted."""
    if room < 2:
        return []
    title = Text().append(section.title, style="bold underline")
    rows, window = section.rows, room - 1
    if len(rows) <= window:
        return [title, *rows]
    title.append(f"  {window} of {len(rows)} lines", style="dim")
    begin, end = section.focus
    start = begin if end - begin >= window else max(0, end - window)
    return [title, *rows[start : start + window]]


def footer(board: Board, state: State, width: int) -> list[Text]:
    """What is typed or came of the last key, and what the keys mean."""
    question = selected(state, board.questions)
    match state.mode:
        case Mode.TYPE:
            what = "Reason" if state.option in (DISMISS, DISMISS_ALL) else "Guidance"
            what += f" for {name}" if (name := state.option.partition(":")[2]) else ""
            asked = Text().append(f"{shown(what, 60)}: ", style="bold")
            room = max(width - asked.cell_len - 2, 1)
            keys = "enter: answer so" if state.option else "enter: then choose an answer"
            return [asked.append(ending(state.guidance, room)).append("▏"), _dim(f"{keys} · esc: leave it")]
        case Mode.CONFIRM:
            what = question.title if question else ""
            return [
                Text(f"Close it as won't-fix? {shown(what, 60)}", style="bold red"),
                _dim("y: yes · any other key: no"),
            ]
        case _:
            return [_message(state, question), _dim(_keys(state, question))]


def _message(state: State, question: Question | None) -> Text:
    if state.guidance and question:
        return Text().append("With guidance: ", style="bold").append(shown(state.guidance))
    return Text(shown(state.message), style="bold")


def _keys(state: State, question: Question | None) -> str:
    if state.why_not:
        return f"{shown(state.why_not)} · j k move · ? help · r refresh · q quit"
    if question is None:
        return "? help · r refresh · q quit"
    last = OPTION_KEYS[min(len(question.options), len(OPTION_KEYS)) - 1]
    return f"1-{last} answer · g guidance · j k move · ? help · r refresh · q quit"


def _dim(text: str) -> Text:
    return Text(text, style="dim")
