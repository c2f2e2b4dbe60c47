"""Runs the command line under a clock that is wrong by as many seconds as a file says, whenever it is read."""

import sys
from pathlib import Path

from remand.adapters.system.machine import SystemClock
from remand.domain.instant import Instant, add_seconds

_right = SystemClock.now
_shift = Path(sys.argv.pop(1))


def now(clock: SystemClock) -> Instant:
    """What time it is, by the wrong clock."""
    return add_seconds(_right(clock), float(_shift.read_text()))


if __name__ == "__main__":
    SystemClock.now = now  # type: ignore[method-assign]
    from remand.interfaces.cli.entry import main

    main()
