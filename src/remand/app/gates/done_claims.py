"""Done claims: measured before they count, and answered with figures when they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.gates.known_results import MeasurementTerms, VerdictResult, note_measured_verdict
from remand.app.ledger import Ledger
from remand.app.requests import Acceptance, Answer, Request
from remand.app.tasks.lookup import Lineage
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Team
from remand.domain.decisions.findings import (
    REJECTED_BEFORE,
    apply_settlements,
    hold_for_changed_rules,
    hold_for_control_change,
    hold_for_rejected_change,
    hold_notice,
    hold_summary,
    passes_only_by_new_rules,
)
from remand.domain.decisions.gates import verdict_refusal
from remand.domain.decisions.notices import MAX_STALLED, render_alert, render_escalation_notice
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationOpened
from remand.domain.events.work import GateAlerted, GateErrored, GateHeld, GatePassed, GateRejected
from remand.domain.gate import message
from remand.domain.gate.gate import policy_digest
from remand.domain.gate.state import GATE_QUESTION
from remand.domain.gate.verdict import UNMEASURED, GateStatus, Verdict, fit_to_event, make_unstarted_verdict
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.order import order_key

BROKEN_GATE = "A gate cannot run, which is not your fault: the user has been asked to fix it, and the task continues after that. This session may stop."
HELD_AS_REJECTED_BEFORE = "HELD: this same change was rejected before, and the user decides whether it may pass now. This session may stop or claim another task."
MAX_COMMANDS = 5000
"""How many characters of commands a message has room for, of which hosts show 10,000 in all."""
VERDICT_EVENTS = (GatePassed, GateRejected, GateHeld, GateErrored)


class ClaimOutcome(Record, kw_only=True):
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
        terms: Callable[[Task, str], MeasurementTerms],
        verdict: Callable[[MeasurementTerms], VerdictResult | None],
        team: Callable[[], Team] = Team,
    ) -> None:
        self._ledger = ledger
        self._terms = terms
        self._verdict = verdict
        self._team = team

    def claim(self, request: Request, ask: Callable[[Request], Answer]) -> ClaimOutcome | None:
        """Answers a done claim; `ask` is the door it came through. None when it may not be measured here."""
        answer = ask(request)
        work: c.SubmitTask | c.CompleteHandoff = request.ask
        if not isinstance(answer, Refused) or answer.code != "not_measured":
            return _outcome_without_measuring(answer)
        task = self._ledger.task_of(work)
        commit = self._ledger.repository.commit(work.commit)
        if task is None or task.claim is None or commit is None:
            return ClaimOutcome(answer=answer, task_id=task.id if task else "")
        if self._is_recorded(request.key):
            # Measured before under this key, by a run that outlived its caller: the same verdict is told again.
            return self._record_verdict(
                request, ask, task, VerdictResult(make_unstarted_verdict(commit.sha, commit.tree, ""))
            )
        try:
            # By what nobody can tell, nothing is measured: other rules, or no base, would stand in for it.
            self._ledger.gate_terms(task, commit.sha)
            terms = self._terms(task, commit.sha)
            judged = self._verdict(terms)
            if judged is not None and terms.claimed_under:
                judged = self._compare_with_claim_rules(task, terms, judged)
            if judged is not None:
                change = self._ledger.control.find_change(task, commit.sha)
                judged = judged._replace(verdict=hold_for_control_change(judged.verdict, change))
            again = self._ledger.same_change(task, commit)
            if judged is not None and again:
                judged = judged._replace(verdict=hold_for_rejected_change(judged.verdict, again))
        except Refused as refusal:
            return ClaimOutcome(answer=refusal, task_id=task.id)
        except (EnvironmentFault, OSError) as fault:
            judged = VerdictResult(make_unstarted_verdict(commit.sha, commit.tree, str(fault)))
        if judged is None:
            return None
        return self._record_verdict(request, ask, task, judged)

    def _compare_with_claim_rules(
        self, task: Task, terms: MeasurementTerms, judged: VerdictResult
    ) -> VerdictResult | None:
        """A verdict by the rules of now, held where the work would not pass by those at the claim.

        So a change of the rules on the base holds nobody up, and nobody gains by one. None: a gate has to be run.
        """
        verdict = apply_settlements(judged.verdict, task)
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
        if not passes_only_by_new_rules(verdict, apply_settlements(then.verdict, task), unmeasurable):
            return judged
        return judged._replace(
            verdict=hold_for_changed_rules(judged.verdict, policy_digest(terms.claimed_under))
        )

    def _record_verdict(
        self, request: Request, ask: Callable[[Request], Answer], task: Task, judged: VerdictResult
    ) -> ClaimOutcome:
        verdict = fit_to_event(apply_settlements(judged.verdict, task))
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
            return ClaimOutcome(answer=noted, task_id=task.id)
        if not judged.is_cached:
            note_measured_verdict(self._ledger, verdict)
        verdict = next(
            (event.verdict for event in noted.events if isinstance(event, VERDICT_EVENTS)), verdict
        )
        released = next((event for event in noted.events if isinstance(event, GatePassed)), None)
        if released is not None:
            text = message.render_verdict(verdict) if not released.is_observed else _observed_message(verdict)
            answer = ask(request)
            return ClaimOutcome(
                answer=answer, task_id=task.id, verdict=verdict, is_cached=judged.is_cached, message=text
            )
        if verdict.status is GateStatus.HELD:
            return self._held_outcome(noted.task, verdict, judged)
        text = self._rejection_message(noted, verdict)
        return ClaimOutcome(
            answer=verdict_refusal(verdict, text),
            task_id=task.id,
            verdict=verdict,
            is_cached=judged.is_cached,
            message=text,
        )

    def _held_outcome(self, task: Task, verdict: Verdict, judged: VerdictResult) -> ClaimOutcome:
        """The answer to a claim that a person has to settle, in words for the agent and for people."""
        with self._ledger.store.read() as view:
            team = self._team().with_task_names(Lineage(view).participant_names(task))
        notice = hold_notice(task, team, MAX_COMMANDS)
        asked = task.open_escalation
        if asked is None or asked.kind != REJECTED_BEFORE:
            text = message.render_hold(verdict, hold_summary(task, team))
            told = message.render_hold(verdict, notice)
        else:
            text, told = HELD_AS_REJECTED_BEFORE, f"{HELD_AS_REJECTED_BEFORE}\n\n{notice}"
        return ClaimOutcome(
            answer=verdict_refusal(verdict, text),
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

    def _rejection_message(self, noted: Acceptance, verdict: Verdict) -> str:
        """What the agent reads: the figures, then that it goes on, or that a human takes over."""
        rejected = next((event for event in noted.events if isinstance(event, GateRejected)), None)
        if rejected is None:
            return message.render_verdict(verdict)
        before = self._previous_verdict(rejected) if rejected.number > 1 else None
        told = (rejected.verdict, rejected.number, before, rejected.task_id)
        asked = next((event for event in noted.events if isinstance(event, EscalationOpened)), None)
        if asked is None:
            return message.render_rejection(*told, alert=_alert_text(noted.events))
        stalled = rejected.stalled >= MAX_STALLED
        why = render_escalation_notice(rejected.number, is_stalled=stalled)
        return message.render_escalation(*told, why=BROKEN_GATE if asked.kind == GATE_QUESTION else why)

    def _previous_verdict(self, rejected: GateRejected) -> Verdict | None:
        """The verdict of the rejection before this one, under the same claim."""
        with self._ledger.store.read() as view:
            lines = view.events.of_task(rejected.task_id)
        events = [
            codec.decode_stored_line(line, GateRejected)
            for line in lines
            if codec.may_be_kind(line, GateRejected)
        ]
        earlier = [
            event
            for event in sorted(events, key=order_key)
            if isinstance(event, GateRejected)
            and event.handoff_id == rejected.handoff_id
            and event.number < rejected.number
        ]
        return earlier[-1].verdict if earlier else None


def _outcome_without_measuring(answer: Answer) -> ClaimOutcome:
    """A done claim that needed no measuring: refused for another reason, or released before."""
    if isinstance(answer, Refused):
        return ClaimOutcome(answer=answer)
    passed = next((event for event in answer.events if isinstance(event, GatePassed)), None)
    verdict = passed.verdict if passed else None
    return ClaimOutcome(
        answer=answer, verdict=verdict, message=message.render_pass(verdict) if verdict else ""
    )


def _alert_text(events: Iterable[Event]) -> str:
    """What the agent is told of the alert among these events; empty when there is none."""
    found = next((event for event in events if isinstance(event, GateAlerted)), None)
    return render_alert(found.number, found.escalate_after) if found else ""


def _observed_message(verdict: Verdict) -> str:
    """What is told where nothing is enforced."""
    would = message.render_verdict(verdict).splitlines()[0]
    return f"Nothing is enforced here (policy.enforce = false). It would have been: {would}"
