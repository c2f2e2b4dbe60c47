"""The rules a team sets for itself in `remand.toml`."""

from __future__ import annotations

from remand.domain.record import Record
from remand.domain.run import Budget

ASK, IGNORE = "ask", "ignore"
TASKS, ALL = "tasks", "all"


class SoloPolicy(Record, kw_only=True):
    """What holds for sessions without a task."""

    sessions: str = TASKS
    """`tasks`: sessions that hold one are measured; or `all`."""
    blocks: int = 3
    """How often a session is sent back for each prompt of the user."""


class Policy(Record, kw_only=True):
    """What may be set, with its defaults. Lockout after so many rejections; 0 is off, 1 is strict."""

    lockout_after: int = 1
    escalate_after_reviews: int = 3
    alert_after_gates: int = 3
    escalate_after_gates: int = 8
    max_invalid_rejections: int = 2
    lease_seconds: float = 1800.0
    deadline_seconds: float = 86_400.0
    """After this time a question nobody has seen is put to the user again."""
    director: tuple[str, ...] = ("auto",)
    """`auto`, `human`, or a command of the user's that answers valid rejections."""
    auto_reformulate: bool = False
    """The automatic director also ends tasks that are called infeasible; otherwise they wait for someone who understands."""
    unconfirmed_no: str = ASK
    """`ask`: work that a key which is not trusted objects to is approved only after the user's answer; or `ignore`."""
    budget: Budget = Budget()
    """What the runs of one task may cost."""
    max_faults: int = 3
    """How many runs of a task may fail in a row."""
    max_waiting_reviews: int = 0
    """How many submissions may wait for review, or be on their way there, before no new work is begun; 0: as suits the team."""
    open_pr: bool = False
    """Submitted work is pushed, and shown as a draft pull request."""
    request_review: bool = False
    """The pull request is made ready, and the reviewers are asked."""
    merge_on_approve: bool = False
    close_issue: bool = True
    """The issue that a task was made from is closed with it."""
    clock_skew_seconds: float = 600.0
    """How far the times of events may be ahead of this machine's clock."""
    solo: SoloPolicy = SoloPolicy()
    adviser: tuple[str, ...] = ()
    """A command of the user's that gives an opinion on each rejection; advice, never the verdict."""

    @property
    def has_director_command(self) -> bool:
        """True when a command of the user's directs."""
        return self.director not in (("auto",), ("human",))

    @property
    def has_consultants(self) -> bool:
        """True when a command of the user's is to be asked about rejections."""
        return self.has_director_command or bool(self.adviser)
