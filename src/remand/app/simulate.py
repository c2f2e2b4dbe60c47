"""What another policy would have decided, one decision after the other along the recorded history.

It makes up no other future: each decision is taken on what had really happened by then, and what would have
followed from a different one is not followed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from remand.app.past import Past
from remand.domain import director
from remand.domain import events as e
from remand.domain.answers import context
from remand.domain.instant import Instant, moment, plus
from remand.domain.policy import Policy
from remand.domain.reasons import RejectionReason
from remand.domain.record import Record
from remand.domain.rejection import TaskRejection
from remand.domain.task import Round, Task
from remand.domain.validation.validator import assess
from remand.ledger.order import place

OVERRIDE, WAITS = "OVERRIDE", "waits for a director"
MAX_OUTCOMES = 1000
HELD, EXPIRED, LAPSED = "held", "expired", "lapsed"


class Difference(Record, kw_only=True, omit_defaults=False):
    """A decision that would have been another one; its kind is the key of the policy, or `validator`."""

    ts: Instant
    task_id: str
    kind: str
    agent: str
    recorded: str
    simulated: str
    why: str


class Simulation(Record, kw_only=True):
    """What was looked at, and what would have been different."""

    events: int
    compared: dict[str, int]
    """How many decisions of each kind were compared."""
    differences: tuple[Difference, ...]

    @property
    def decisions(self) -> int:
        """How many decisions were compared in all."""
        return sum(self.compared.values())

    @property
    def summary(self) -> dict[str, dict[str, int]]:
        """Of each kind, how many decisions there were and how many would have been different."""
        different = Counter(found.kind for found in self.differences)
        return {
            kind: {"decisions": count, "different": different[kind]}
            for kind, count in sorted(self.compared.items())
        }


class Choice(NamedTuple):
    """One decision: as it was recorded, and as the other policy takes it."""

    kind: str
    agent: str
    recorded: str
    simulated: str
    why: str


class Lease(NamedTuple):
    """Since when an agent holds a task, or is offered it."""

    agent: str
    since: Instant
    is_offer: bool = False


class Notes:
    """What the simulation remembers from one decision to the next."""

    def __init__(self) -> None:
        self.invalid: Counter[tuple[str, str]] = Counter()
        """How often an agent has rejected a task invalidly, or given up, by the judgement of the simulation."""
        self.leases: dict[str, Lease] = {}
        """The claims and offers by handoff that would still stand."""


class Case(NamedTuple):
    """An event to decide on: the task just before, and what else was known."""

    event: Any
    task: Task
    outcomes: _Outcomes
    policy: Policy
    past: Past
    notes: Notes

    @property
    def outcome(self) -> list[e.Event]:
        """What the same command decided."""
        return self.outcomes.of(self.event)


Rule = Callable[[Case], Choice | None]


def simulate(events: Iterable[e.Event], policy: Policy, since: Instant = "") -> Simulation:
    """Takes every decision of the ledger again under a policy; those before `since` are not told."""
    ordered = sorted(events, key=place)
    outcomes = _Outcomes(ordered)
    past, notes = Past(), Notes()
    compared: Counter[str] = Counter()
    found: list[Difference] = []
    for event in ordered:
        name = e.subject(event)
        task, has_applied = past.task(name), past.follow(event)
        if task is None or not has_applied or event.is_legacy:
            continue
        case = Case(event, task, outcomes, policy, past, notes)
        choices = [choice for rule in RULES.get(type(event), ()) if (choice := rule(case)) is not None]
        for choice in choices if event.ts >= since else ():
            compared[choice.kind] += 1
            if choice.recorded != choice.simulated:
                found.append(Difference(ts=event.ts, task_id=name, **choice._asdict()))
    return Simulation(events=len(ordered), compared=dict(compared), differences=tuple(found))


class _Outcomes:
    """The recorded decisions, found by the place of their events in the log."""

    def __init__(self, events: Iterable[e.Event]) -> None:
        self._found = {
            (event.meta.session, event.meta.seq): event for event in events if isinstance(event, _DECIDED)
        }

    def of(self, event: e.Event) -> list[e.Event]:
        """What was decided in the command that led to an event, after it."""
        meta = event.meta
        places = ((meta.session, meta.seq + 1 + n) for n in range(min(meta.more, MAX_OUTCOMES)))
        return [self._found[at] for at in places if at in self._found]


_DECIDED = (e.RejectionAnswered, e.LockoutSet, e.LockoutCleared, e.EscalationOpened)


def _director(case: Case) -> Choice | None:
    """`director`: who answers a rejection, after today's validator has judged it."""
    event, policy = case.event, case.policy
    if not event.rejection_id:
        return None
    record = TaskRejection.from_dict(event.rejection)
    judged = assess(record, context(case.task), case.past.world(record, case.task, event.graded))
    was_valid = isinstance(event, e.HandoffRejected)
    answers = (other for other in case.outcome if isinstance(other, e.RejectionAnswered))
    recorded = next((answer.decision.decision_type for answer in answers), WAITS)
    kind = "director" if was_valid == judged.is_valid else "validator"
    if not judged.is_valid:
        is_formal = director.is_formal_slip(judged.issues, case.task.slips_by(event.agent))
        case.notes.invalid[case.task.id, event.agent] += not is_formal
        codes = ", ".join(issue.code for issue in judged.issues)
        return Choice(kind, event.agent, recorded, OVERRIDE, f"today's validator finds: {codes}")
    if policy.director == ("auto",) and _ends_task(record) and not policy.auto_reformulate:
        return Choice(kind, event.agent, recorded, WAITS, "a valid INFEASIBLE, auto_reformulate = false")
    if policy.director == ("auto",) and record.reason is not None:
        decision = director.AUTOMATIC[record.reason].name
        return Choice(kind, event.agent, recorded, decision, f"a valid {record.reason.name}, director = auto")
    who = "human" if policy.director == ("human",) else "a command, which a simulation does not run"
    return Choice(kind, event.agent, recorded, WAITS, f"valid, director = {who}")


