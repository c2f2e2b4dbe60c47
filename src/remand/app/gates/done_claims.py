"""Done claims, which are measured before they count and answered with figures if rejected; and whether a session may stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault, StoreAway, StoreConflict
from remand.app.gates.known_results import MeasurementTerms, VerdictResult, measured_gate_notes
from remand.app.gates.ports import SessionRecords
from remand.app.ledger import Ledger
from remand.app.ports import Commit
from remand.app.requests import Acceptance, Answer, Request
from remand.app.tasks.lookup import Lineage
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Team
from remand.domain.decisions import findings
from remand.domain.decisions.claims import StopMeaning, StopState, stop_meaning
from remand.domain.decisions.gates import (
    is_rejected_commit,
    is_unmeasured,
    rejected_commit_refusal,
    verdict_refusal,
)
from remand.domain.decisions.notices import MAX_STALLED, render_alert, render_escalation_notice
from remand.domain.events.event import KnownBy
from remand.domain.events.reviews import EscalationOpened
from remand.domain.events.work import GateAlerted, GateErrored, GateHeld, GatePassed, GateRejected
from remand.domain.gate import message
from remand.domain.gate.gate import policy_digest
from remand.domain.gate.state import GATE_QUESTION, find_measured_gates
from remand.domain.gate.verdict import UNMEASURED, GateStatus, Verdict, fit_to_event, make_unstarted_verdict
from remand.domain.record import NamedTuple, Record
from remand.domain.refusals import Refused
from remand.domain.task import Claim, Status, Task
from remand.ledger import codec
from remand.ledger.order import order_key

BROKEN_GATE = "A gate cannot run, which is not your fault: the user has been asked to fix it, and the task continues after that. This session may stop."
HELD_AS_REJECTED_BEFORE = "HELD: this same change was rejected before, and the user decides whether it may pass now. This session may stop or claim another task."
MAX_COMMANDS = 5000
"""The most characters of the commands in a message; hosts show 10,000 in all."""
VERDICT_EVENTS = (GatePassed, GateRejected, GateHeld, GateErrored)


class ClaimOutcome(Record, kw_only=True):
    """The outcome of a done claim."""

    answer: Answer
    task_id: str = ""
    verdict: Verdict | None = None
    is_cached: bool = False
    message: str = ""
    """The message for the agent."""
    notice: str = ""
    """The message for people about held work: the same, with the commands that settle it."""


class DoneClaims:
    """Handles done claims from every interface.

    It asks the ledger twice: whether the claim needs measuring, and to record verdict and claim in one
    change. The ledger's lock is not held while gates run. The second request decides about anything that
    changed meanwhile.
    """

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
        """Answers a done claim; `ask` is the caller's access to the ledger.

        None if a gate has to run that `verdict` must not run.
        """
        answer = ask(request)
        work: c.SubmitTask | c.CompleteHandoff = request.command
        if isinstance(answer, Refused) and answer.code == "nothing_committed":
            self._note_repetition(request, work)
        if not is_unmeasured(answer):
            return _outcome_without_measuring(answer)
        task, commit = self._ledger.task_of(work), self._ledger.repository.commit(work.commit)
        if task and task.claim and commit and _is_repeated_rejection(task.claim, request.key, commit.sha):
            return ClaimOutcome(answer=rejected_commit_refusal(commit.sha), task_id=task.id)
        if task is None or task.claim is None or commit is None:
            return ClaimOutcome(answer=answer, task_id=task.id if task else "")
        try:
            judged = self._judge(request, task, commit)
        except Refused as refusal:
            return ClaimOutcome(answer=refusal, task_id=task.id)
        except (StoreAway, StoreConflict):
            raise  # The ledger is unavailable, not the gates: nothing can be recorded or said about the work.
        except (EnvironmentFault, OSError) as fault:
            judged = VerdictResult(make_unstarted_verdict(commit.sha, commit.tree, str(fault)))
        return None if judged is None else self._record(request, task, judged)

    def record_unmeasured(self, request: Request, task: Task, commit: str, why: str) -> ClaimOutcome:
        """Records that the work of a done claim could not be measured, for a reason outside the work."""
        return self._record(request, task, VerdictResult(make_unstarted_verdict(commit, "", why)))

    def recorded_outcome(self, request: Request) -> ClaimOutcome | None:
        """The outcome of a done claim whose verdict another process has recorded under its key; None if there is none."""
        task, recorded = self._ledger.task_of(request.command), self._find_recorded(request.key)
        if task is None or recorded is None:
            return None
        # Only what identifies the command comes from the event, so that an unsound event lets nothing pass.
        repeated = make_unstarted_verdict(recorded.verdict.commit, recorded.verdict.tree, "")
        outcome = self._record(request, task, VerdictResult(repeated, is_cached=True), recorded)
        return replace(outcome, is_cached=False)

    def _note_repetition(self, request: Request, work: c.SubmitTask | c.CompleteHandoff) -> None:
        """Records that exactly the rejected commit was submitted again: the next time, the user is asked."""
        task, commit = self._ledger.task_of(work), self._ledger.repository.commit(work.commit)
        if task is None or task.claim is None or commit is None or not is_rejected_commit(task, commit.sha):
            return
        handoff, reason = task.claim.handoff_id, f"{commit.sha[:12]} was rejected before"
        self._ledger.ask_as(
            THE_COORDINATOR,
            c.CountIdleStop(
                task_id=task.id, handoff_id=handoff, key=request.key, reason=reason, commit=commit.sha
            ),
        )

    def _judge(self, request: Request, task: Task, commit: Commit) -> VerdictResult | None:
        """The verdict on the work, with everything that holds it for a person. None if a gate has to run."""
        if self._find_recorded(request.key) is not None:
            # Measured before under this key, by a run that outlived its caller: return the recorded verdict.
            return VerdictResult(make_unstarted_verdict(commit.sha, commit.tree, ""))
        # Raises if nobody can tell which rules apply: other rules, or no base, would be used instead.
        self._ledger.gate_terms(task, commit.sha)
        terms = self._terms(task, commit.sha)
        judged = self._verdict(terms)
        if judged is not None and terms.claimed_under:
            judged = self._compare_with_claim_rules(task, terms, judged)
        if judged is None:
            return None
        verdict = findings.hold_for_control_change(
            judged.verdict, self._ledger.control.find_change(task, commit.sha)
        )
        again = self._ledger.same_change(task, commit)
        return judged._replace(
            verdict=findings.hold_for_rejected_change(verdict, again) if again else verdict
        )

    def _compare_with_claim_rules(
        self, task: Task, terms: MeasurementTerms, judged: VerdictResult
    ) -> VerdictResult | None:
        """Holds a verdict by the current rules if the work would fail by those at the claim.

        So a change of the base's rules neither delays anybody nor gives an advantage. None if a gate has to
        run.
        """
        verdict = findings.apply_settlements(judged.verdict, task)
        if terms.claimed_under is None or not (
            verdict.allows_submission or verdict.status is GateStatus.HELD
        ):
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
        settled = findings.apply_settlements(then.verdict, task)
        if not findings.passes_only_by_new_rules(verdict, settled, unmeasurable):
            return judged
        digest = policy_digest(terms.claimed_under)
        return judged._replace(verdict=findings.hold_for_changed_rules(judged.verdict, digest))

    def _record(
        self,
        request: Request,
        task: Task,
        judged: VerdictResult,
        repeated: GatePassed | GateRejected | GateHeld | GateErrored | None = None,
    ) -> ClaimOutcome:
        """Records the verdict as the coordinator and, if it releases the work, the claim itself."""
        verdict = fit_to_event(findings.apply_settlements(judged.verdict, task))
        claim = repeated or task.claim
        work: c.SubmitTask | c.CompleteHandoff = request.command
        record = c.RecordVerdict(
            task_id=task.id,
            agent=claim.agent if claim else "",
            handoff_id=claim.handoff_id if claim else "",
            verdict=verdict,
            branch=work.branch,
            is_branch_given=work.is_branch_given,
            pr=work.pr,
        )
        notes = () if judged.is_cached else measured_gate_notes(self._ledger, find_measured_gates(verdict))
        key = f"{request.key}/verdict" if request.key else ""
        answers = self._ledger.record_then_ask(record, key, notes, request, _find_pass)
        recorded = answers[0]
        if isinstance(recorded, Refused):
            return ClaimOutcome(answer=recorded, task_id=task.id)
        verdict = next(
            (event.verdict for event in recorded.events if isinstance(event, VERDICT_EVENTS)), verdict
        )
        outcome = ClaimOutcome(
            answer=answers[-1], task_id=task.id, verdict=verdict, is_cached=judged.is_cached
        )
        passed = _find_pass(recorded)
        if passed is not None:
            return replace(outcome, message=_pass_message(passed, verdict))
        text, notice = (
            self._hold_messages(recorded.task, verdict)
            if verdict.status is GateStatus.HELD
            else (self._rejection_message(recorded, verdict), "")
        )
        return replace(outcome, answer=verdict_refusal(verdict, text), message=text, notice=notice)

    def _hold_messages(self, task: Task, verdict: Verdict) -> tuple[str, str]:
        """The messages about held work: for the agent, and for people."""
        with self._ledger.store.read() as view:
            team = self._team().with_task_names(Lineage(view).participant_names(task))
        notice = findings.hold_notice(task, team, MAX_COMMANDS)
        asked = task.open_escalation
        if asked is not None and asked.kind == findings.REJECTED_BEFORE:
            return HELD_AS_REJECTED_BEFORE, f"{HELD_AS_REJECTED_BEFORE}\n\n{notice}"
        summary = findings.hold_summary(task, team)
        return message.render_hold(verdict, summary), message.render_hold(verdict, notice)

    def _find_recorded(self, key: str) -> GatePassed | GateRejected | GateHeld | GateErrored | None:
        """The recorded verdict of the done claim with a key; None if there is none."""
        if not key:
            return None
        with self._ledger.store.read() as view:
            lines = view.events.of_key(f"{key}/verdict")
        events = (codec.decode_stored_line(line) for line in lines)
        return next((event for event in events if isinstance(event, VERDICT_EVENTS)), None)

    def _rejection_message(self, recorded: Acceptance, verdict: Verdict) -> str:
        """The message for the agent: the figures, and whether it continues or a human takes over."""
        rejected = next((event for event in recorded.events if isinstance(event, GateRejected)), None)
        if rejected is None:
            return message.render_verdict(verdict)
        before = self._previous_verdict(rejected) if rejected.number > 1 else None
        shown = (rejected.verdict, rejected.number, before, rejected.task_id)
        asked = next((event for event in recorded.events if isinstance(event, EscalationOpened)), None)
        if asked is None:
            alerted = next((event for event in recorded.events if isinstance(event, GateAlerted)), None)
            alert = render_alert(alerted.number, alerted.escalate_after) if alerted else ""
            return message.render_rejection(*shown, alert=alert)
        why = render_escalation_notice(rejected.number, is_stalled=rejected.stalled >= MAX_STALLED)
        return message.render_escalation(*shown, why=BROKEN_GATE if asked.kind == GATE_QUESTION else why)

    def _previous_verdict(self, rejected: GateRejected) -> Verdict | None:
        """The verdict of the previous rejection under the same claim; None if there is none."""
        with self._ledger.store.read() as view:
            lines = view.events.of_task(rejected.task_id)
        events = (
            codec.decode_stored_line(line, GateRejected) for line in codec.lines_of_kind(lines, GateRejected)
        )
        earlier = [
            event
            for event in sorted(events, key=order_key)
            if isinstance(event, GateRejected)
            and event.handoff_id == rejected.handoff_id
            and event.number < rejected.number
        ]
        return earlier[-1].verdict if earlier else None


def _is_repeated_rejection(claim: Claim, key: str, commit: str) -> bool:
    """True if the same done claim is reported once more, in contrast to another claim of a rejected commit."""
    return bool(key) and claim.repeated == commit and claim.idle_key == key


def _outcome_without_measuring(answer: Answer) -> ClaimOutcome:
    """The outcome of a done claim that needed no measuring: refused for another reason, or released before."""
    if isinstance(answer, Refused):
        return ClaimOutcome(answer=answer)
    passed = _find_pass(answer)
    return ClaimOutcome(
        answer=answer,
        verdict=passed.verdict if passed else None,
        message=message.render_pass(passed.verdict) if passed else "",
    )


def _find_pass(answer: Answer) -> GatePassed | None:
    events: Sequence[object] = () if isinstance(answer, Refused) else answer.events
    return next((event for event in events if isinstance(event, GatePassed)), None)


def _pass_message(passed: GatePassed, verdict: Verdict) -> str:
    text = message.render_verdict(verdict)
    if not passed.is_observed:
        return text
    return f"Nothing is enforced here (policy.enforce = false). It would have been: {text.splitlines()[0]}"


MAX_NAMED = 10


class Stop(NamedTuple):
    """A host's report that an agent's session wants to end."""

    task_id: str
    session: str
    key: str
    """Equal for two hook calls about one stop."""
    agent: str = ""
    commit: str = ""
    branch: str = ""
    uncommitted: tuple[str, ...] = ()
    has_background_work: bool = False
    is_broken: str = ""
    """Why the host's report could not be read."""
    known_by: KnownBy = KnownBy.WORD
    """How the session was identified."""
    fault: str = ""
    """Why the work cannot be inspected, as a message for the agent."""


