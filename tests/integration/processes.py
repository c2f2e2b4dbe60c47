"""What became of a process a test has started through others."""

from __future__ import annotations

import time
from pathlib import Path

PATIENCE_SECONDS = 600
"""A killed process needs a moment to go; nothing here is measured."""
LONGER = (1.0, 10.0, 100.0)
"""How long something is let run that is to be ended in the midst of it: longer where a slow machine has not begun it by then."""


def is_gone(number: int) -> bool:
    """Whether a process has ended, or ends in a moment; one that nobody has buried yet has ended."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while _is_running(number):
        if time.monotonic() > patience:
            return False
        time.sleep(0.02)
    return True


def _is_running(number: int) -> bool:
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"
