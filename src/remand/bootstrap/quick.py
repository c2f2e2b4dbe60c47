"""What the fast paths need before anything heavy is loaded: the place, and a coordinator if one runs."""

from __future__ import annotations

import os

from remand.adapters.coordinator import frames
from remand.adapters.coordinator.client import Connection, Lost
from remand.adapters.git.place import Place, current_branch, locate
from remand.adapters.system.folders import private_folder, runtime_folder

__all__ = [
    "Lost",
    "Place",
    "current_branch",
    "find_socket",
    "forward",
    "locate",
    "socket_folder",
    "socket_path",
]


def socket_path(ledger_id: str) -> str:
    """Where the coordinator of a ledger listens."""
    return os.path.join(runtime_folder(), f"{ledger_id}.sock")


def socket_folder() -> str:
    """The folder of the sockets, made for this user alone; empty when someone else's is in the way."""
    return private_folder(runtime_folder())


def find_socket(place: Place) -> str:
    """The socket of a place's coordinator; empty when there is none."""
    try:
        with open(os.path.join(place.got, "ledger.id"), encoding="ascii") as file:
            path = socket_path(file.read(64).strip())
    except (OSError, ValueError):
        return ""
    return path if os.path.exists(path) else ""


def forward(path: str, folder: str, settings: list[str], arguments: list[str]) -> tuple[int, bytes, bytes]:
    """Has a coordinator run a call of the command line; raises `Lost` when it cannot."""
    connection = Connection(path)
    try:
        return frames.unpack_result(connection.exchange(frames.pack_call(folder, settings, arguments)))
    finally:
        connection.close()
