"""The user's commands that advise on rejections and decide them."""

from __future__ import annotations

from remand.adapters.system.commands import UserCommands
from remand.app.directing import Directing
from remand.bootstrap.ledger import Opened


def directing(opened: Opened) -> Directing:
    """Adviser and director of an open ledger, as its policy names them."""
    return Directing(opened.ledger, UserCommands(opened.place.root), opened.settings.rules().policy)
