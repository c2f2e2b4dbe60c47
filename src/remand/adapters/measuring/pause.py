"""The user's pause: a file outside every repository that says until when, by whom and why."""

from __future__ import annotations

import os

from remand.domain.instant import Instant


def begin(folder: str, until: Instant, actor: str, reason: str) -> None:
    """Writes the pause down; a later one takes its place."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(_path(folder), "w", encoding="utf-8") as file:
        file.write(f"{until}\n{actor}\n{reason}\n")


def is_on(folder: str, now: Instant) -> bool:
    """True until the pause's end."""
    try:
        with open(_path(folder), encoding="utf-8") as file:
            return now < file.readline().strip()
    except (OSError, UnicodeDecodeError):
        return False


def end(folder: str) -> bool:
    """Takes the pause away; False when there was none."""
    try:
        os.unlink(_path(folder))
    except FileNotFoundError:
        return False
    return True


def _path(folder: str) -> str:
    return os.path.join(folder, "paused")
