"""Making every table anew from the events alone."""

from __future__ import annotations

from remand.domain.events import Event, subject
from remand.domain.evolve import evolve, replay
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.store import Transaction


def rebuild(tx: Transaction) -> None:
    """Folds all events, and replaces the tables by the outcome.

    The log gives its lines session by session. A task that several sessions wrote to is folded again from
    its own events, put in order.
    """
    tasks: dict[str, Task | None] = {}
    latest: dict[str, Event] = {}
    tangled: set[str] = set()
    for line in tx.events.lines():
        event = codec.recall(line)
        name = subject(event)
        if not name:
            continue
        last = latest.get(name)
        if last is not None and (last.ts > event.ts or last.meta.session != event.meta.session):
            tangled.add(name)
        latest[name] = event
        tasks[name] = evolve(tasks.get(name), event)
    latest.clear()
    for name in tangled:
        tasks[name] = replay(tx.events.of_task(name))
    tx.tasks.replace_all(task for task in tasks.values() if task is not None)
