"""Starting a coordinator for an opened ledger."""

from __future__ import annotations

from remand.adapters.coordinator.server import Call, Coordinator
from remand.app.errors import EnvironmentFault
from remand.bootstrap.directing import Consultations
from remand.bootstrap.ledger import Opened
from remand.bootstrap.quick import socket_folder, socket_path
from remand.bootstrap.reminding import look_after


def make_coordinator(opened: Opened, call: Call) -> Coordinator:
    """A coordinator that listens on the ledger's socket."""
    if not socket_folder():
        raise EnvironmentFault(
            "The folder for sockets is not this user's own. Set XDG_RUNTIME_DIR to a private folder."
        )
    opened.store.stay()
    path = socket_path(opened.store.value("id"))
    return Coordinator(
        opened.ledger, path, call, Consultations(opened).begin, lambda: look_after(opened.place, opened)
    )
