"""Making every table anew from the events alone."""

from __future__ import annotations

from remand.domain.events import Event, HandoffInitiated, TaskClaimed, subject
from remand.domain.evolve import evolve, replay
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.order import place
from remand.ledger.store import Transaction


def story(tx: Transaction, task_id: str) -> list[Event]:
    """A task's events in their order."""
    return sorted(map(codec.recall, tx.events.of_task(task_id)), key=place)


def refold(tx: Transaction, task_id: str) -> Task | None:
    """A task folded from all its events."""
    return replay(story(tx, task_id))


def _is_after(one: Event, other: Event) -> bool:
    return one.ts > other.ts or (one.ts == other.ts and place(one) > place(other))


def rebuild(tx: Transaction) -> None:
    """Folds all events, and replaces the tables by the outcome.

    The log gives its lines session by session. A task that several sessions wrote to is folded again from
    its own events, put in order.
    """
    tasks: dict[str, Task | None] = {}
    latest: dict[str, Event] = {}
    tangled: set[str] = set()
    handoffs: dict[str, str] = {}
    for line in tx.events.lines():
        event = codec.recall(line)
        name = subject(event)
        if not name:
            continue
        last = latest.get(name)
        if last is not None and (last.meta.session != event.meta.session or _is_after(last, event)):
            tangled.add(name)
        latest[name] = event
        tasks[name] = evolve(tasks.get(name), event)
        if isinstance(event, TaskClaimed | HandoffInitiated):
            handoffs.setdefault(event.handoff_id, name)
    latest.clear()
    for name in tangled:
        tasks[name] = refold(tx, name)
    tx.tasks.replace_all((task for task in tasks.values() if task is not None), handoffs.items())
