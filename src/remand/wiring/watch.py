"""Builds the watch over a ledger, and finds its scheduler's status."""

from __future__ import annotations

import os

from remand.adapters.gates.background_runs import BackgroundRuns
from remand.adapters.system.folders import gates_folder, state_folder
from remand.adapters.system.scheduler_files import StatusFile, is_alive
from remand.app.ledger_watch import LedgerWatch
from remand.app.scheduler.status import STATUS_FILE
from remand.wiring.open_ledger import OpenLedger


def status_file(ledger_id: str) -> StatusFile:
    """Where the scheduler of a ledger says how it is doing."""
    return StatusFile(os.path.join(state_folder(), ledger_id, STATUS_FILE))


def make_watch(opened: OpenLedger, recent: int = 0) -> LedgerWatch:
    """Looks at an open ledger; it first tells so much of the past."""
    ledger_id = opened.store.value("id")
    runs = BackgroundRuns(os.path.join(gates_folder(ledger_id), "runs"))
    return LedgerWatch(
        opened.ledger,
        opened.store,
        opened.settings.rules,
        status_file(ledger_id),
        is_measured=runs.is_running,
        is_alive=is_alive,
        recent=recent,
    )