class StopReply(NamedTuple):
    """The answer to a stop: whether the session may end, and the message for the agent or the user."""

    may_stop: bool
    text: str = ""
    notice: str = ""


ALLOW_STOP = StopReply(may_stop=True)
CODES_ALLOWING_STOP = ("gate_held", "gate_errored", "key_not_trusted")
"""Refusals of a done claim after which a session may stop; after any other it continues."""


class StopResponder:
    """Answers stops. Only the ledger can finish a task, whatever the host does with the answer."""

    def __init__(
        self,
        ledger: Ledger,
        claim: Callable[[Request], ClaimOutcome | None],
        marks: SessionRecords,
        *,
        is_enforced: bool = True,
    ) -> None:
        self._ledger = ledger
        self._claim = claim
        self._marks = marks
        self._is_enforced = is_enforced

    def reply(self, stop: Stop) -> StopReply | None:
        """The answer to a stop; None if the gates have to run first."""
        task = self._ledger.task_of(c.TaskCommand(task_id=stop.task_id))
        meaning = stop_meaning(task, _stop_state(stop))
        if meaning == StopMeaning.WAIT and task is not None:
            if self._marks.is_first("waiting", task.id, stop.session, stop.key):
                return ALLOW_STOP
            meaning = stop_meaning(task, _stop_state(stop, has_waited=True))
        if task is None or meaning == StopMeaning.END:
            return ALLOW_STOP
        if meaning == StopMeaning.DONE_CLAIM:
            return self._done_claim(task, stop)
        return self.send_back(task, stop, _send_back_text(task, stop, meaning))

    def send_back(self, task: Task, stop: Stop, text: str) -> StopReply:
        """Sends the session back without measuring, until it has stopped so too often in a row."""
        if not self._is_enforced:
            return StopReply(may_stop=True, notice=f"Would have been sent back: {text}")
        handoff = task.claim.handoff_id if task.claim else ""
        self._ledger.ask_as(
            THE_COORDINATOR, c.CountIdleStop(task_id=task.id, handoff_id=handoff, key=stop.key)
        )
        after = self._ledger.task_of(c.TaskCommand(task_id=task.id))
        asked = after.open_escalation if after and after.status == Status.ESCALATED else None
        if asked is None:
            return StopReply(may_stop=False, text=text)
        return StopReply(may_stop=True, notice=f"Task {task.id} was escalated to the user: {asked.reason}.")

    def _done_claim(self, task: Task, stop: Stop) -> StopReply | None:
        """Treats a stop with commits as a done claim."""
        agent = task.claim.agent if task.claim else ""
        handoff = task.claim.handoff_id if task.claim else ""
        claimed = self._claim(
            Request(
                command=c.SubmitTask(
                    task_id=task.id,
                    agent=agent,
                    handoff_id=handoff,
                    commit=stop.commit,
                    branch=stop.branch,
                ),
                actor=agent,
                confined=True,
                known_by=stop.known_by,
                key=stop.key,
                branch=stop.branch,
            )
        )
        return None if claimed is None else self._reply_to_claim(stop, claimed)

    def _reply_to_claim(self, stop: Stop, claimed: ClaimOutcome) -> StopReply:
        """The session's answer for the result of its done claim."""
        answer = claimed.answer
        if not isinstance(answer, Refused):
            return StopReply(may_stop=True, notice=claimed.message.partition("\n")[0])
        task = self._ledger.task_of(c.TaskCommand(task_id=stop.task_id))
        if task is None or task.claim is None or answer.code in CODES_ALLOWING_STOP:
            return StopReply(may_stop=True, notice=claimed.notice or answer.message)
        if answer.code == "gate_rejected":
            return StopReply(may_stop=False, text=answer.message)
        return self.send_back(task, stop, answer.message)


