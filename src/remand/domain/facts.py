"""The facts that are looked up for a command before `decide` is called, by subject."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain.access.team import Actor
from remand.domain.events.log import MissingLines
from remand.domain.gate.control_files import ControlChange
from remand.domain.gate.state import Outage
from remand.domain.instant import Instant
from remand.domain.policy import Policy
from remand.domain.record import Record, update_parts
from remand.domain.task import Objection
from remand.domain.validation.assessment import ValidationFacts


class FreshIds(Record, kw_only=True):
    """Unused ids for the tasks and handoffs that a decision may create."""

    task_id: str = ""
    task_ids: tuple[str, ...] = ()
    handoff_id: str = ""
    review_id: str = ""
    rejection_id: str = ""


class TeamFacts(Record, kw_only=True):
    """The members of the team, and the member that the command names."""

    has_team: bool = False
    members: tuple[str, ...] = ()
    """The names of the team's members."""
    agents: tuple[Actor, ...] = ()
    """The members that are agents, in the team's order."""
    free_capacity: tuple[tuple[str, int], ...] = ()
    """How many more tasks each of them may take."""
    target: Actor | None = None
    """The member that the command names."""
    next_agent: str = ""
    """Another agent that may take over the task; empty if the team has none."""
    look_alikes: tuple[tuple[str, str], ...] = ()
    """Each new name in the command that looks like a known one, with the known one."""


class WorkFacts(Record, kw_only=True):
    """The commit that a command names, and what git knows about it."""

    commit: str = ""
    tree: str = ""
    base: str = ""
    """The commit at the tip of the base."""
    base_branch: str = ""
    """The name of the base."""
    head_tree: str = ""
    """The code tree at the tip of the task's branch; empty if it has no branch, or that is the base."""
    changed: tuple[str, ...] | None = None
    """The paths that the commit changes; None if unknown."""
    patch: str = ""
    """A fingerprint of the changes of the commit; empty if unknown."""
    control: tuple[ControlChange, ...] = ()
    """The forbidden changes below `.got` by the commit, or by another one that would be merged with it."""
    same_change: str = ""
    """The finding that the change was rejected before, under this task or another; empty if it is new."""
    commit_of: str = ""
    """Another task for which the commit was submitted; empty if there is none."""
    pr_of: str = ""
    """Another task with the same pull request; empty if there is none."""
    on_branch: bool | None = None
    """Whether the branch of the submission contains the commit; None if there is no such branch here."""
    branch_of: str = ""
    """Another open task with that branch; empty if there is none."""


class LinkFacts(Record, kw_only=True):
    """The other tasks, aliases and handoffs that the task or the command names."""

    open_blockers: tuple[str, ...] = ()
    unknown_tasks: tuple[str, ...] = ()
    taken_aliases: tuple[str, ...] = ()
    cycle: tuple[str, ...] = ()
    closed_tasks: tuple[str, ...] = ()
    """The tasks that a text names and that have ended."""
    child_statuses: tuple[str, ...] = ()
    is_handoff_taken: bool = False
    """True if another handoff has the chosen id."""


class LockoutFacts(Record, kw_only=True):
    """Lockouts that follow from other tasks or other names."""

    inherited: tuple[tuple[str, str], ...] = ()
    """The agents that are locked out of an ancestor, each with that task."""
    descendants: tuple[tuple[str, str], ...] = ()
    """The tasks split from this one, each with an agent whose lockout it inherits from here."""
    possible_identities: tuple[tuple[str, str], ...] = ()
    """Members who may be a locked-out agent under a new name, each with the former name."""


class GateFacts(Record, kw_only=True):
    """The gates for the commit, and which of them cannot be measured."""

    gates: tuple[str, ...] | None = None
    """The names of the configured gates; None if the configuration has no `[gates]` table."""
    gates_digest: str = ""
    """The digest of their rules."""
    is_enforced: bool = True
    outages: tuple[Outage, ...] = ()
    """The outages of gates at other tasks since which no measurement has succeeded."""
    asked_gates: tuple[str, ...] = ()
    """The gates that an open question to the user concerns."""


class FilingFacts(Record, kw_only=True):
    """The facts for filing and answering a task rejection."""

    validation: ValidationFacts = ValidationFacts()
    record: dict[str, Any] = msgspec.field(default_factory=dict)
    """The rejection to answer, as it was filed."""
    is_formal: bool = False
    """True if it only lacked a part, and was sent back for that."""
    decided_by: str = ""
    """Who gave the last answer; `auto` for the rules."""
    is_before_submission: bool = False
    """True if work was submitted after it."""
    human_reason: str = ""
    """Why the automatic director may not answer a valid rejection; empty if it may."""
    distrust: str = ""
    """Why a rejection that is valid by itself is not accepted; the task then goes to another agent."""
    joins: tuple[str, ...] = ()
    """Open tasks that resolve the same blocker, which this agent reported before."""


class OwnDecision(Record, kw_only=True):
    """An answer or a cancellation that may be undone."""

    id: str
    """The id of its event."""
    by: str
    at: Instant
    option: str = ""
    changed: tuple[str, ...] = ()
    """The other tasks that it created or changed."""
    was_under_review: bool = False
    has_forge_action: bool = False
    """True if an action on the forge followed."""


class UndoFacts(Record, kw_only=True):
    """The decisions that could be undone, and what depends on them."""

    answer: OwnDecision | None = None
    """The last answer, if nothing has happened to the task since."""
    cancellation: OwnDecision | None = None
    """The decision of a member that ended the task, if any."""
    dependents: tuple[str, ...] = ()
    """The tasks that continued because this one ended."""


class Facts(Record, kw_only=True):
    """All facts that `decide` may use besides the task, the command and its actor."""

    fresh: FreshIds = FreshIds()
    policy: Policy = Policy()
    team: TeamFacts = TeamFacts()
    work: WorkFacts = WorkFacts()
    links: LinkFacts = LinkFacts()
    lockouts: LockoutFacts = LockoutFacts()
    gate_rules: GateFacts = GateFacts()
    rejection: FilingFacts = FilingFacts()
    forge_actions: tuple[str, ...] = ()
    """The actions that the policy permits on the forge."""
    missing: tuple[MissingLines, ...] = ()
    """The missing lines of the log that may concern the task or an ancestor."""
    undo: UndoFacts = UndoFacts()
    objections: tuple[Objection, ...] = ()
    """The unanswered objections of untrusted keys to the task; for an approval, only those to this work."""


_PART_OF = {
    name: part
    for part, kind in (
        ("fresh", FreshIds),
        ("team", TeamFacts),
        ("work", WorkFacts),
        ("links", LinkFacts),
        ("lockouts", LockoutFacts),
        ("gate_rules", GateFacts),
        ("rejection", FilingFacts),
    )
    for name in kind.__struct_fields__
}


def update_facts(facts: Facts, **changes: Any) -> Facts:
    """The facts with changed values, each in its part."""
    return update_parts(facts, _PART_OF, changes)
