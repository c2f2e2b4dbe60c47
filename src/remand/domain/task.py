"""A task's state, and the transition table: which events apply in which status, and what follows."""

from enum import StrEnum
from typing import Any

from remand.domain.events.catalogue import NATIVE
from remand.domain.events.event import Event
from remand.domain.forge import TaskForgeState
from remand.domain.gate.state import GateState
from remand.domain.instant import Instant, add_seconds, is_instant
from remand.domain.record import Record, update_parts
from remand.domain.run import Run, RunCosts


class RejectionSlip(Record, kw_only=True):
    """A rejection that only lacked a part, with the codes of the missing parts."""

    agent: str
    codes: tuple[str, ...]


class LastRejection(Record, kw_only=True):
    """The last rejection of the task by an agent, and how it was answered."""

    rejection_id: str
    handoff_id: str
    agent: str
    reason: str = ""
    """The reason's name."""
    is_valid: bool = True
    decision: str = ""
    """The decision's name; empty until a director answers."""
    message: str = ""
    """What the director told the agent when it overrode the rejection."""
    answer: tuple[str, int] = ("", 0)
    """The position in the log of the answer and of the events that followed from it: session and last number."""
    was_claimed: bool = False
    """True if the agent had accepted the handoff; False if it was only offered."""
    runner: str = ""
    """The ledger whose scheduler ran the agent; empty if none did."""
    base: str = ""
    """The tip of the base when the agent claimed the task."""
    is_appealed: bool = False
    """True if the rules overrode it, and the agent appealed to a director."""

    @property
    def is_pending(self) -> bool:
        """True until a director answers it, if it is valid or the agent has appealed."""
        return (self.is_valid or self.is_appealed) and not self.decision


class Objection(Record, kw_only=True):
    """An objection: the rejection of work on a task that an untrusted key signed."""

    signer: str
    work: str
    """The code tree or the commit that it names; empty if it names none."""
    at: Instant
    """The time of its latest event."""
    text: str = ""
    """Its text in one line."""


class Dismissal(Record, kw_only=True):
    """The user's answer to objections."""

    signer: str = ""
    """The key; empty for every such key."""
    works: tuple[str, ...] = ()
    """The code trees or commits that it concerns."""
    at: Instant


class Status(StrEnum):
    """The status of a task."""

    INCOMING = "incoming"
    CLAIMED = "claimed"
    PROVISIONAL = "provisional"
    DONE = "done"
    REJECTED = "rejected"
    NEEDS_CONTINUATION = "needs_continuation"
    FAILED = "failed"
    BLOCKED = "blocked"
    DEFERRED = "deferred"
    DECOMPOSED = "decomposed"
    INFEASIBLE = "infeasible"
    ESCALATED = "escalated"
    CANCELLED = "cancelled"


