"""Waiting for one descriptor."""

from __future__ import annotations

import select
from math import ceil


def is_ready(descriptor: int, seconds: float) -> bool:
    """True when a descriptor has something to read within so many seconds; its number may be any."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(ceil(seconds * 1000)))