def _stop_state(stop: Stop, *, has_waited: bool = False) -> StopState:
    return StopState(
        agent=stop.agent,
        commit=stop.commit,
        uncommitted=stop.uncommitted,
        has_fault=bool(stop.fault),
        is_unreadable=bool(stop.is_broken),
        has_background_work=stop.has_background_work,
        has_waited=has_waited,
    )


def _send_back_text(task: Task, stop: Stop, meaning: StopMeaning) -> str:
    """The message for an agent that stopped with nothing to measure."""
    match meaning:
        case StopMeaning.UNREADABLE:
            return f"Remand could not read the host's message ({stop.is_broken}). Continue your task, or tell the user."
        case StopMeaning.FAULT:
            return stop.fault
        case StopMeaning.UNCOMMITTED:
            return _uncommitted_text(task, stop.uncommitted)
        case _:
            return (
                f"Task {task.id} ({task.title[:200]}) is yours, and it has no commit yet. Continue it and commit. If something blocks you, reject it with a record of what you tried "
                "(`remand handoff reject`, or the MCP tool `reject_task`), or say what you wait for "
                "(`remand task wait`, or the MCP tool `waiting`)."
            )


def _uncommitted_text(task: Task, paths: tuple[str, ...]) -> str:
    shown = "\n".join(f"- {path}" for path in paths[:MAX_NAMED])
    more = f"\n- and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return f"There are uncommitted changes, and the gates measure only commits for task {task.id}. Commit them, or undo them:\n{shown}{more}"