class Priority(StrEnum):
    """How urgent a task is; the order is the order of the queue."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


TERMINAL = frozenset({Status.DONE, Status.CANCELLED, Status.INFEASIBLE})
QUEUES = (Status.REJECTED, Status.NEEDS_CONTINUATION, Status.INCOMING)
CLAIMABLE = frozenset(QUEUES)
_OPEN = frozenset(Status) - TERMINAL

PRIORITIES = tuple(Priority)


class Transition(Record, kw_only=True):
    """One row of the transition table: the statuses in which an event applies, and the status that follows."""

    sources: frozenset[Status]
    target: Status | None
    """None: back to the queue from which the task came."""


def _transition(sources: frozenset[Status] | Status, target: Status | None) -> Transition:
    return Transition(sources=frozenset({sources}) if isinstance(sources, Status) else sources, target=target)


TRANSITIONS: dict[str, Transition] = {
    "task.claim": _transition(CLAIMABLE, Status.CLAIMED),
    "handoff.accept": _transition(CLAIMABLE, Status.CLAIMED),
    "task.heartbeat": _transition(Status.CLAIMED, Status.CLAIMED),
    "task.wait": _transition(Status.CLAIMED, Status.CLAIMED),
    "task.expire": _transition(Status.CLAIMED, None),
    "task.release": _transition(Status.CLAIMED, None),
    "task.continue": _transition(Status.CLAIMED, Status.NEEDS_CONTINUATION),
    "task.return": _transition(Status.CLAIMED, None),
    "task.fail": _transition(Status.CLAIMED, Status.FAILED),
    "task.submit": _transition(Status.CLAIMED, Status.PROVISIONAL),
    "handoff.complete": _transition(Status.CLAIMED, Status.PROVISIONAL),
    "handoff.resume": _transition(Status.BLOCKED, Status.CLAIMED),
    "gate.pass": _transition(Status.CLAIMED, Status.CLAIMED),
    "gate.reject": _transition(Status.CLAIMED, Status.CLAIMED),
    "gate.hold": _transition(Status.CLAIMED, Status.CLAIMED),
    "gate.error": _transition(Status.CLAIMED, Status.NEEDS_CONTINUATION),
    "task.idle": _transition(Status.CLAIMED, Status.CLAIMED),
    "review.approve": _transition(Status.PROVISIONAL, Status.DONE),
    "review.reject": _transition(Status.PROVISIONAL, Status.REJECTED),
    "review.retract": _transition(frozenset({Status.REJECTED, Status.ESCALATED}), Status.PROVISIONAL),
    "feedback.fetch": _transition(Status.CLAIMED, Status.CLAIMED),
    "task.reassign": _transition(CLAIMABLE | {Status.CLAIMED}, None),
    "task.defer": _transition(CLAIMABLE | {Status.CLAIMED, Status.BLOCKED}, Status.DEFERRED),
    "task.wake": _transition(Status.DEFERRED, None),
    "task.block": _transition(CLAIMABLE | {Status.CLAIMED}, Status.BLOCKED),
    "task.decompose": _transition(CLAIMABLE | {Status.CLAIMED, Status.BLOCKED}, Status.DECOMPOSED),
    "task.settle": _transition(Status.DECOMPOSED, Status.DONE),
    "task.infeasible": _transition(CLAIMABLE | {Status.CLAIMED, Status.BLOCKED}, Status.INFEASIBLE),
    "escalation.open": _transition(_OPEN - {Status.DECOMPOSED, Status.ESCALATED}, Status.ESCALATED),
    "escalation.answer": _transition(Status.ESCALATED, None),
    "task.reopen": _transition(
        frozenset({Status.FAILED, Status.BLOCKED, Status.DEFERRED, Status.ESCALATED}), None
    ),
    "task.cancel": _transition(_OPEN, Status.CANCELLED),
}
"""The statuses that each event needs, and the one to which it leads. `task.settle` leads to cancelled if no sub-task is done.

`review.retract` moves only a task whose last rejection it takes back; a task that continued stays where it is.
`escalation.answer` leads to provisional when it accepts a merge; the approval comes with it.
`task.reopen` also leads out of cancelled, when it names the event that it undoes: back to the queue, or to provisional.
"""


class Claim(Record, kw_only=True):
    """A lease on the task: its agent, its handoff and its end. Every claim of the task has another epoch."""

    handoff_id: str
    agent: str
    epoch: int
    claimed_at: Instant
    lease_expires_at: Instant
    base: str = ""
    """The tip of the base at that time."""
    read: int = 0
    """How many items of feedback the agent received under this claim."""
    runner: str = ""
    """The ledger whose scheduler runs the agent; empty if none does."""
    run_ended: str = ""
    """How its last run under this claim ended; empty during a run."""
    has_run: bool = False
    """True if a run under this claim has ended."""
    idle_stops: int = 0
    """How many times in a row the agent stopped with nothing to measure."""
    idle_key: str = ""
    """The key of the last of those stops."""
    repeated: str = ""
    """The rejected commit that was submitted again under this claim; the next time, the user is asked."""


class Offer(Record, kw_only=True):
    """A handoff that waits for its target agent, for which the task is reserved until the offer lapses."""

    handoff_id: str
    source: str
    target: str
    instructions: str = ""
    lapses_at: Instant


class Submission(Record, kw_only=True):
    """Submitted work: the commit, its code tree, and the agent that held the claim."""

    commit: str
    agent: str
    handoff_id: str
    at: Instant
    tree: str = ""
    base: str = ""
    """The tip of the base when the task was claimed."""
    is_asserted: bool = False
    """True if only the agent itself says who submitted it."""
    is_refuted: bool = False
    """True if a later verdict on the same code did not release it."""


class LockoutCause(Record, kw_only=True):
    """Why an agent is locked out: a review, its own rejection of the task, or a lockout on an ancestor; all empty if a member locked it out directly."""

    review_id: str = ""
    inherited_from: str = ""
    rejection_id: str = ""


class Lockout(Record, kw_only=True):
    """An agent that may no longer work on the task: who decided that, and why. It ends with its last cause."""

    agent: str
    by: str
    reason: str
    since: Instant
    review_id: str = ""
    """The review that caused it; empty if none did."""
    inherited_from: str = ""
    """The ancestor on which it was set, if any."""
    also: tuple[LockoutCause, ...] = ()
    """Further causes."""
    team: tuple[str, ...] = ()
    """The other members of the team when it was set."""
    rejection_id: str = ""
    """The agent's own rejection of the task that caused it."""

    @property
    def causes(self) -> tuple[LockoutCause, ...]:
        """All of its causes, the first one first."""
        first = LockoutCause(
            review_id=self.review_id, inherited_from=self.inherited_from, rejection_id=self.rejection_id
        )
        return (first, *self.also)


