"""Threads that do what takes long, so that a loop need not wait."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Threads:
    """A few threads that live as long as the process: what they start may be bound to their lives."""

    def __init__(self, many: int) -> None:
        self._pool = ThreadPoolExecutor(many, thread_name_prefix="hand")

    def do(self, work: Callable[[], None]) -> None:
        """Has it done as soon as a thread is free."""
        self._pool.submit(work).add_done_callback(_tell)


def _tell(done: Future[None]) -> None:
    """A fault nobody foresaw is told where a person may see it, and ends nothing else."""
    fault = done.exception()
    if fault is not None:
        sys.stderr.write("".join(traceback.format_exception(fault)))
