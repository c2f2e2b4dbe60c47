"""Clean checkouts of a tree, lent for one run each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from remand.adapters.git.mirror import GitMirror
from remand.adapters.git.objects import require_id
from remand.adapters.git.overlay import OverlayCheckouts, overlay_options
from remand.adapters.git.slots import Slots

LIMIT = 16


class PooledCheckouts:
    """Lends folders of its own, one a borrower, each brought from the tree it held last to the one that is wanted."""

    def __init__(self, mirror: GitMirror, folder: str, limit: int = LIMIT) -> None:
        self._slots = Slots(mirror, os.path.join(os.path.abspath(folder), "pooled"), limit)

    @contextmanager
    def lend(self, tree: str) -> Iterator[str]:
        """A writable folder that holds the tree and nothing else; what is written there is gone afterwards."""
        with self._slots.alone(require_id(tree)) as slot:
            slot.become(tree)
            try:
                yield slot.path
            finally:
                slot.sweep()
                self._slots.trash.empty_soon()


def best_checkouts(mirror: GitMirror, folder: str) -> PooledCheckouts | OverlayCheckouts:
    """Checkouts by overlay where the kernel and our rights allow it, else pooled ones."""
    options = overlay_options(folder)
    return PooledCheckouts(mirror, folder) if options is None else OverlayCheckouts(mirror, folder, options)
