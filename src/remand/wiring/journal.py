"""What a hook writes after a tool was used: the journal entry and the heartbeat's time. Loads nothing heavy."""

from __future__ import annotations

import os

from remand.adapters.journal.writer import Sessions, append
from remand.adapters.system.folders import state_folder
from remand.wiring.startup import gates_folder

__all__ = ["append", "is_heartbeat_due", "journal_folder"]


def journal_folder(ledger_id: str) -> str:
    """Where the journals of a ledger's tasks are."""
    return os.path.join(state_folder(), ledger_id, "journal")


def is_heartbeat_due(ledger_id: str, task_id: str, seconds: float) -> bool:
    """True when the agent of a task was last said to be at work so long ago."""
    sessions = Sessions(os.path.join(gates_folder(ledger_id), "sessions"))
    return sessions.is_due("heartbeat", task_id, "", seconds)
