"""How much each agent of the team has in hand, and how much more it could take on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from remand.domain.instant import Instant
from remand.domain.roles import Role, Team
from remand.domain.task import Status, Task
from remand.ledger.store import Transaction


def room(view: Transaction, team: Team, now: Instant) -> tuple[tuple[str, int], ...]:
    """How many tasks more each agent could take on, in the team's order; less than none when it has too many.

    What it holds, what is reserved for it after a rejection, and what it reviews or directs now is in its hands.
    """
    tasks = {task.id: task for task in view.tasks.running()}
    for status in (Status.CLAIMED, Status.REJECTED):
        tasks |= {task.id: task for task in view.tasks.active(status)}
    held = Counter(team.actor(name).name for task in tasks.values() for name in set(_hands(task, now)))
    return tuple(
        (member.name, member.capacity - held[member.name])
        for member in team.members
        if Role.AGENT in member.roles
    )


def _hands(task: Task, now: Instant) -> Iterator[str]:
    """Whose hands a task is in."""
    if task.claim is not None:
        yield task.claim.agent
    yield from (run.agent for run in task.runs)
    offer = task.reserved_for(now)
    if offer is not None:
        yield offer.target
