"""Which task a session has just claimed, by the ledger's word."""

from __future__ import annotations

from remand.bootstrap.ledger import open_at
from remand.bootstrap.quick import Place
from remand.domain.instant import plus


def claimed_lately(place: Place, agent: str, ids: set[str], seconds: float) -> tuple[str, str] | None:
    """The task and agent of the latest claim that fits: by that agent, or of a task that was named."""
    opened = open_at(place)
    own = opened.settings.rules().team.actor(agent).name if agent else ""
    now = opened.ledger.clock.now()
    with opened.store.read() as view:
        held = [task for task in view.tasks.every() if task.claim is not None]
    fitting = [
        (task.claim.claimed_at, task.id, task.claim.agent)
        for task in held
        if task.claim is not None
        and plus(task.claim.claimed_at, seconds) > now
        and (task.claim.agent == own if own else task.id in ids)
    ]
    return max(fitting)[1:] if fitting else None
