"""The machine's clock and random source."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

from remand.domain.instant import Instant


class SystemClock:
    """The machine's wall clock. The text of a second is made once."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def now(self) -> Instant:
        """What time it is, as an instant."""
        second, micros = divmod(time.time_ns() // 1000, 1_000_000)
        if second != self._second:
            self._text = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
            self._second = second
        return f"{self._text}.{micros:06d}Z"


class RandomIds:
    """Random digits for new ids."""

    def hex(self) -> str:
        return os.urandom(4).hex()


def new_project_id() -> str:
    """A random id for a project."""
    return os.urandom(8).hex()
