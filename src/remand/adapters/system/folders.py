"""Where things are kept outside a repository."""

from __future__ import annotations

import os


def runtime_folder() -> str:
    """The folder for sockets: short, private, gone after a restart."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(base) and os.path.isdir(base) and len(base) < 60:
        return os.path.join(base, "remand")
    return f"/tmp/remand-{os.getuid()}"  # noqa: S108 - made private and checked before use


def state_folder() -> str:
    """The folder for what is remembered about ledgers."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # a relative one is to be ignored, and would put the key into a working tree
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "remand")


def private_folder(path: str) -> str:
    """Makes a folder for this user alone; empty when someone else's is in the way."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError:
        return ""
    is_ours = status.st_uid == os.getuid() and not status.st_mode & 0o077 and not os.path.islink(path)
    return path if is_ours else ""


def gates_folder(ledger_id: str) -> str:
    """Where what the gates of a ledger need is kept."""
    return os.path.join(state_folder(), ledger_id, "gates")


def reports_folder(ledger_id: str) -> str:
    """Where the full reports of a ledger's gates are, for people and agents to read."""
    return os.path.join(gates_folder(ledger_id), "reports")


def journal_folder(ledger_id: str) -> str:
    """Where the journals of a ledger's tasks are."""
    return os.path.join(state_folder(), ledger_id, "journal")


def socket_folder() -> str:
    """The folder of the sockets, made for this user alone; empty when someone else's is in the way."""
    return private_folder(runtime_folder())


def socket_path(ledger_id: str) -> str:
    """Where the coordinator of a ledger listens."""
    return os.path.join(runtime_folder(), f"{ledger_id}.sock")
