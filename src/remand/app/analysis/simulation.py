"""Simulates the decisions of another policy along the recorded history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from remand.app.rejection_facts import describe_named_task
from remand.domain import ids
from remand.domain.decisions import director
from remand.domain.decisions.rejections import task_context
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import (
    EscalationOpened,
    LockoutCleared,
    LockoutSet,
    ReviewRejected,
    ReviewRetracted,
)
from remand.domain.events.tasks import (
    HandoffAccepted,
    HandoffCompleted,
    HandoffInitiated,
    HandoffLapsed,
    HandoffRejected,
    HandoffRejectionInvalid,
    HandoffResumed,
    LeaseExpired,
    LeaseRenewed,
    RejectionAnswered,
    TaskClaimed,
    TaskContinued,
    TaskFailed,
    TaskReleased,
    TaskSubmitted,
    TaskWaiting,
)
from remand.domain.evolve import evolve
from remand.domain.instant import Instant, add_seconds, seconds_between
from remand.domain.policy import Policy
from remand.domain.reasons import RejectionReason
from remand.domain.record import Record
from remand.domain.rejection import TaskRejection
from remand.domain.task import ReviewRound, Task
from remand.domain.validation.assessment import EvidenceGrade, NamedTask, ValidationFacts
from remand.domain.validation.parsed_rejection import mentioned_names
from remand.domain.validation.validator import assess
from remand.ledger.order import order_key

MAX_NAMED = 200


class Snapshot:
    """Folds events in order and provides what a rule could have known at that point."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._aliases: dict[str, str] = {}

    def task(self, name: str) -> Task | None:
        """A task by its id or alias."""
        bare = ids.parse_task_id(name)
        return self._tasks.get(bare) if bare in self._tasks else self._tasks.get(self._aliases.get(name, ""))

    def apply(self, event: Event) -> bool:
        """Applies the next event; False if it could not be applied to its task."""
        name = event_task_id(event)
        before = self._tasks.get(name)
        after = evolve(before, event) if name else None
        if after is None:
            return False
        self._tasks[name] = after
        for alias in after.details.aliases:
            self._aliases.setdefault(alias, name)
        return before is None or after.inbox.conflicts == before.inbox.conflicts

    def facts(self, record: TaskRejection, task: Task, graded: tuple[EvidenceGrade, ...]) -> ValidationFacts:
        """What the ledger knew of the tasks that a rejection names, with the grades of the evidence at that time."""
        found = (self._describe_task(name, task) for name in mentioned_names(record)[:MAX_NAMED])
        return ValidationFacts(named=tuple(named for named in found if named is not None), graded=graded)

    def _describe_task(self, name: str, task: Task) -> NamedTask | None:
        known = self.task(name)
        is_behind = known is not None and self._waits_for(known, task.id)
        return describe_named_task(name, known, task, is_descendant=is_behind)

    def _waits_for(self, other: Task, target: str) -> bool:
        """True if the other task depends on the target or is a descendant of it, directly or indirectly."""
        seen: set[str] = set()
        ahead = [other.links.parent, *other.blockers]
        while ahead:
            name = ahead.pop()
            if name == target:
                return True
            task = self._tasks.get(name)
            if task is not None and name not in seen:
                seen.add(name)
                ahead += [task.links.parent, *task.blockers]
        return False


OVERRIDE, WAITS = "OVERRIDE", "waits for a director"
MAX_OUTCOMES = 1000
HELD, EXPIRED, LAPSED = "held", "expired", "lapsed"


class DecisionDifference(Record, kw_only=True, omit_defaults=False):
    """A decision that would differ; its kind is the policy's key, or `validator`."""

    ts: Instant
    task_id: str
    kind: str
    agent: str
    recorded: str
    simulated: str
    why: str


class Simulation(Record, kw_only=True):
    """The compared decisions and the differences."""

    events: int
    compared: dict[str, int]
    """The number of compared decisions of each kind."""
    differences: tuple[DecisionDifference, ...]

    @property
    def decisions(self) -> int:
        """The total number of compared decisions."""
        return sum(self.compared.values())

    @property
    def summary(self) -> dict[str, dict[str, int]]:
        """For each kind, the number of decisions and of differences."""
        different = Counter(difference.kind for difference in self.differences)
        return {
            kind: {"decisions": count, "different": different[kind]}
            for kind, count in sorted(self.compared.items())
        }