class Review(Record, kw_only=True):
    """One reviewer's rejection of a submission."""

    id: str
    reviewer: str
    is_retracted: bool = False


class ReviewRound(Record, kw_only=True):
    """A rejected submission, with every review that rejected it. It counts while at least one of them is in force."""

    commit: str
    agent: str
    """The author."""
    handoff_id: str
    tree: str = ""
    patch: str = ""
    reviews: tuple[Review, ...] = ()
    comments: tuple[str, ...] = ()
    """The ids of the forge comments that were passed on with it."""

    @property
    def is_in_force(self) -> bool:
        """True unless every review of it was retracted."""
        return not all(review.is_retracted for review in self.reviews)

    def is_rejected_by(self, reviewer: str) -> bool:
        """True while a rejection by that reviewer is in force."""
        return any(one.reviewer == reviewer and not one.is_retracted for one in self.reviews)

    def has_led_to(self, cause: LockoutCause) -> bool:
        """True if this rejection is a cause of the lockout. A lockout that a member set directly has no rejection as its cause."""
        return any(review.id == cause.review_id for review in self.reviews)


class Escalation(Record, kw_only=True):
    """A question that waits for the user."""

    id: str
    reason: str
    kind: str = ""
    opened_at: Instant
    deadline: Instant
    """When the user is notified again."""
    repeats: int = 0
    notified: tuple[str, ...] = ()
    """The channels that delivered the notice since it was last repeated."""
    acknowledged_by: str = ""
    gates: tuple[str, ...] = ()
    """The broken gates that it concerns, instead of this task."""


class OverrideNotice(Record, kw_only=True):
    """An action in the user's name of which the user has not been notified."""

    id: str
    text: str
    at: Instant
    notified: tuple[str, ...] = ()
    """The channels that delivered it."""


class EventConflict(Record, kw_only=True):
    """An event that arrived by a merge and could not be applied; it is kept and shown."""

    event_id: str
    event: str
    at: Instant
    why: str


class TaskDetails(Record, kw_only=True):
    """The description of the task, and who added it when."""

    created_at: Instant = ""
    created_by: str = ""
    scope: str = ""
    priority: Priority = Priority.MEDIUM
    category: str = ""
    skills: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    must_pass: tuple[str, ...] = ()
    """Patterns of the tests that prove the work."""


class TaskLinks(Record, kw_only=True):
    """How the task depends on others."""

    parent: str = ""
    """The task it was split from."""
    depends_on: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    """The tasks for which it was deferred."""
    children: tuple[str, ...] = ()
    superseded_by: str = ""


class ClaimHistory(Record, kw_only=True):
    """The claims on the task so far, and the offers of it."""

    offers: tuple[Offer, ...] = ()
    epoch: int = 0
    attempt_count: int = 0
    waiting_for: str = ""
    exits: tuple[tuple[str, str], ...] = ()
    """The agents that left the task without a submission, and how: each way once per agent."""


class TaskPeople(Record, kw_only=True):
    """The people and agents of the task by their roles, and those who may not work on it."""

    holders: tuple[str, ...] = ()
    """Everyone who ever held the task."""
    authors: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    fixer: str = ""
    """The user who took the task to fix it manually."""
    lockouts: tuple[Lockout, ...] = ()
    unlocked: tuple[str, ...] = ()
    """The agents that the user unlocked for this task, in spite of lockouts on its ancestors."""