def _ends_task(record: TaskRejection) -> bool:
    return record.reason is RejectionReason.INFEASIBLE


def _max_invalid_rejections(case: Case) -> Choice | None:
    """`max_invalid_rejections`: when an agent loses a task that it rejects without cause, or gives up."""
    agent, limit = case.event.agent, case.policy.max_invalid_rejections
    if isinstance(case.event, e.TaskFailed):
        case.notes.invalid[case.task.id, agent] += 1
    if case.task.is_locked_out(agent):
        return None
    times = case.notes.invalid[case.task.id, agent]
    recorded = _is_set(case.outcome, agent)
    if not times and not recorded:
        return None
    why = f"{times} invalid rejections of the task by {agent}, max_invalid_rejections = {limit}"
    words = ("keeps the task", "loses the task")
    return Choice("max_invalid_rejections", agent, words[recorded], words[times >= limit], why)


def _lockout(case: Case) -> Choice | None:
    """`lockout`: whether a review rejection locks the author out; it counts the author's own."""
    task, after = case.task, case.policy.lockout_after
    agent = task.submission.agent if task.submission and _opens_round(case) else ""
    if not agent or task.is_locked_out(agent) or agent == task.fixer:
        return None
    count = _rounds(task, agent) + 1
    words = ("not locked out", "locked out")
    recorded, simulated = words[_is_set(case.outcome, agent)], words[0 < after <= count]
    return Choice("lockout", agent, recorded, simulated, f"review rejection {count}, {_said(after)}")


def _let_back(case: Case) -> Choice | None:
    """`lockout`: whether a retraction leaves too few rejections for a lockout that followed from later ones."""
    task, after = case.task, case.policy.lockout_after
    found = next((one for one in task.rounds if _is_last(one, case.event.review_id)), None)
    agent = found.agent if found else ""
    lockout = next((one for one in task.lockouts if one.agent == agent and one.review_id), None)
    if found is None or lockout is None or all(map(found.has_led_to, lockout.causes)):
        return None
    left = _rounds(task, agent) - 1
    recorded = any(isinstance(other, e.LockoutCleared) and other.agent == agent for other in case.outcome)
    words = ("stays locked out", "let back")
    why = f"{left} review rejections left, {_said(after)}"
    return Choice("lockout", agent, words[recorded], words[left < (after or 1)], why)


def _opens_round(case: Case) -> bool:
    """False for a further review of work that was sent back already: with it nothing is decided."""
    task, source = case.task, case.event.source
    work = task.submission
    known = task.sent_back(work.handoff_id, work.tree) if work else None
    return known is None and not (source and source in task.sources)


def _is_last(one: Round, review_id: str) -> bool:
    """True when a rejection stands by that review alone."""
    return [review.id for review in one.reviews if not review.is_retracted] == [review_id]


def _rounds(task: Task, agent: str) -> int:
    return sum(one.agent == agent for one in task.standing_rounds)


def _said(after: int) -> str:
    return f"lockout = {f'after {after}' if after else 'off'}"