class PolicyChoice(NamedTuple):
    """One decision as recorded, and under the other policy."""

    kind: str
    agent: str
    recorded: str
    simulated: str
    why: str


class SimulatedLease(NamedTuple):
    """When an agent claimed a task or received an offer."""

    agent: str
    since: Instant
    is_offer: bool = False


class SimulationNotes:
    """The simulation's memory between decisions."""

    def __init__(self) -> None:
        self.invalid: Counter[tuple[str, str]] = Counter()
        """How often an agent rejected a task invalidly or gave up, as judged by the simulation."""
        self.leases: dict[str, SimulatedLease] = {}
        """Claims and offers by handoff that would still be active."""


class DecisionCase(NamedTuple):
    """An event to decide on, its task just before, and the other known facts."""

    event: Any
    task: Task
    outcomes: _Outcomes
    policy: Policy
    past: Snapshot
    notes: SimulationNotes

    @property
    def outcome(self) -> list[Event]:
        """The recorded decision of the same command."""
        return self.outcomes.of(self.event)


Rule = Callable[[DecisionCase], PolicyChoice | None]


def simulate(events: Iterable[Event], policy: Policy, since: Instant = "") -> Simulation:
    """Repeats every decision of the ledger under a policy; those before `since` are not reported."""
    ordered = sorted(events, key=order_key)
    outcomes = _Outcomes(ordered)
    past, notes = Snapshot(), SimulationNotes()
    compared: Counter[str] = Counter()
    differences: list[DecisionDifference] = []
    for event in ordered:
        name = event_task_id(event)
        task, has_applied = past.task(name), past.apply(event)
        if task is None or not has_applied or event.is_legacy:
            continue
        case = DecisionCase(event, task, outcomes, policy, past, notes)
        choices = [choice for rule in RULES.get(type(event), ()) if (choice := rule(case)) is not None]
        for choice in choices if event.ts >= since else ():
            compared[choice.kind] += 1
            if choice.recorded != choice.simulated:
                differences.append(DecisionDifference(ts=event.ts, task_id=name, **choice._asdict()))
    return Simulation(events=len(ordered), compared=dict(compared), differences=tuple(differences))


