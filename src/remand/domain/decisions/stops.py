"""What it means that an agent stops while it holds a task, and what follows from stops with nothing to measure."""

from __future__ import annotations

from enum import StrEnum

from remand.domain import commands as c
from remand.domain.decisions.notices import ask_user
from remand.domain.events.event import Events
from remand.domain.events.work import IdleStopCounted
from remand.domain.record import Record
from remand.domain.task import Status, Task


class StopState(Record, kw_only=True):
    """What is known of a stop when it is answered."""

    agent: str = ""
    """Who stopped; empty when only the task is known."""
    commit: str = ""
    """The head of the branch."""
    uncommitted: tuple[str, ...] = ()
    has_fault: bool = False
    """The work cannot be looked at."""
    is_unreadable: bool = False
    """The host's call could not be read."""
    has_background_work: bool = False
    has_waited: bool = False
    """The session was already allowed to stop once because it waits for something."""


class StopMeaning(StrEnum):
    """What a stop is taken for."""

    END = "end"
    """The session may end: the task is not its own any more, or it has work of its own in the background."""
    WAIT = "wait"
    """The agent waits for what it has named; it may end once."""
    UNREADABLE = "unreadable"
    FAULT = "fault"
    UNCOMMITTED = "uncommitted"
    NOTHING_COMMITTED = "nothing_committed"
    DONE_CLAIM = "done_claim"
    """There are commits: they are measured."""


def stop_meaning(task: Task | None, stop: StopState) -> StopMeaning:
    """What the stop of an agent means for the task it holds."""
    claim = task.claim if task is not None else None
    if task is None or claim is None or task.status != Status.CLAIMED or stop.agent not in ("", claim.agent):
        return StopMeaning.END
    if stop.is_unreadable:
        return StopMeaning.UNREADABLE
    if stop.has_background_work:
        return StopMeaning.END
    if task.claims.waiting_for and not stop.has_waited:
        return StopMeaning.WAIT
    if stop.has_fault:
        return StopMeaning.FAULT
    if stop.uncommitted:
        return StopMeaning.UNCOMMITTED
    if stop.commit in ("", claim.base):
        return StopMeaning.NOTHING_COMMITTED
    return StopMeaning.DONE_CLAIM


def count_idle_stop(task: Task, command: c.CountIdleStop, context: c.CommandContext) -> Events:
    """Counts a stop with nothing to measure, in whatever host it happened; the last one of a row asks the user.

    A stop that is reported again is no other stop, and one of an earlier claim says nothing of this one.
    """
    claim = task.claim
    if (
        claim is None
        or claim.handoff_id != command.handoff_id
        or (command.key and command.key == claim.idle_key)
    ):
        return ()
    number = claim.idle_stops + 1
    counted = IdleStopCounted(
        task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, number=number, key=command.key
    )
    if number < context.facts.policy.escalate_after_gates:
        return (counted,)
    why = f"{claim.agent} stopped {number} times with nothing to measure"
    detail = f": {command.reason[:300]}" if command.reason else ""
    return (counted, ask_user(task, "gates", f"{why}{detail}", context))
