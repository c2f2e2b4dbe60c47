"""Tokens that let clients in, kept where this user alone can read them."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

from remand.app.errors import EnvironmentFault
from remand.bootstrap.quick import socket_folder

SHORTEST = 16


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


def keep_token(token: str, port: int) -> str:
    """Writes the token of a server down for clients of the same user; gives the file."""
    folder = socket_folder()
    if not folder:
        raise EnvironmentFault(
            "The folder for sockets belongs to somebody else. Set XDG_RUNTIME_DIR, then repeat."
        )
    path = os.path.join(folder, f"mcp-{port}.token")
    with suppress(FileNotFoundError):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    return path


def forget_token(path: str) -> None:
    """Deletes a token that lets nobody in any more."""
    with suppress(OSError):
        os.unlink(path)
