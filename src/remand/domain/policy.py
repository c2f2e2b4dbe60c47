"""The rules that a team sets in `remand.toml`."""

from __future__ import annotations

from remand.domain.record import Record
from remand.domain.run import Budget

ASK, IGNORE = "ask", "ignore"
TASKS, ALL = "tasks", "all"


class SoloPolicy(Record, kw_only=True):
    """The policy for sessions without a task."""

    sessions: str = TASKS
    """`tasks`: only sessions with a task are measured; or `all`."""
    blocks: int = 3
    """How often a session is sent back per prompt of the user."""


class Policy(Record, kw_only=True):
    """All settings with their defaults. `lockout` is a number of rejections; 0 disables it, 1 is strict."""

    lockout_after: int = 1
    escalate_after_reviews: int = 3
    alert_after_gates: int = 3
    escalate_after_gates: int = 8
    max_invalid_rejections: int = 2
    lease_seconds: float = 1800.0
    deadline_seconds: float = 86_400.0
    """After this time an unseen question is repeated."""
    director: tuple[str, ...] = ("auto",)
    """`auto`, `human`, or a command of the user that answers valid rejections."""
    auto_reformulate: bool = False
    """Whether the automatic director also ends tasks rejected as infeasible; otherwise they wait for a person."""
    unconfirmed_no: str = ASK
    """`ask`: work with objections under untrusted keys is approved only after the user's answer; or `ignore`."""
    budget: Budget = Budget()
    """What the runs of one task may cost."""
    max_faults: int = 3
    """How many consecutive runs of a task may fail."""
    max_waiting_reviews: int = 0
    """How many submissions may wait for review, or be on their way, before no new work starts; 0: by team size."""
    open_pr: bool = False
    """Whether submitted work is pushed and shown as a draft pull request."""
    request_review: bool = False
    """Whether the pull request is marked as ready and reviewers are requested."""
    merge_on_approve: bool = False
    close_issue: bool = True
    """Whether the issue of a task is closed with it."""
    clock_skew_seconds: float = 600.0
    """How far events may be ahead of this machine's clock."""
    solo: SoloPolicy = SoloPolicy()
    adviser: tuple[str, ...] = ()
    """A command of the user that gives an opinion on each rejection: advice, never the decision."""

    @property
    def has_director_command(self) -> bool:
        """True if a command of the user is the director."""
        return self.director not in (("auto",), ("human",))

    @property
    def has_consultants(self) -> bool:
        """True if any command of the user is consulted about rejections."""
        return self.has_director_command or bool(self.adviser)
