"""What was measured for a command before it is decided."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain.access.team import Actor
from remand.domain.events.log import MissingLines
from remand.domain.gate.control_files import ControlChange
from remand.domain.gate.state import Outage
from remand.domain.record import Record
from remand.domain.run import Budget
from remand.domain.task import Objection
from remand.domain.validation.assessment import ValidationFacts


class Facts(Record, kw_only=True):
    """What was measured for a command before it is decided."""

    fresh_task_id: str = ""
    fresh_handoff_id: str = ""
    lease_seconds: float = 1800.0
    open_blockers: tuple[str, ...] = ()
    unknown_tasks: tuple[str, ...] = ()
    taken_aliases: tuple[str, ...] = ()
    cycle: tuple[str, ...] = ()
    has_team: bool = False
    target: Actor | None = None
    commit: str = ""
    tree: str = ""
    gates: tuple[str, ...] | None = None
    """The names of the configured gates; None when the configuration has no `[gates]` table."""
    policy: str = ""
    """The digest of the gates' rules that hold for the commit."""
    base: str = ""
    """The commit at the tip of the base."""
    is_enforced: bool = True
    alert_after_gates: int = 3
    escalate_after_gates: int = 8
    closed_tasks: tuple[str, ...] = ()
    """Of the tasks that a text names, those that have ended."""
    lockout_after: int = 1
    """After how many rejections of its work an agent is locked out; 0: never."""
    escalate_after_reviews: int = 3
    deadline_seconds: float = 86_400.0
    """How long a question may wait before the user is told again."""
    agents: tuple[Actor, ...] = ()
    """The members of the team that are agents, in its order."""
    room: tuple[tuple[str, int], ...] = ()
    """How many tasks more each of them could take on."""
    inherited: tuple[tuple[str, str], ...] = ()
    """Who is locked out of a task that this one was cut from, and of which."""
    heirs: tuple[tuple[str, str], ...] = ()
    """The tasks cut from this one, each with an agent whose lockout it has from here."""
    changed: tuple[str, ...] | None = None
    """The paths that the commit changes; None when that is not known."""
    patch: str = ""
    """A fingerprint of what the commit changes; empty when that is not known."""
    control: tuple[ControlChange, ...] = ()
    """What the commit, or another that would be merged with it, changes below `.got` and may not."""
    same_change: str = ""
    """The name of the finding about a change that was rejected before, under this task or another; empty when it is new."""
    commit_of: str = ""
    """Another task that the commit was handed in for; empty when there is none."""
    pr_of: str = ""
    """Another task that has the pull request; empty when there is none."""
    on_branch: bool | None = None
    """Whether the branch that work is handed in from has the commit; None when there is no such branch here."""
    branch_of: str = ""
    """Another open task that has that branch; empty when there is none."""
    is_handoff_taken: bool = False
    """The id that was chosen for a handoff belongs to another."""
    base_branch: str = ""
    """The name of the base."""
    head_tree: str = ""
    """The code tree at the tip of the task's branch; empty when it has none, or it is the base."""
    fresh_review_id: str = ""
    child_statuses: tuple[str, ...] = ()
    fresh_task_ids: tuple[str, ...] = ()
    """Ids for the tasks that a decision may create."""
    fresh_rejection_id: str = ""
    validation: ValidationFacts = ValidationFacts()
    rejection: dict[str, Any] = msgspec.field(default_factory=dict)
    """The rejection that is to be answered, as it was filed."""
    director: str = "auto"
    """`auto`, or why someone else has to answer a valid rejection later."""
    distrust: str = ""
    """Why a rejection is not believed although nothing is wrong with it by itself: the task goes on to another."""
    joins: tuple[str, ...] = ()
    """Open tasks that resolve the same blocker, which this agent has met before."""
    auto_reformulate: bool = False
    """True when the automatic director may end a task that is called infeasible."""
    max_invalid_rejections: int = 2
    outages: tuple[Outage, ...] = ()
    """When gates could not be measured for other tasks, and nothing was measured by them since."""
    asked_gates: tuple[str, ...] = ()
    """The gates that the user is asked about."""
    budget: Budget = Budget()
    max_faults: int = 3
    """How many runs in a row may fail before the user is asked."""
    acts: tuple[str, ...] = ()
    """What the policy lets be done on the forge."""
    missing: tuple[MissingLines, ...] = ()
    """Lines of the log that are missing and may concern the task, or one that it was cut from."""
    members: tuple[str, ...] = ()
    """The names of the team's members."""
    may_be: tuple[tuple[str, str], ...] = ()
    """Members who may be somebody that is locked out under a name which the team does not have any more, with that name."""
    look_alikes: tuple[tuple[str, str], ...] = ()
    """Each new name in the ask that looks like a known one, and that one."""
    next_agent: str = ""
    """Another agent that may take the task over; empty when the team has none."""
    objections: tuple[Objection, ...] = ()
    """What keys that are not trusted say against the task and the user has not answered: for an approval, of this work."""
