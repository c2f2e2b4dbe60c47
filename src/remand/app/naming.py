"""Finding a task by any of its names."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain import ids
from remand.domain.task import Task
from remand.ledger.store import Transaction
from remand.ledger.traces import FILED, INVALID


def locate(tx: Transaction, name: str) -> str:
    """The task id behind an id or alias; empty when there is none."""
    if not name.isprintable():
        return ""
    bare = ids.task_id(name)
    if bare is not None and tx.tasks.get(bare) is not None:
        return bare
    return tx.tasks.named(name)


def task_of_handoff(tx: Transaction, handoff_id: str) -> str:
    """The task of a handoff; empty when there is none. Of an imported one perhaps only its rejection tells."""
    if not handoff_id:
        return ""
    told = (found.task for found in tx.traces.every(FILED, INVALID) if found.handoff == handoff_id)
    return tx.tasks.named(handoff_id) or next(filter(None, told), "")


def open_handoff_task(tx: Transaction, ask: c.RejectHandoff) -> Task | None:
    """The task of a handoff that is open for somebody: nobody has evidence looked at for a closed one."""
    name = ids.handoff_id(ask.handoff_id) or ""
    task = tx.tasks.get(tx.tasks.named(name)) if name else None
    if task is None:
        return None
    is_claimed = task.claim is not None and task.claim.handoff_id == name
    return task if is_claimed or task.offer(name) is not None else None
