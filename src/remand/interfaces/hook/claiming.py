"""Which task a session has just claimed, by the ledger's word."""

from __future__ import annotations

from remand.app.naming import locate
from remand.app.people import People
from remand.bootstrap.ledger import open_at
from remand.bootstrap.quick import Bound, Place
from remand.domain.instant import plus


def claimed_lately(place: Place, agent: str, ids: set[str], seconds: float) -> tuple[str, str] | None:
    """The task and agent of the latest claim that fits: by that agent, or of a task that was named."""
    opened = open_at(place)
    now = opened.ledger.clock.now()
    with opened.store.read() as view:
        own = People(view, opened.settings.rules().team).name(agent)
        held = [task for task in view.tasks.every() if task.claim is not None]
    fitting = [
        (task.claim.claimed_at, task.id, task.claim.agent)
        for task in held
        if task.claim is not None
        and plus(task.claim.claimed_at, seconds) > now
        and (task.claim.agent == own if own else task.id in ids)
    ]
    return max(fitting)[1:] if fitting else None


def resolved(place: Place, bound: Bound) -> Bound | None:
    """A session's task by its own id, where only an alias or the branch of its worktree is known."""
    with open_at(place).store.read() as view:
        if bound.task_id:
            task = view.tasks.get(locate(view, bound.task_id))
        else:
            held = (task for task in view.tasks.every() if task.branch == bound.branch and task.claim)
            task = next(held, None)
    if task is None:
        return None
    return Bound(task.id, bound.agent or (task.claim.agent if task.claim else ""))
