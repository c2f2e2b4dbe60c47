"""The facts that are looked up for a command before it is decided, by what they are about."""

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
    """Unused ids for what a decision may create."""

    task_id: str = ""
    task_ids: tuple[str, ...] = ()
    handoff_id: str = ""
    review_id: str = ""
    rejection_id: str = ""


class TeamFacts(Record, kw_only=True):
    """Who is on the team, and whom the command names."""

    has_team: bool = False
    members: tuple[str, ...] = ()
    """The names of the team's members."""
    agents: tuple[Actor, ...] = ()
    """The members that are agents, in the team's order."""
    free_capacity: tuple[tuple[str, int], ...] = ()
    """How many more tasks each of them could take on."""
    target: Actor | None = None
    """The member that the command names."""
    next_agent: str = ""
    """Another agent that may take the task over; empty when the team has none."""
    look_alikes: tuple[tuple[str, str], ...] = ()
    """Each new name in the command that looks like a known one, and that one."""


class WorkFacts(Record, kw_only=True):
    """The commit that a command is about, and what git knows of it."""

    commit: str = ""
    tree: str = ""
    base: str = ""
    """The commit at the tip of the base."""
    base_branch: str = ""
    """The name of the base."""
    head_tree: str = ""
    """The code tree at the tip of the task's branch; empty when it has none, or it is the base."""
    changed: tuple[str, ...] | None = None
    """The paths that the commit changes; None when that is not known."""
    patch: str = ""
    """A fingerprint of what the commit changes; empty when that is not known."""
    control: tuple[ControlChange, ...] = ()
    """What the commit, or another that would be merged with it, changes below `.got` and may not."""
    same_change: str = ""
    """The finding about a change that was rejected before, under this task or another; empty when it is new."""
    commit_of: str = ""
    """Another task that the commit was submitted for; empty when there is none."""
    pr_of: str = ""
    """Another task that has the pull request; empty when there is none."""
    on_branch: bool | None = None
    """Whether the branch that work is submitted from has the commit; None when there is no such branch here."""
    branch_of: str = ""
    """Another open task that has that branch; empty when there is none."""


class LinkFacts(Record, kw_only=True):
    """What is known of the other tasks, aliases and handoffs that the task or the command names."""

    open_blockers: tuple[str, ...] = ()
    unknown_tasks: tuple[str, ...] = ()
    taken_aliases: tuple[str, ...] = ()
    cycle: tuple[str, ...] = ()
    closed_tasks: tuple[str, ...] = ()
    """Of the tasks that a text names, those that have ended."""
    child_statuses: tuple[str, ...] = ()
    is_handoff_taken: bool = False
    """The id that was chosen for a handoff belongs to another."""


class LockoutFacts(Record, kw_only=True):
    """Lockouts that other tasks or other names bring."""

    inherited: tuple[tuple[str, str], ...] = ()
    """Who is locked out of a task that this one was split from, and of which."""
    descendants: tuple[tuple[str, str], ...] = ()
    """The tasks split from this one, each with an agent whose lockout it has from here."""
    possible_identities: tuple[tuple[str, str], ...] = ()
    """Members who may be somebody that is locked out under a name which the team no longer has, with that name."""


class GateFacts(Record, kw_only=True):
    """The gates that hold for the commit, and which of them cannot be measured."""

    gates: tuple[str, ...] | None = None
    """The names of the configured gates; None when the configuration has no `[gates]` table."""
    gates_digest: str = ""
    """The digest of their rules."""
    is_enforced: bool = True
    outages: tuple[Outage, ...] = ()
    """When gates could not be measured for other tasks, and nothing was measured by them since."""
    asked_gates: tuple[str, ...] = ()
    """The gates that the user is asked about."""


class FilingFacts(Record, kw_only=True):
    """What a task rejection is compared with, and who answers it."""

    validation: ValidationFacts = ValidationFacts()
    record: dict[str, Any] = msgspec.field(default_factory=dict)
    """The rejection that is to be answered, as it was filed."""
    is_formal: bool = False
    """It only lacks a part, and was sent back for that."""
    decided_by: str = ""
    """Who answered it last; `auto` for the rules."""
    is_before_submission: bool = False
    """Work was submitted after it."""
    human_reason: str = ""
    """Why someone else than the automatic director has to answer a valid rejection; empty when it may."""
    distrust: str = ""
    """Why a rejection is not believed although nothing is wrong with it by itself: the task passes to another."""
    joins: tuple[str, ...] = ()
    """Open tasks that resolve the same blocker, which this agent has met before."""


class OwnDecision(Record, kw_only=True):
    """An answer or a cancellation, as far as it matters to whoever would undo it."""

    id: str
    """The id of the event that says it."""
    by: str
    at: Instant
    option: str = ""
    changed: tuple[str, ...] = ()
    """The other tasks that it made or changed."""
    was_under_review: bool = False
    has_forge_action: bool = False
    """Something was done on the forge since."""


class UndoFacts(Record, kw_only=True):
    """What could be undone, and what rests on it."""

    answer: OwnDecision | None = None
    """The last answer, as long as nothing has happened to the task since."""
    cancellation: OwnDecision | None = None
    """What ended the task, where that was a member's own decision."""
    dependents: tuple[str, ...] = ()
    """The tasks that have continued because this one has ended."""


class Facts(Record, kw_only=True):
    """Everything that `decide` may look at besides the task, the command and who gives it."""

    fresh: FreshIds = FreshIds()
    policy: Policy = Policy()
    team: TeamFacts = TeamFacts()
    work: WorkFacts = WorkFacts()
    links: LinkFacts = LinkFacts()
    lockouts: LockoutFacts = LockoutFacts()
    gate_rules: GateFacts = GateFacts()
    rejection: FilingFacts = FilingFacts()
    forge_actions: tuple[str, ...] = ()
    """What the policy lets be done on the forge."""
    missing: tuple[MissingLines, ...] = ()
    """Lines of the log that are missing and may concern the task, or one that it was split from."""
    undo: UndoFacts = UndoFacts()
    objections: tuple[Objection, ...] = ()
    """What keys that are not trusted say against the task and the user has not answered: for an approval, of this work."""


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
    """The facts with other values, each in the part that has it."""
    return update_parts(facts, _PART_OF, changes)