class ReviewHistory(Record, kw_only=True):
    """The reviews of the task's submissions."""

    approved_commit: str = ""
    rejection_count: int = 0
    rounds: tuple[ReviewRound, ...] = ()
    feedback: int = 0
    """How many items of feedback exist for the next agent."""
    requested: tuple[str, ...] = ()
    """The reviewers who were asked to review the current submission."""
    sources: tuple[str, ...] = ()
    """The forge reviews that were imported, counted or not."""


class RejectionHistory(Record, kw_only=True):
    """The rejections of the task by agents."""

    last_rejection: LastRejection | None = None
    invalid_by: tuple[str, ...] = ()
    """The agents that rejected the task without a valid reason or gave up, a name for each time."""
    slips: tuple[RejectionSlip, ...] = ()
    """The rejections that were sent back only because a part was missing; they do not count as invalid."""
    accepted_by: tuple[str, ...] = ()
    """The agents whose rejections of the task were accepted, a name for each time."""


class TaskInbox(Record, kw_only=True):
    """Questions and notices for the user, and the user's answers."""

    escalation: Escalation | None = None
    """The last question to the user; open while the task is escalated."""
    conflicts: tuple[EventConflict, ...] = ()
    notices: tuple[OverrideNotice, ...] = ()
    """The overrides of which the user has not been notified."""
    dismissals: tuple[Dismissal, ...] = ()
    """The user's answers to objections of untrusted keys."""


class Task(Record, kw_only=True):
    """The state of one task, folded only from its own events."""

    id: str
    title: str
    details: TaskDetails = TaskDetails()
    branch: str = ""
    pr: int = 0
    status: Status = Status.INCOMING
    queue: Status = Status.INCOMING
    """The queue in which the task waits, or to which it returns when its claim ends."""
    claim: Claim | None = None
    submission: Submission | None = None
    links: TaskLinks = TaskLinks()
    claims: ClaimHistory = ClaimHistory()
    people: TaskPeople = TaskPeople()
    reviews: ReviewHistory = ReviewHistory()
    rejections: RejectionHistory = RejectionHistory()
    inbox: TaskInbox = TaskInbox()
    gates: GateState = GateState()
    runs: tuple[Run, ...] = ()
    """The runs of agents that work on it now."""
    spent: RunCosts = RunCosts()
    forge: TaskForgeState = TaskForgeState()
    is_legacy: bool = False
    """True if only GoT tools wrote it: its status follows their events."""

    @property
    def is_terminal(self) -> bool:
        """True if the task has ended."""
        return self.status in TERMINAL

    @property
    def blockers(self) -> tuple[str, ...]:
        """The tasks that must end before this one continues: dependencies, tasks for which it was deferred, sub-tasks."""
        return self.links.depends_on + self.links.waits_for + self.links.children

    @property
    def active_lockouts(self) -> tuple[Lockout, ...]:
        """The lockouts in force: they end with the task."""
        return () if self.status in (Status.DONE, Status.CANCELLED) else self.people.lockouts

    @property
    def inheritable_lockouts(self) -> tuple[Lockout, ...]:
        """The lockouts in force for tasks split from this one: they end when this one is done, not when it is cancelled."""
        return () if self.status == Status.DONE else self.people.lockouts

    @property
    def standing_rounds(self) -> tuple[ReviewRound, ...]:
        """The rejections that count."""
        return tuple(one for one in self.reviews.rounds if one.is_in_force)

    def find_rejected_round(self, handoff_id: str, tree: str) -> ReviewRound | None:
        """The rejection in force of that code under that claim; two ledgers may have imported one each."""
        rounds = reversed(self.standing_rounds)
        return next((one for one in rounds if (one.handoff_id, one.tree) == (handoff_id, tree)), None)

    def has_imported_review(self, source: str) -> bool:
        """True if that forge review was imported before, counted or not."""
        return bool(source) and source in self.reviews.sources

    def author_of(self, review_id: str) -> str:
        """The author of the rejected work; empty if there is no such rejection."""
        found = (one for one in self.reviews.rounds if any(review.id == review_id for review in one.reviews))
        return next((one.agent for one in found), "")

    @property
    def open_escalation(self) -> Escalation | None:
        """The question that waits for the user now."""
        return self.inbox.escalation if self.status == Status.ESCALATED else None

    @property
    def label(self) -> str:
        """The name of the task for people: its issue, or its id."""
        return task_label(self.id, self.details.aliases)

    @property
    def gates_asked_about(self) -> tuple[str, ...]:
        """The broken gates about which this task asks the user."""
        return self.open_escalation.gates if self.open_escalation else ()

    def slips_by(self, agent: str) -> list[tuple[str, ...]]:
        """The codes of the missing parts, for each rejection by an agent that only lacked parts."""
        return [slip.codes for slip in self.rejections.slips if slip.agent == agent]

    def is_locked_out(self, agent: str) -> bool:
        """True if the agent may not work on this task."""
        lockouts = self.people.lockouts
        return bool(lockouts) and any(lockout.agent == agent for lockout in lockouts)

    def is_locked_out_for(self, agent: str, rejection_id: str) -> bool:
        """True if exactly this rejection by the agent is among the causes of its lockout."""
        own = (lockout for lockout in self.people.lockouts if lockout.agent == agent)
        return any(cause.rejection_id == rejection_id != "" for lockout in own for cause in lockout.causes)

    def find_offer(self, handoff_id: str) -> Offer | None:
        """The open offer with that id."""
        return next((offer for offer in self.claims.offers if offer.handoff_id == handoff_id), None)

    def is_held_under(self, handoff_id: str, agent: str) -> bool:
        """True if the agent claimed the task under that handoff, or was offered it."""
        if self.claim is not None:
            return (self.claim.handoff_id, self.claim.agent) == (handoff_id, agent)
        offer = self.find_offer(handoff_id)
        return offer is not None and offer.target == agent

    def find_run(self, run_id: str) -> Run | None:
        """The active run with that id."""
        return next((run for run in self.runs if run.id == run_id), None)

    def reserved_for(self, now: Instant) -> Offer | None:
        """The offer that reserves the task at this time."""
        offers = self.claims.offers
        return next((offer for offer in reversed(offers) if offer.lapses_at > now), None) if offers else None