def _escalate_after_reviews(case: Case) -> Choice | None:
    """`escalate_after_reviews`: whether a review rejection brings the task before a human."""
    questions = [other.kind for other in case.outcome if isinstance(other, e.EscalationOpened)]
    if case.task.submission is None or not _opens_round(case) or set(questions) - {"reviews"}:
        return None
    count, after = len(case.task.standing_rounds) + 1, case.policy.escalate_after_reviews
    words = ("not escalated", "escalated")
    recorded = bool(questions)
    why = f"review rejection {count}, escalate_after_reviews = {after}"
    agent = case.task.submission.agent
    return Choice("escalate_after_reviews", agent, words[recorded], words[count >= after], why)


def _is_set(outcome: Sequence[e.Event], agent: str) -> bool:
    return any(isinstance(other, e.LockoutSet) and other.agent == agent for other in outcome)


def _lease_begins(case: Case) -> Choice | None:
    """`lease`: an agent takes the task; an offer that it took later than it would have lapsed is told."""
    event = case.event
    told = _lease_goes_on(case) if isinstance(event, e.HandoffAccepted) else None
    case.notes.leases[event.handoff_id] = Lease(event.agent, event.ts)
    return told


def _offer_begins(case: Case) -> Choice | None:
    """`lease`: an offer stands as long as a lease."""
    event = case.event
    case.notes.leases[event.handoff_id] = Lease(event.target_agent, event.ts, is_offer=True)
    return None


def _lease_renewed(case: Case) -> Choice | None:
    """`lease`: a heartbeat, which comes in time or too late."""
    told = _lease_goes_on(case)
    if case.event.handoff_id in case.notes.leases:
        case.notes.leases[case.event.handoff_id] = Lease(case.event.agent, case.event.ts)
    return told


def _lease_goes_on(case: Case) -> Choice | None:
    """`lease`: the agent does something with the task, in time or too late."""
    event = case.event
    lease = case.notes.leases.get(event.handoff_id)
    if lease is None:
        return None
    end = plus(lease.since, case.policy.lease_seconds)
    if event.ts <= end:
        return Choice("lease", lease.agent, HELD, HELD, "")
    del case.notes.leases[event.handoff_id]
    silence = _seconds(lease.since, event.ts)
    why = f"{silence:,.0f} s without an event, lease = {case.policy.lease_seconds:,.0f} s"
    why += "" if lease.is_offer else "; a heartbeat early in a lease leaves no event"
    return Choice("lease", lease.agent, HELD, f"{LAPSED if lease.is_offer else EXPIRED} at {end}", why)


def _lease_ended(case: Case) -> Choice | None:
    """`lease`: a lease or an offer ran out, or would not have yet."""
    lease = case.notes.leases.pop(case.event.handoff_id, None)
    if lease is None:
        return None
    recorded = LAPSED if lease.is_offer else EXPIRED
    end = plus(lease.since, case.policy.lease_seconds)
    simulated = recorded if end <= case.event.ts else f"{HELD} until {end}"
    return Choice("lease", lease.agent, recorded, simulated, f"lease = {case.policy.lease_seconds:,.0f} s")


def _seconds(since: Instant, until: Instant) -> float:
    return (moment(until) - moment(since)).total_seconds()


RULES: dict[type[e.Event], tuple[Rule, ...]] = {
    e.HandoffRejected: (_lease_goes_on, _director, _max_invalid_rejections),
    e.HandoffRejectionInvalid: (_lease_goes_on, _director, _max_invalid_rejections),
    e.TaskFailed: (_lease_goes_on, _max_invalid_rejections),
    e.ReviewRejected: (_lockout, _escalate_after_reviews),
    e.ReviewRetracted: (_let_back,),
    e.HandoffInitiated: (_offer_begins,),
    e.TaskClaimed: (_lease_begins,),
    e.HandoffAccepted: (_lease_begins,),
    e.HandoffResumed: (_lease_begins,),
    e.LeaseRenewed: (_lease_renewed,),
    e.TaskWaiting: (_lease_goes_on,),
    e.TaskReleased: (_lease_goes_on,),
    e.TaskContinued: (_lease_goes_on,),
    e.TaskSubmitted: (_lease_goes_on,),
    e.HandoffCompleted: (_lease_goes_on,),
    e.LeaseExpired: (_lease_ended,),
    e.HandoffLapsed: (_lease_ended,),
}
"""What is decided when an event comes. A new kind of decision is one function more, and its row here."""

NOT_SIMULATED = ("alert_after_gates", "escalate_after_gates")
"""Keys of the policy about which the ledger has no events yet."""
