"""Notices to the user through their channels; loaded only when there is something to send."""

from __future__ import annotations

import os
import sys

from remand.adapters.gates.background_runs import BackgroundRuns
from remand.adapters.notices.addresses import (
    AGENTS_MARK,
    VARIABLE,
    addresses_file,
    read_addresses,
)
from remand.adapters.notices.channels import FilePace, open_channels
from remand.adapters.system.folders import state_folder
from remand.app.notices import NoticeDelivery
from remand.config import inherited_environment
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation, ledger_id

__all__ = ["addresses_file", "notice_delivery", "open_channels", "read_addresses", "start_delivery"]

_AGENT_VARIABLES = ("REMAND_TASK", "REMAND_ACTOR", "REMAND_HANDOFF")


def notice_delivery(opened: OpenLedger) -> NoticeDelivery:
    """What sends the user's notices about a ledger."""
    return NoticeDelivery(
        opened.ledger,
        lambda: opened.settings.rules().team,
        os.path.basename(opened.place.root) or "remand",
        open_channels=open_channels,
        pace=FilePace(os.path.join(_folder(opened.place), "pace")),
    )


def start_delivery(place: LedgerLocation) -> None:
    """Starts a process that sends notices, unless one runs already: no command waits for a channel."""
    call = ["-m", "remand.interfaces.cli.entry", "-C", place.root, "notify", "--paced"]
    environment = inherited_environment()
    without = (*_AGENT_VARIABLES, VARIABLE) if AGENTS_MARK in environment else _AGENT_VARIABLES
    BackgroundRuns(_folder(place)).start("notify", [sys.executable, *call], inherited_environment(*without))


def _folder(place: LedgerLocation) -> str:
    return os.path.join(state_folder(), ledger_id(place), "notices")
