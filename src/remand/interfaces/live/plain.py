"""The whole board as plain text, for those who read it once."""

from __future__ import annotations

from rich.text import Text

from remand.app.board import Board
from remand.interfaces.live import sections as s
from remand.interfaces.live.words import whole

WIDTH = 160


def plain(board: Board, name: str, *, may_answer: bool = True) -> str:
    """Every section that has something to say, one after the other."""
    found = (
        s.troubles(board, board.at, whole),
        _inbox(board, may_answer=may_answer),
        s.at_work(board, board.at, whole),
        s.gates(board, board.at, whole),
        s.waiting(board, board.at, whole),
        s.recent(board, whole),
    )
    parts = [[row.plain for row in s.headline(board, name, board.at)]]
    parts += [
        [section.title, *(f"  {row.plain}" for row in section.rows)] for section in found if section.rows
    ]
    return "\n\n".join("\n".join(row.rstrip() for row in rows) for rows in parts)


def _inbox(board: Board, *, may_answer: bool) -> s.Section:
    """Every question with all that it says, its options numbered as they may be answered."""
    rows: list[Text] = []
    for question in board.questions:
        rows.append(s.asked(question, board.at))
        rows += s.unfolded(question, WIDTH, str)
        if may_answer:
            rows.append(
                Text(f"    Answer: remand inbox answer {question.escalation_id} OPTION [--guidance TEXT]")
            )
    return s.Section("Inbox", rows)
