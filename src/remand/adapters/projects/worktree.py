"""Looking at the files of a main worktree, which may hold anything."""

from __future__ import annotations

import os
import stat

MAX_BYTES = 1 << 20


def text(root: str, path: str) -> str:
    """A plain file's text; empty when there is none, or it is too large to be a configuration."""
    try:
        descriptor = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return ""
    try:
        seen = os.fstat(descriptor)
        is_plain = stat.S_ISREG(seen.st_mode) and seen.st_size <= MAX_BYTES
        return os.read(descriptor, MAX_BYTES).decode("utf-8", "replace") if is_plain else ""
    finally:
        os.close(descriptor)


def has_folder(root: str, path: str) -> bool:
    """Whether there is such a folder."""
    return os.path.isdir(os.path.join(root, path))
