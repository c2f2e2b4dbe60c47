"""Finding a task by any of its names."""

from __future__ import annotations

from remand.domain import ids
from remand.ledger.store import Transaction


def locate(tx: Transaction, name: str) -> str:
    """The task id behind an id or alias; empty when there is none."""
    if not name.isprintable():
        return ""
    bare = ids.task_id(name)
    if bare is not None and tx.tasks.get(bare) is not None:
        return bare
    return tx.tasks.named(name)
