"""Done claims: measured before they count, and answered with figures when they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from remand.app.asking import Accepted, Answer, Request
from remand.app.errors import EnvironmentFault
from remand.app.family import Family
from remand.app.gates.known import Judged, Terms
from remand.app.gates.outages import note_measured
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.amending import control_held, handed_in_again, let_pass, moved_rules, passes_only_now
from remand.domain.gates import message
from remand.domain.gates.gate import digest
from remand.domain.gates.outages import GATE_QUESTION
from remand.domain.gates.verdict import UNMEASURED, GateStatus, Verdict, fitting, unstarted
from remand.domain.holds import REJECTED_BEFORE, hold_notice, hold_summary
from remand.domain.notices import STALL, alert_sentence, escalation_sentence
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.roles import THE_COORDINATOR, Team
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.order import place

BROKEN_GATE = (
    "A gate cannot be run, which is not your fault: the user is asked about it, and the task goes on after that. "
    "This session may stop."
)
HELD_AS_REJECTED_BEFORE = (
    "HELD: this very change was rejected before, and the user is asked whether it may pass now. "
    "This session may stop; other tasks are free."
)
ROOM = 5000
"""How many characters of commands a message has room for, of which hosts show 10,000 in all."""
JUDGING = (e.GatePassed, e.GateRejected, e.GateHeld, e.GateErrored)


class Claimed(Record, kw_only=True):
    """What came of a done claim."""

    answer: Answer
    task_id: str = ""
    verdict: Verdict | None = None
    is_cached: bool = False
    message: str = ""
    """What the agent is told."""
    notice: str = ""
    """What people are told of work that is held: the same, with the commands that settle it."""


class DoneClaims:
    """Takes done claims: asks, measures what was not measured yet, records the verdict, and asks again."""

    def __init__(
        self,
        ledger: Ledger,
        terms: Callable[[Task, str], Terms],
        verdict: Callable[[Terms], Judged | None],
        team: Callable[[], Team] = Team,
    ) -> None:
        self._ledger = ledger
        self._terms = terms
        self._verdict = verdict
        self._team = team

    def claim(self, request: Request, ask: Callable[[Request], Answer]) -> Claimed | None:
        """Answers a done claim; `ask` is the door it came through. None when it may not be measured here."""
        answer = ask(request)
        work: c.SubmitTask | c.CompleteHandoff = request.ask
        if not isinstance(answer, Refused) or answer.code != "not_measured":
            return _unmeasured(answer)
        task = self._ledger.task_of(work)
        commit = self._ledger.repository.commit(work.commit)
        if task is None or task.claim is None or commit is None:
            return Claimed(answer=answer, task_id=task.id if task else "")
        if self._is_recorded(request.key):
            # Measured before under this key, by a run that outlived its caller: the same verdict is told again.
            return self._recorded(request, ask, task, Judged(unstarted(commit.sha, commit.tree, "")))
        try:
            # By what nobody can tell, nothing is measured: other rules, or no base, would stand in for it.
            self._ledger.gate_terms(task, commit.sha)
            terms = self._terms(task, commit.sha)
            judged = self._verdict(terms)
            if judged is not None and terms.claimed_under:
                judged = self._by_rules_of_claim(task, terms, judged)
            if judged is not None:
                change = self._ledger.control.change(task, commit.sha)
                judged = judged._replace(verdict=control_held(judged.verdict, change))
            again = self._ledger.same_change(task, commit)
            if judged is not None and again:
                judged = judged._replace(verdict=handed_in_again(judged.verdict, again))
        except Refused as refusal:
            return Claimed(answer=refusal, task_id=task.id)
        except (EnvironmentFault, OSError) as fault:
            judged = Judged(unstarted(commit.sha, commit.tree, str(fault)))
        if judged is None:
            return None
        return self._recorded(request, ask, task, judged)

    def _by_rules_of_claim(self, task: Task, terms: Terms, judged: Judged) -> Judged | None:
        """A verdict by the rules of now, held where the work would not pass by those at the claim.

        So a change of the rules on the base holds nobody up, and nobody gains by one. None: a gate has to be run.
        """
        verdict = let_pass(judged.verdict, task)
        if terms.claimed_under is None or not (verdict.is_release or verdict.status is GateStatus.HELD):
            return judged
        earlier = replace(terms, policy=terms.claimed_under, claimed_under=None)
        then = self._verdict(earlier)
        if then is None:
            return None
        unmeasurable: list[str] = []
        if terms.base and any(gate.status in UNMEASURED for gate in then.verdict.gates):
            on_base = self._verdict(replace(earlier, commit=terms.base, base=""))
            if on_base is None:
                return None
            unmeasurable = [gate.name for gate in on_base.verdict.gates if gate.status in UNMEASURED]
        if not passes_only_now(verdict, let_pass(then.verdict, task), unmeasurable):
            return judged
        return judged._replace(verdict=moved_rules(judged.verdict, digest(terms.claimed_under)))

    def _recorded(
        self, request: Request, ask: Callable[[Request], Answer], task: Task, judged: Judged
    ) -> Claimed:
        verdict = fitting(let_pass(judged.verdict, task))
        claim = task.claim
        work: c.SubmitTask | c.CompleteHandoff = request.ask
        noted = self._ledger.ask_as(
            THE_COORDINATOR,
            c.RecordVerdict(
                task_id=task.id,
                agent=claim.agent if claim else "",
                handoff_id=claim.handoff_id if claim else "",
                verdict=verdict,
                branch=work.branch,
                is_branch_given=work.is_branch_given,
                pr=work.pr,
            ),
            key=f"{request.key}/verdict" if request.key else "",
        )
        if isinstance(noted, Refused):
            return Claimed(answer=noted, task_id=task.id)
        if not judged.is_cached:
            note_measured(self._ledger, verdict)
        verdict = next((event.verdict for event in noted.events if isinstance(event, JUDGING)), verdict)
        released = next((event for event in noted.events if isinstance(event, e.GatePassed)), None)
        if released is not None:
            text = message.told(verdict) if not released.is_observed else _observed(verdict)
            answer = ask(request)
            return Claimed(
                answer=answer, task_id=task.id, verdict=verdict, is_cached=judged.is_cached, message=text
            )
        if verdict.status is GateStatus.HELD:
            return self._held_claim(noted.task, verdict, judged)
        text = self._told(noted, verdict)
        refusal = Refused(_code(verdict), text)
        return Claimed(
            answer=refusal, task_id=task.id, verdict=verdict, is_cached=judged.is_cached, message=text
        )

    def _held_claim(self, task: Task, verdict: Verdict, judged: Judged) -> Claimed:
        """The answer to a claim that a person has to settle, in words for the agent and for people."""
        with self._ledger.store.read() as view:
            team = self._team().as_known(Family(view).names(task))
        notice = hold_notice(task, team, ROOM)
        asked = task.open_escalation
        if asked is None or asked.kind != REJECTED_BEFORE:
            text = message.held(verdict, hold_summary(task, team))
            told = message.held(verdict, notice)
        else:
            text, told = HELD_AS_REJECTED_BEFORE, f"{HELD_AS_REJECTED_BEFORE}\n\n{notice}"
        return Claimed(
            answer=Refused(_code(verdict), text),
            task_id=task.id,
            verdict=verdict,
            is_cached=judged.is_cached,
            message=text,
            notice=told,
        )

    def _is_recorded(self, key: str) -> bool:
        if not key:
            return False
        with self._ledger.store.read() as view:
            return bool(view.events.of_key(f"{key}/verdict"))

    def _told(self, noted: Accepted, verdict: Verdict) -> str:
        """What the agent reads: the figures, then that it goes on, or that a human takes over."""
        rejected = next((event for event in noted.events if isinstance(event, e.GateRejected)), None)
        if rejected is None:
            return message.told(verdict)
        before = self._before(rejected) if rejected.number > 1 else None
        told = (rejected.verdict, rejected.number, before, rejected.task_id)
        asked = next((event for event in noted.events if isinstance(event, e.EscalationOpened)), None)
        if asked is None:
            return message.rejection(*told, alert=_alert_of(noted.events))
        stalled = rejected.stalled >= STALL
        why = escalation_sentence(rejected.number, is_stalled=stalled)
        return message.escalation(*told, why=BROKEN_GATE if asked.kind == GATE_QUESTION else why)

    def _before(self, rejected: e.GateRejected) -> Verdict | None:
        """The verdict of the rejection before this one, under the same claim."""
        with self._ledger.store.read() as view:
            lines = view.events.of_task(rejected.task_id)
        events = [codec.recall(line, e.GateRejected) for line in lines if codec.may_be(line, e.GateRejected)]
        earlier = [
            event
            for event in sorted(events, key=place)
            if isinstance(event, e.GateRejected)
            and event.handoff_id == rejected.handoff_id
            and event.number < rejected.number
        ]
        return earlier[-1].verdict if earlier else None


def _unmeasured(answer: Answer) -> Claimed:
    """A done claim that needed no measuring: refused for another reason, or released before."""
    if isinstance(answer, Refused):
        return Claimed(answer=answer)
    passed = next((event for event in answer.events if isinstance(event, e.GatePassed)), None)
    verdict = passed.verdict if passed else None
    return Claimed(answer=answer, verdict=verdict, message=message.passed(verdict) if verdict else "")


def _alert_of(events: Iterable[e.Event]) -> str:
    """What the agent is told of the alert among these events; empty when there is none."""
    found = next((event for event in events if isinstance(event, e.GateAlerted)), None)
    return alert_sentence(found.number, found.escalate_after) if found else ""


def _code(verdict: Verdict) -> str:
    if verdict.status is GateStatus.HELD:
        return "gate_held"
    return "gate_errored" if verdict.status in UNMEASURED else "gate_rejected"


def _observed(verdict: Verdict) -> str:
    """What is told where nothing is enforced."""
    would = message.told(verdict).splitlines()[0]
    return f"Nothing is enforced here (policy.enforce = false). It would have been: {would}"