def task_label(task_id: str, aliases: tuple[str, ...]) -> str:
    """The name of a task for people."""
    return f"issue {aliases[0]}" if aliases else f"task {task_id}"


_PART_OF = {
    name: part
    for part, kind in (
        ("details", TaskDetails),
        ("links", TaskLinks),
        ("claims", ClaimHistory),
        ("people", TaskPeople),
        ("reviews", ReviewHistory),
        ("rejections", RejectionHistory),
        ("inbox", TaskInbox),
    )
    for name in kind.__struct_fields__
}


def make_task(**fields: Any) -> Task:
    """A task with these fields, each in its part."""
    own = {name: fields.pop(name) for name in ("id", "title")}
    return update_task(Task(**own), **fields)


def update_task(task: Task, **changes: Any) -> Task:
    """The task with changed fields, each in its part."""
    return update_parts(task, _PART_OF, changes)


MAX_CONFLICTS = 50
MAX_LEASE_SECONDS = 7 * 86400.0


def record_conflict(task: Task, event: Event, why: str) -> Task:
    conflict = EventConflict(event_id=event.meta.id, event=event.name, at=event.ts, why=why)
    return update_task(task, conflicts=(*task.inbox.conflicts, conflict)[-MAX_CONFLICTS:])


def with_name(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The names with another one, unless it is among them."""
    return names if name in names else (*names, name)


def advance_task(task: Task, event: Event, **changes: Any) -> Task:
    """Changes the status by the transition table, or records why the event could not apply."""
    sources, target = _TRANSITIONS_BY_EVENT[type(event)]
    if task.status not in sources:
        return record_conflict(task, event, f"the task was {task.status} at that time")
    status = target or task.queue
    if status in TERMINAL:
        changes |= {"claim": None, "offers": ()}
    changes["status"], changes["is_legacy"] = status, False
    return update_parts(task, _PART_OF, changes)


def bound_lease(until: Instant, since: Instant) -> Instant:
    """The end of a lease or offer as a valid time within its limit, whatever a file says."""
    if until[:10] == since[:10] and len(until) == len(since):
        return until
    latest = add_seconds(since, MAX_LEASE_SECONDS)
    return until if is_instant(until) and until < latest else latest


_TRANSITIONS_BY_EVENT: dict[type[Event], tuple[frozenset[Status], Status | None]] = {
    kind: (TRANSITIONS[name].sources, TRANSITIONS[name].target)
    for kind in NATIVE
    if (name := str(kind.__struct_config__.tag)) in TRANSITIONS
}
