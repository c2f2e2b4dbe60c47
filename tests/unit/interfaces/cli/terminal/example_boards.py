"""Boards to look at."""

from __future__ import annotations

from typing import Any

from remand.app.board import ActiveWork, Board, BoardAlert, RunningGates, WaitingTask
from remand.app.history.activity import ActivityEntry
from remand.app.inbox.questions import Question
from remand.domain.decisions.escalations import EscalationOption
from remand.testing.builders import LATER, NOW, T1

OPTIONS = ("fix", "unlock:Alice", "reassign:Bob", "reopen", "wontfix")


def a_question(number: int = 1, *keys: str, **fields: Any) -> Question:
    """A question with these options."""
    standard: dict[str, Any] = {
        "escalation_id": f"E-{number:012d}",
        "task_id": T1,
        "title": f"Mend roof {number}",
        "kind": "asked",
        "question": f"Issue #{number} needs a decision: what now? Options: 1) Manual fix.",
        "options": tuple(EscalationOption(key=key, text=f"Do {key}") for key in keys or OPTIONS),
        "deadline": LATER,
        "since": NOW,
        "tried": ("Lead rejected Alice's work: It leaks",),
    }
    return Question(**{**standard, **fields})


def a_board(**fields: Any) -> Board:
    """A board with these things on it."""
    return Board(**{"at": NOW, **fields})


def a_full_board(text: str = "Mend the roof", many: int = 30) -> Board:
    """A board with much on it, everything of it called by the same text."""
    return a_board(
        counts={"incoming": 10_000, "claimed": many, "escalated": many, "done": 7},
        ready=9_000,
        troubles=tuple(BoardAlert(kind="task", text=text, task_id=T1, label=text) for _ in range(many)),
        questions=tuple(
            a_question(
                number,
                *(f"reassign:{text}{n}" for n in range(40)),
                title=text,
                question=text * 5,
                tried=(text,) * 20,
            )
            for number in range(many)
        ),
        at_work=tuple(
            ActiveWork(
                task_id=T1,
                label=text,
                title=text,
                agent=text,
                purpose="work",
                since=NOW,
                lease_until=LATER,
                attempt=2,
                gate_rejections=4,
                waits_for=text,
                last_line=text,
                is_measured=True,
            )
            for _ in range(many)
        ),
        gates=tuple(RunningGates(task_id=T1, label=text, agent=text, since=NOW) for _ in range(many)),
        waiting=tuple(
            WaitingTask(task_id=T1, label=text, title=text, status="provisional", whom=(text,), author=text)
            for _ in range(many)
        ),
        happenings=tuple(
            ActivityEntry(at=NOW, event="task.claim", task_id=T1, label=text, text=text, is_unconfirmed=True)
            for _ in range(15)
        ),
    )
