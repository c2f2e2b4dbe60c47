"""Which task a host session works on, and how often a stop may be blocked.

Every hook call loads this, so it imports little.
"""

from __future__ import annotations

import os
from time import time

MAX_BLOCKS = 3
"""How often a session's stop is blocked if nothing can be known about its task."""


class SessionTask:
    """The task of a host session: named by id, or by the branch of its worktree."""

    __slots__ = ("agent", "branch", "earlier", "task_id")

    def __init__(
        self, task_id: str = "", agent: str = "", branch: str = "", earlier: tuple[str, ...] = ()
    ) -> None:
        self.task_id = task_id
        self.agent = agent
        self.branch = branch
        self.earlier = earlier
        """Tasks that the session claimed before this one, each with its agent behind a space."""


def claimed_task(folder: str, session: str) -> SessionTask | None:
    """The task that a session claimed last, from the notes in a folder; None if it claimed none."""
    claimed = _read_lines(_claims_file(folder, session)) if session else []
    if not claimed:
        return None
    task_id, _, agent = claimed[-1].partition(" ")
    return SessionTask(task_id, agent, earlier=tuple(claimed[:-1]))


def record_claim(folder: str, session: str, task_id: str, agent: str) -> None:
    """Notes that a session has claimed a task, beside earlier ones."""
    if not session:
        return
    line, path = f"{task_id} {agent}", _claims_file(folder, session)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if line not in _read_lines(path)[-1:]:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def note_open_claim(folder: str, session: str, agent: str, tasks: list[str]) -> None:
    """Notes that a session may have claimed one of these tasks, because the server could not be reached."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(_open_claim_file(folder, session), "w", encoding="utf-8") as file:
        file.write("\n".join([agent, *tasks]))


def open_claim(folder: str, session: str) -> tuple[str, list[str], float] | None:
    """The agent, the candidate tasks and the age in seconds of an unconfirmed claim. None if there is none."""
    path = _open_claim_file(folder, session)
    lines = _read_lines(path) if session else []
    if not lines:
        return None
    return lines[0], lines[1:], max(0.0, time() - os.stat(path).st_mtime)


def close_claim(folder: str, session: str) -> None:
    """Removes the note of an unconfirmed claim, once the server has answered."""
    note_open_claim(folder, session, "", [])


def may_block_again(folder: str, task: str, session: str) -> bool:
    """True for the first few calls of a session whose ledger cannot be found."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(os.path.join(folder, _plain(f"{task}-{session}")[:150]), "ab") as file:
            file.write(b".")
            return file.tell() <= MAX_BLOCKS
    except OSError:
        return True


def _claims_file(folder: str, session: str) -> str:
    return os.path.join(folder, f"claim-{_plain(session)[:100]}")


def _open_claim_file(folder: str, session: str) -> str:
    return os.path.join(folder, f"open-claim-{_plain(session)[:100]}")


def _plain(text: str) -> str:
    return "".join(char if char.isalnum() or char in "-_" else "_" for char in text)


def _read_lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(100_000).splitlines()
    except (OSError, ValueError):
        return []
