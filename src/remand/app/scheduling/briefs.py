"""What an agent is told when its run begins."""

from __future__ import annotations

from remand.app.scheduling.beginning import Assigned, Brief
from remand.app.scheduling.books import Books
from remand.domain.events import Purpose
from remand.domain.visible import visible

MAX_NAMED = 20


class Briefs:
    """The prompt of a run: of one that works its task, of others what the one who asks them has to say."""

    def __init__(self, books: Books, of_others: dict[Purpose, Brief], program: str = "") -> None:
        """`program` is the path of our own executable, for agents whose shells may not find it by its name."""
        self._books = books
        self._of_others = of_others
        self._calling = f"\n\nIf your shell does not find `remand`, call it as {program}." if program else ""

    def brief(self, assigned: Assigned) -> str:
        """What is told. Why the last run was not the end comes first."""
        other = self._of_others.get(assigned.purpose)
        if other is not None:
            return other(assigned)
        text = self._books.prompt(assigned.task.id, assigned.member.name) + self._calling
        if assigned.left:
            names = ", ".join(visible(name) for name in assigned.left[:MAX_NAMED])
            return f"{text}\n\n## What an earlier run left\n\nUncommitted in this worktree: {names}. Go on from there."
        if not assigned.note:
            return text
        quoted = "\n".join(f"> {line}" for line in visible(assigned.note).splitlines())
        return f"## You stopped before the task was done\n\n{quoted}\n\n{text}"
