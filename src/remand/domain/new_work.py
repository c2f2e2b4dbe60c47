"""Whether what is handed in is work at all, and not what was rejected before."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain.amending import rejected_change
from remand.domain.refusals import Refused
from remand.domain.task import Claim, Task


def require_own_commit(task: Task, claim: Claim, command: c.Command) -> None:
    """Refuses an agent the commit that the base was at when it claimed, or is at now and the task has its own branch.

    People may hand in what needs no commit: without gates nothing is measured, and a reviewer looks at it.
    """
    facts = command.facts
    if not command.actor.confined:
        return
    base = "" if task.branch in ("", facts.base_branch) else facts.base
    if facts.commit and facts.commit in (claim.base, base):
        raise Refused(
            "nothing_committed",
            f"{facts.commit[:12]} is no work on task {task.id}: the base has it already. Commit the work, then claim done.",
        )


def require_new_work(task: Task, facts: c.Facts) -> None:
    """Refuses a change that was rejected before, as long as the user has not let it pass.

    The very commit that was rejected is work that was not committed yet: nobody has to be asked about that.
    """
    name = facts.same_change or rejected_change(task, facts.tree, facts.patch)
    if not name or is_let_pass(task, name, facts.tree):
        return
    if facts.is_enforced and any(one.commit == facts.commit for one in task.standing_rounds):
        raise Refused(
            "nothing_committed",
            f"{facts.commit[:12]} is the commit that was rejected. Commit what was changed since, then claim done.",
        )
    raise Refused(
        "not_measured", f"{facts.commit[:12]} changes what a rejected submission of {task.label} changed."
    )


def is_let_pass(task: Task, name: str, tree: str) -> bool:
    """True when the user let a rejected change pass, or nothing is stopped where it was measured."""
    gating = task.gating
    return name in gating.accepted or (gating.is_released and name in gating.held and gating.tree == tree)
