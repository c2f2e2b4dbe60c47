"""Short ways to say that work was reviewed: rejections, questions to the user, and what a review did."""

from __future__ import annotations

from typing import Any

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.task import Escalation, Review, Round, Task
from remand.testing.builders import H1, LATER, NOW, SHA, T1, TREE, World, added, claimed, given, handed_in

V1, V2, V3 = "V-1", "V-2", "V-3"
E1 = "E-000000000001"
LEAKS = e.Finding(text="It leaks", path="roof.py", line=7)
NIT = e.Finding(text="Odd colour", is_blocking=False)


def a_round(*reviews: str, agent: str = "Alice", handoff_id: str = H1, **fields: Any) -> Round:
    """A rejection of what an agent handed in under a handoff, by Lead's reviews of these ids; all stand."""
    made = tuple(Review(id=name, reviewer="Lead") for name in reviews or (V1,))
    work = {"commit": SHA, "tree": TREE, "agent": agent, "handoff_id": handoff_id, "reviews": made}
    return Round(**{**work, **fields})


def an_escalation(kind: str = "asked", **fields: Any) -> Escalation:
    """A question that waits for the user, as long as the task is escalated."""
    standard = {"id": E1, "reason": "What now?", "opened_at": NOW, "deadline": LATER}
    return Escalation(**{**standard, "kind": kind, **fields})


def rejected(review_id: str = V1, reviewer: str = "Lead", **fields: Any) -> e.ReviewRejected:
    """A reviewer sent the work back."""
    standard = {"task_id": T1, "commit": SHA, "tree": TREE, "findings": (LEAKS,)}
    return e.ReviewRejected(**{**standard, "review_id": review_id, "reviewer": reviewer, **fields})


def retracted(review_id: str = V1, reviewer: str = "Lead") -> e.ReviewRetracted:
    """A rejection was taken back."""
    return e.ReviewRetracted(task_id=T1, review_id=review_id, reviewer=reviewer, reason="It was right")


def locked_out(agent: str = "Alice", review_id: str = V1, **fields: Any) -> e.LockoutSet:
    """An agent was locked out, for a rejection unless its id is empty."""
    return e.LockoutSet(task_id=T1, agent=agent, reason="It leaks", review_id=review_id, **fields)


def after_review(*events: e.Event) -> Task:
    """The task that these events led to, after Alice had handed in her work."""
    return given(added(), claimed(), *handed_in(), *events)


def send_back(
    world: World, task_id: str, by: str, commit: str, reviewer: str = "user", *, text: str = "It leaks"
) -> Task:
    """An agent claims a task and hands a commit in, which a reviewer rejects."""
    world.claim(task_id, by)
    world.submit(task_id, by, commit)
    ask = c.RejectReview(task_id=task_id, commit=commit, findings=(e.Finding(text=text),))
    return world.ask(ask, reviewer).task