class _Outcomes:
    """The recorded decisions by position in the log."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._found = {
            (event.meta.session, event.meta.seq): event
            for event in events
            if isinstance(event, _DECISION_EVENTS)
        }

    def of(self, event: Event) -> list[Event]:
        """The decision after an event in the same command."""
        meta = event.meta
        places = ((meta.session, meta.seq + 1 + n) for n in range(min(meta.more, MAX_OUTCOMES)))
        return [self._found[at] for at in places if at in self._found]


_DECISION_EVENTS = (RejectionAnswered, LockoutSet, LockoutCleared, EscalationOpened)


def _director(case: DecisionCase) -> PolicyChoice | None:
    """`director`: who answers a rejection after it was judged by the current validator."""
    event, policy = case.event, case.policy
    if not event.rejection_id:
        return None
    record = TaskRejection.from_dict(event.rejection)
    judged = assess(record, task_context(case.task), case.past.facts(record, case.task, event.graded))
    was_valid = isinstance(event, HandoffRejected)
    answers = (other for other in case.outcome if isinstance(other, RejectionAnswered))
    recorded = next((answer.decision.decision_type for answer in answers), WAITS)
    kind = "director" if was_valid == judged.is_valid else "validator"
    if not judged.is_valid:
        is_formal = director.is_formal_slip(judged.issues, case.task.slips_by(event.agent))
        case.notes.invalid[case.task.id, event.agent] += not is_formal
        codes = ", ".join(issue.code for issue in judged.issues)
        return PolicyChoice(kind, event.agent, recorded, OVERRIDE, f"today's validator finds: {codes}")
    if policy.director == ("auto",) and _ends_task(record) and not policy.auto_reformulate:
        return PolicyChoice(
            kind, event.agent, recorded, WAITS, "a valid INFEASIBLE, auto_reformulate = false"
        )
    if policy.director == ("auto",) and record.reason is not None:
        decision = director.AUTOMATIC[record.reason].name
        return PolicyChoice(
            kind, event.agent, recorded, decision, f"a valid {record.reason.name}, director = auto"
        )
    who = "human" if policy.director == ("human",) else "a command, which a simulation does not run"
    return PolicyChoice(kind, event.agent, recorded, WAITS, f"valid, director = {who}")


def _ends_task(record: TaskRejection) -> bool:
    return record.reason is RejectionReason.INFEASIBLE


def _max_invalid_rejections(case: DecisionCase) -> PolicyChoice | None:
    """`max_invalid_rejections`: when an agent loses a task after invalid rejections or giving up."""
    agent, limit = case.event.agent, case.policy.max_invalid_rejections
    if isinstance(case.event, TaskFailed):
        case.notes.invalid[case.task.id, agent] += 1
    if case.task.is_locked_out(agent):
        return None
    times = case.notes.invalid[case.task.id, agent]
    recorded = _has_lockout(case.outcome, agent)
    if not times and not recorded:
        return None
    why = f"{times} invalid rejections of the task by {agent}, max_invalid_rejections = {limit}"
    words = ("keeps the task", "loses the task")
    return PolicyChoice("max_invalid_rejections", agent, words[recorded], words[times >= limit], why)


def _lockout(case: DecisionCase) -> PolicyChoice | None:
    """`lockout`: whether a review rejection locks out the author; the author's own rejections count."""
    task, after = case.task, case.policy.lockout_after
    agent = task.submission.agent if task.submission and _opens_round(case) else ""
    if not agent or task.is_locked_out(agent) or agent == task.people.fixer:
        return None
    count = _standing_rounds(task, agent) + 1
    words = ("not locked out", "locked out")
    recorded, simulated = words[_has_lockout(case.outcome, agent)], words[0 < after <= count]
    return PolicyChoice(
        "lockout", agent, recorded, simulated, f"review rejection {count}, {_lockout_setting(after)}"
    )


def _unlock(case: DecisionCase) -> PolicyChoice | None:
    """`lockout`: whether a retraction leaves too few rejections for a later lockout."""
    task, after = case.task, case.policy.lockout_after
    review_round = next(
        (one for one in task.reviews.rounds if _is_only_review(one, case.event.review_id)), None
    )
    agent = review_round.agent if review_round else ""
    lockout = next((one for one in task.people.lockouts if one.agent == agent and one.review_id), None)
    if review_round is None or lockout is None or all(map(review_round.has_led_to, lockout.causes)):
        return None
    left = _standing_rounds(task, agent) - 1
    recorded = any(isinstance(other, LockoutCleared) and other.agent == agent for other in case.outcome)
    words = ("stays locked out", "let back")
    why = f"{left} review rejections left, {_lockout_setting(after)}"
    return PolicyChoice("lockout", agent, words[recorded], words[left < (after or 1)], why)


def _opens_round(case: DecisionCase) -> bool:
    """False for a further review of work that was already sent back, which decides nothing."""
    task, source = case.task, case.event.source
    work = task.submission
    known = task.find_rejected_round(work.handoff_id, work.tree) if work else None
    return known is None and not (source and source in task.reviews.sources)


def _is_only_review(review_round: ReviewRound, review_id: str) -> bool:
    """True if a rejection rests on that review alone."""
    return [review.id for review in review_round.reviews if not review.is_retracted] == [review_id]


def _standing_rounds(task: Task, agent: str) -> int:
    return sum(one.agent == agent for one in task.standing_rounds)


def _lockout_setting(after: int) -> str:
    return f"lockout = {f'after {after}' if after else 'off'}"


def _escalate_after_reviews(case: DecisionCase) -> PolicyChoice | None:
    """`escalate_after_reviews`: whether a review rejection escalates the task to a human."""
    questions = [other.kind for other in case.outcome if isinstance(other, EscalationOpened)]
    if case.task.submission is None or not _opens_round(case) or set(questions) - {"reviews"}:
        return None
    count, after = len(case.task.standing_rounds) + 1, case.policy.escalate_after_reviews
    words = ("not escalated", "escalated")
    recorded = bool(questions)
    why = f"review rejection {count}, escalate_after_reviews = {after}"
    agent = case.task.submission.agent
    return PolicyChoice("escalate_after_reviews", agent, words[recorded], words[count >= after], why)


