"""Notices to the user through their channels; loaded only when there is something to send."""

from __future__ import annotations

import os
import sys

from remand.adapters.gates.background_runs import BackgroundRuns
from remand.adapters.notices.addresses import (
    AGENTS_MARK,
    VARIABLE,
    ChannelAddresses,
    addresses_file,
    read_addresses,
)
from remand.adapters.notices.channels import FILE_KIND, AppriseChannel, FileChannel, Pace
from remand.adapters.system.folders import state_folder
from remand.app.notices import Channel, DeliveryReport, deliver_notices
from remand.config import inherited_environment
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation, ledger_id

__all__ = [
    "addresses_file",
    "channels",
    "deliver",
    "deliver_paced",
    "read_addresses",
    "start_delivery",
]

_AGENT_VARIABLES = ("REMAND_TASK", "REMAND_ACTOR", "REMAND_HANDOFF")


def channels(found: ChannelAddresses) -> list[Channel]:
    """The channels behind the user's addresses."""
    return [
        FileChannel(*one) if one.url.lower().startswith(f"{FILE_KIND}://") else AppriseChannel(*one)
        for one in found.channels
    ]


def deliver(opened: OpenLedger) -> DeliveryReport:
    """Tells the user of every question that a channel has not taken."""
    found, pace = read_addresses(), _pace(opened.place)
    opened.ledger.ask_all([])
    with pace.turn():
        told = deliver_notices(
            opened.ledger, channels(found), opened.settings.rules().team, _project(opened.place)
        )
    if told.notices or told.problems:
        pace.note()
    return told._replace(problems=found.problems + told.problems)


def deliver_paced(opened: OpenLedger) -> DeliveryReport:
    """Tells the user, in the pace of notices, until nothing is new; what fails is left to the next command."""
    whole = DeliveryReport(0, (), ())
    while True:
        _pace(opened.place).wait()
        told = deliver(opened)
        whole = DeliveryReport(whole.notices + told.notices, whole.delivered + told.delivered, told.problems)
        if told.problems or not told.notices:
            return whole


def start_delivery(place: LedgerLocation) -> None:
    """Starts a process that tells the user, unless one is at it: nobody waits for a channel."""
    call = ["-m", "remand.interfaces.cli.entry", "-C", place.root, "notify", "--paced"]
    environment = inherited_environment()
    without = (*_AGENT_VARIABLES, VARIABLE) if AGENTS_MARK in environment else _AGENT_VARIABLES
    BackgroundRuns(_folder(place)).start("notify", [sys.executable, *call], inherited_environment(*without))


def _pace(place: LedgerLocation) -> Pace:
    return Pace(os.path.join(_folder(place), "pace"))


def _folder(place: LedgerLocation) -> str:
    return os.path.join(state_folder(), ledger_id(place), "notices")


def _project(place: LedgerLocation) -> str:
    return os.path.basename(place.root) or "remand"
