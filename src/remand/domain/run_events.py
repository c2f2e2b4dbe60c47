"""Events of runs: an agent's process was started on a task, and how that ended."""

from __future__ import annotations

from enum import StrEnum

from remand.domain.event import ClaimEvent, TaskEvent


class Purpose(StrEnum):
    """What an agent is started for."""

    WORK = "work"
    REVIEW = "review"
    DIRECT = "direct"


class How(StrEnum):
    """How a run ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    """It was told to end: with the scheduler, or as its task was taken away."""
    LOST = "lost"
    """The scheduler was killed, and the agent with it."""
    NOT_STARTED = "not_started"
    EXHAUSTED = "exhausted"
    """The host ended it in the middle: no more turns."""


class RunStarted(TaskEvent, tag="run.start", kw_only=True):
    """An agent's process is about to be started on the task."""

    run_id: str
    agent: str
    purpose: str = Purpose.WORK
    handoff_id: str = ""
    """The claim it works under; empty when it reviews or directs."""
    tier: str = ""
    """What holds it: `bubblewrap`, or `plain`."""
    commit: str = ""
    """What it reviews."""


class RunEnded(TaskEvent, tag="run.end", kw_only=True):
    """The process has ended. Turns and cost are 0 where the host does not tell."""

    run_id: str
    agent: str
    how: str
    status: int = 0
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    """In US dollars."""
    is_fault: bool = False
    """It ended with an error and without having done what it was started for; nobody is blamed."""
    is_systems: bool = False
    """It is known to be the system's fault, and says nothing of the task."""
    detail: str = ""


class TaskReturned(ClaimEvent, tag="task.return", kw_only=True):
    """The system took a task back from a run that could not go on; without blame, its work kept."""

    reason: str = ""
    has_work: bool = False
    """There are commits or uncommitted files to go on from."""