def _has_lockout(outcome: Sequence[Event], agent: str) -> bool:
    return any(isinstance(other, LockoutSet) and other.agent == agent for other in outcome)


def _start_lease(case: DecisionCase) -> PolicyChoice | None:
    """`lease`: an agent takes the task; taking an offer that would have expired is reported."""
    event = case.event
    choice = _continue_lease(case) if isinstance(event, HandoffAccepted) else None
    case.notes.leases[event.handoff_id] = SimulatedLease(event.agent, event.ts)
    return choice


def _start_offer(case: DecisionCase) -> PolicyChoice | None:
    """`lease`: an offer lasts as long as a lease."""
    event = case.event
    case.notes.leases[event.handoff_id] = SimulatedLease(event.target_agent, event.ts, is_offer=True)
    return None


def _renew_lease(case: DecisionCase) -> PolicyChoice | None:
    """`lease`: a heartbeat, in time or too late."""
    choice = _continue_lease(case)
    if case.event.handoff_id in case.notes.leases:
        case.notes.leases[case.event.handoff_id] = SimulatedLease(case.event.agent, case.event.ts)
    return choice


def _continue_lease(case: DecisionCase) -> PolicyChoice | None:
    """`lease`: an action of the agent on the task, in time or too late."""
    event = case.event
    lease = case.notes.leases.get(event.handoff_id)
    if lease is None:
        return None
    end = add_seconds(lease.since, case.policy.lease_seconds)
    if event.ts <= end:
        return PolicyChoice("lease", lease.agent, HELD, HELD, "")
    del case.notes.leases[event.handoff_id]
    silence = seconds_between(lease.since, event.ts)
    why = f"{silence:,.0f} s without an event, lease = {case.policy.lease_seconds:,.0f} s"
    why += "" if lease.is_offer else "; a heartbeat early in a lease leaves no event"
    return PolicyChoice("lease", lease.agent, HELD, f"{LAPSED if lease.is_offer else EXPIRED} at {end}", why)


def _end_lease(case: DecisionCase) -> PolicyChoice | None:
    """`lease`: a lease or offer expired, or would not have expired yet."""
    lease = case.notes.leases.pop(case.event.handoff_id, None)
    if lease is None:
        return None
    recorded = LAPSED if lease.is_offer else EXPIRED
    end = add_seconds(lease.since, case.policy.lease_seconds)
    simulated = recorded if end <= case.event.ts else f"{HELD} until {end}"
    return PolicyChoice(
        "lease", lease.agent, recorded, simulated, f"lease = {case.policy.lease_seconds:,.0f} s"
    )


RULES: dict[type[Event], tuple[Rule, ...]] = {
    HandoffRejected: (_continue_lease, _director, _max_invalid_rejections),
    HandoffRejectionInvalid: (_continue_lease, _director, _max_invalid_rejections),
    TaskFailed: (_continue_lease, _max_invalid_rejections),
    ReviewRejected: (_lockout, _escalate_after_reviews),
    ReviewRetracted: (_unlock,),
    HandoffInitiated: (_start_offer,),
    TaskClaimed: (_start_lease,),
    HandoffAccepted: (_start_lease,),
    HandoffResumed: (_start_lease,),
    LeaseRenewed: (_renew_lease,),
    TaskWaiting: (_continue_lease,),
    TaskReleased: (_continue_lease,),
    TaskContinued: (_continue_lease,),
    TaskSubmitted: (_continue_lease,),
    HandoffCompleted: (_continue_lease,),
    LeaseExpired: (_end_lease,),
    HandoffLapsed: (_end_lease,),
}
"""The decisions made at each event. A new kind of decision is a function and a row here."""

NOT_SIMULATED = ("alert_after_gates", "escalate_after_gates")
"""Policy keys for which the ledger has no events yet."""
