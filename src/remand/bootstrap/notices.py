"""Telling the user of open questions: the channels there are, and the process of its own that uses them."""

from __future__ import annotations

import os
import sys

from remand.adapters.measuring.background import BackgroundRuns
from remand.adapters.notices.addresses import (
    AGENTS_MARK,
    VARIABLE,
    Address,
    Addresses,
    addresses,
    addresses_file,
)
from remand.adapters.notices.pace import Pace
from remand.adapters.notices.plain import KIND, FileChannel
from remand.adapters.notices.services import AppriseChannel
from remand.adapters.system.folders import state_folder
from remand.app.notifying import Channel, Told, tell
from remand.bootstrap.ledger import Opened
from remand.bootstrap.quick import Place, ledger_id
from remand.config import inherited_environment

__all__ = [
    "Address",
    "Addresses",
    "addresses",
    "addresses_file",
    "begin",
    "channels",
    "deliver",
    "deliver_paced",
]

_AN_AGENTS = ("REMAND_TASK", "REMAND_ACTOR", "REMAND_HANDOFF")


def channels(found: Addresses) -> list[Channel]:
    """The channels behind the user's addresses."""
    return [
        FileChannel(*one) if one.url.lower().startswith(f"{KIND}://") else AppriseChannel(*one)
        for one in found.channels
    ]


def deliver(opened: Opened) -> Told:
    """Tells the user of every question that a channel has not taken."""
    found, pace = addresses(), _pace(opened.place)
    opened.ledger.ask_all([])
    with pace.turn():
        told = tell(opened.ledger, channels(found), opened.settings.rules().team, _project(opened.place))
    if told.notices or told.problems:
        pace.note()
    return told._replace(problems=found.problems + told.problems)


def deliver_paced(opened: Opened) -> Told:
    """Tells the user, in the pace of notices, until nothing is new; what fails is left to the next command."""
    whole = Told(0, (), ())
    while True:
        _pace(opened.place).wait()
        told = deliver(opened)
        whole = Told(whole.notices + told.notices, whole.delivered + told.delivered, told.problems)
        if told.problems or not told.notices:
            return whole


def begin(place: Place) -> None:
    """Starts a process that tells the user, unless one is at it: nobody waits for a channel."""
    call = ["-m", "remand.interfaces.cli.entry", "-C", place.root, "notify", "--paced"]
    environment = inherited_environment()
    without = (*_AN_AGENTS, VARIABLE) if AGENTS_MARK in environment else _AN_AGENTS
    BackgroundRuns(_folder(place)).start("notify", [sys.executable, *call], inherited_environment(*without))


def _pace(place: Place) -> Pace:
    return Pace(os.path.join(_folder(place), "pace"))


def _folder(place: Place) -> str:
    return os.path.join(state_folder(), ledger_id(place), "notices")


def _project(place: Place) -> str:
    return os.path.basename(place.root) or "remand"
