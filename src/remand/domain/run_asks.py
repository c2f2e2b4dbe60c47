"""What the scheduler asks: give an agent a task, begin and end its runs. None of it comes through a door."""

from __future__ import annotations

from remand.domain.ask import Ask, TaskAsk
from remand.domain.run_events import How, Purpose


class AssignTask(Ask, kw_only=True):
    """Claim a task for an agent and begin its run, in one; with no id the next one that suits the agent."""

    agent: str
    run_id: str
    task_id: str = ""
    tier: str = ""


class StartRun(TaskAsk, kw_only=True):
    """Begin another run: of the agent that holds the task, or of a reviewer or director."""

    agent: str
    run_id: str
    purpose: Purpose = Purpose.WORK
    tier: str = ""


class EndRun(TaskAsk, kw_only=True):
    """Note how a run ended."""

    run_id: str
    how: How
    status: int = 0
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    detail: str = ""
    has_work: bool = False
    """There are commits or uncommitted files of it."""
    is_systems: bool = False
    """It is known to be the system's fault: nothing is counted against the task either."""
    is_answered: bool = False
    """It did what it was started for, whatever its exit status."""


class CheckStaff(TaskAsk, kw_only=True):
    """Ask the user, should nobody on the team be left for the task, or its agent have given it up."""
