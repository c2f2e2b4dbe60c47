"""The effects of gate, run and forge action events."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from remand.domain.events import work as work_events
from remand.domain.events.tasks import HandoffCompleted, TaskSubmitted
from remand.domain.forge import AbandonedAction, ForgeAction, PlannedAction, TaskForgeState
from remand.domain.gate.state import GateState, outages_after_verdict, update_gates, without_gates
from remand.domain.gate.verdict import PASSING, Verdict
from remand.domain.run import Run, add_run_cost
from remand.domain.task import (
    Claim,
    Status,
    Submission,
    Task,
    advance_task,
    bound_lease,
    record_conflict,
    update_task,
)

GateVerdictEvent = (
    work_events.GatePassed | work_events.GateRejected | work_events.GateHeld | work_events.GateErrored
)


def apply_gate_passed(task: Task, event: work_events.GatePassed) -> Task:
    is_released = event.verdict.allows_submission or event.is_observed
    gates = _state_after_verdict(task, event, is_released=is_released, alert=None)
    work = _submission_after_verdict(task, gates)
    return advance_task(task, event, claim=_without_idle_stops(task), gates=gates, submission=work)


def apply_gate_rejected(task: Task, event: work_events.GateRejected) -> Task:
    gates = _state_after_verdict(
        task,
        event,
        rejection_count=task.gates.rejection_count + 1,
        count=task.gates.progress.count + 1,
        stalled=event.stalled,
        failing=event.verdict.failing_count,
        excess=event.verdict.excess,
    )
    work = _submission_after_verdict(task, gates)
    return advance_task(task, event, claim=_without_idle_stops(task), gates=gates, submission=work)


def apply_gate_held(task: Task, event: work_events.GateHeld) -> Task:
    claim = _without_idle_stops(task)
    claim = claim and replace(claim, lease_expires_at=bound_lease(event.lease_expires_at, event.ts))
    gates = _state_after_verdict(
        task, event, branch=event.branch, is_branch_given=event.is_branch_given, pr=event.pr
    )
    return advance_task(
        task, event, claim=claim, gates=gates, submission=_submission_after_verdict(task, gates)
    )


def apply_gate_errored(task: Task, event: work_events.GateErrored) -> Task:
    gates = _state_after_verdict(task, event)
    return advance_task(
        task,
        event,
        claim=None,
        waiting_for="",
        queue=Status.NEEDS_CONTINUATION,
        gates=gates,
        submission=_submission_after_verdict(task, gates),
    )


def apply_idle_stop(task: Task, event: work_events.IdleStopCounted) -> Task:
    claim = task.claim and replace(
        task.claim,
        idle_stops=task.claim.idle_stops + 1,
        idle_key=event.key,
        repeated=event.commit or task.claim.repeated,
    )
    return advance_task(task, event, claim=claim)


def _without_idle_stops(task: Task) -> Claim | None:
    """The claim after something was measured under it: only consecutive idle stops count."""
    claim = task.claim
    return replace(claim, idle_stops=0, idle_key="") if claim and claim.idle_stops else claim


def apply_finding_accepted(task: Task, event: work_events.FindingAccepted) -> Task:
    gates = task.gates
    if event.finding in gates.decisions.accepted:
        return task
    refused = tuple(pair for pair in gates.decisions.refused if pair[0] != event.finding)
    accepted = (*gates.decisions.accepted, event.finding)
    return update_task(task, gates=update_gates(gates, accepted=accepted, refused=refused))


def apply_finding_refused(task: Task, event: work_events.FindingRefused) -> Task:
    """Retracts an acceptance. Work released without enforcement stays released."""
    gates = task.gates
    left = tuple(name for name in gates.decisions.accepted if name != event.finding)
    is_released = gates.is_released and gates.status not in PASSING
    refused = (
        *(pair for pair in gates.decisions.refused if pair[0] != event.finding),
        (event.finding, event.reason),
    )
    after = update_gates(gates, accepted=left, refused=refused, is_released=is_released)
    return update_task(task, gates=after, submission=_submission_after_verdict(task, after))


def apply_gate_overridden(task: Task, event: work_events.GateOverridden) -> Task:
    gates, pair = task.gates, (event.gate, event.tree)
    if pair in gates.decisions.overridden:
        return task
    return update_task(task, gates=update_gates(gates, overridden=(*gates.decisions.overridden, pair)))


def apply_gate_recovered(task: Task, event: work_events.GateRecovered) -> Task:
    left = without_gates(task.gates.outages, event.gates)
    return update_task(task, gates=replace(task.gates, outages=left))


def reset_for_new_claim(gates: GateState) -> GateState:
    """The gate state for a new claim: settlements remain, counts restart."""
    if not gates.progress.count:
        return gates
    return update_gates(gates, count=0, stalled=0, failing=0, excess=0.0, alert=None)


def find_release_conflict(task: Task, event: TaskSubmitted | HandoffCompleted) -> Task | None:
    """The conflict of work submitted without its gates' release; None if they released it."""
    gates = task.gates
    if gates.is_released and (gates.commit, gates.tree) == (event.commit, event.tree):
        return None
    return record_conflict(task, event, "no verdict of the gates had released that work")


def _state_after_verdict(
    task: Task, event: GateVerdictEvent, *, is_released: bool = False, **changes: Any
) -> GateState:
    verdict, gates = event.verdict, task.gates
    if any(gate.suspicions for gate in verdict.gates) and event.agent not in gates.decisions.questioned:
        gates = update_gates(gates, questioned=(*gates.decisions.questioned, event.agent))
    return update_gates(
        gates,
        status=verdict.status,
        handoff_id=event.handoff_id,
        commit=verdict.commit,
        tree=verdict.tree,
        base=verdict.base,
        policy=verdict.policy,
        tier=verdict.tier,
        blocking=verdict.blocking_gates,
        held=verdict.suspicions,
        places=_finding_places(verdict),
        is_released=is_released,
        outages=outages_after_verdict(
            gates.outages, verdict, event.ts, is_stopped=not isinstance(event, work_events.GatePassed)
        ),
        **changes,
    )


def _submission_after_verdict(task: Task, gates: GateState) -> Submission | None:
    """The submission with the last verdict's result if that is on the same code.

    Rejected work may return to review after others have measured the same code.
    """
    work = task.submission
    if work is None or (gates.tree or gates.commit) != (work.tree or work.commit):
        return work
    return replace(work, is_refuted=not gates.is_released)


def _finding_places(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    """The file of each finding for a reviewer."""
    return tuple((name, finding.path) for gate in verdict.gates for name, finding in gate.held_findings)


MAX_RUNS = 50


def apply_run_started(task: Task, event: work_events.RunStarted) -> Task:
    """Records an active run. If two ledgers have started one, both are tracked until they end."""
    if task.find_run(event.run_id) is not None:
        return record_conflict(task, event, f"the run {event.run_id} was under way already")
    run = Run(
        id=event.run_id,
        agent=event.agent,
        purpose=event.purpose,
        started_at=event.ts,
        handoff_id=event.handoff_id,
        tier=event.tier,
        about=event.commit or _open_rejection_id(task, event),
        session=event.meta.session,
    )
    claim = task.claim
    if (
        claim is not None
        and event.purpose == work_events.Purpose.WORK
        and claim.handoff_id == event.handoff_id
    ):
        claim = replace(claim, runner=event.meta.session, run_ended="")
    return replace(task, runs=(*task.runs, run)[-MAX_RUNS:], claim=claim)


def _open_rejection_id(task: Task, event: work_events.RunStarted) -> str:
    """The rejection that waits for a director."""
    return (
        task.rejections.last_rejection.rejection_id
        if task.rejections.last_rejection and event.purpose == work_events.Purpose.DIRECT
        else ""
    )


def apply_run_ended(task: Task, event: work_events.RunEnded) -> Task:
    """Adds the run's cost to the task. Two ledgers may find the same run lost."""
    run = task.find_run(event.run_id)
    if run is None and event.how == work_events.How.LOST:
        return task
    if run is None:
        return record_conflict(task, event, f"the run {event.run_id} was not under way at that time")
    left = tuple(one for one in task.runs if one.id != event.run_id)
    task = replace(task, runs=left, spent=add_run_cost(task.spent, event))
    claim = task.claim
    if claim is None or run.handoff_id != claim.handoff_id:
        return task
    has_begun = event.how != work_events.How.NOT_STARTED
    is_no_attempt = (not has_begun or event.is_trial) and not claim.has_run
    return update_task(
        task,
        claim=replace(
            claim, run_ended=event.how, has_run=claim.has_run or (has_begun and not event.is_trial)
        ),
        attempt_count=max(task.claims.attempt_count - is_no_attempt, 0),
    )


def apply_task_returned(task: Task, event: work_events.TaskReturned) -> Task:
    """Back to its queue; what was begun is continued with before what is new."""
    if event.has_work and task.queue == Status.INCOMING:
        task = replace(task, queue=Status.NEEDS_CONTINUATION)
    return advance_task(task, event, claim=None, waiting_for="")


MAX_ABANDONED = 20
MAX_TRIES_KEPT = 1000
_ACTS = frozenset(ForgeAction)


def apply_issue_imported(task: Task, event: work_events.IssueImported) -> Task:
    """The first statement of a task's source counts."""
    if task.forge.issue or event.issue <= 0:
        return task
    return replace(task, forge=replace(task.forge, issue=event.issue))


def forge_state_after_submission(task: Task, event: TaskSubmitted | HandoffCompleted) -> TaskForgeState:
    """The forge state after a submission: who named the branch. To another branch nothing was pushed."""
    is_moved = event.is_branch_given and event.branch != task.branch
    if not event.branch or (task.branch and not is_moved):
        return task.forge
    return replace(task.forge, is_branch_agents=True, pushed="" if task.branch else task.forge.pushed)


def apply_act_intended(task: Task, event: work_events.ActIntended) -> Task:
    """Two ledgers may plan the same action; each checks the forge before acting."""
    if event.act not in _ACTS:
        return task
    known = task.forge.intent
    if known is not None and (known.act, known.about) == (event.act, event.about):
        return task
    intent = PlannedAction(act=ForgeAction(event.act), about=event.about)
    return replace(
        task,
        forge=replace(
            task.forge, intent=intent, given_up=_without_abandoned(task.forge, intent.act, intent.about)
        ),
    )


def apply_act_done(task: Task, event: work_events.ActDone) -> Task:
    """Records the current state of the forge."""
    if event.act not in _ACTS:
        return task
    act = ForgeAction(event.act)
    forge = replace(
        task.forge,
        intent=_remaining_intent(task.forge, act, event.about),
        given_up=_without_abandoned(task.forge, act, event.about),
    )
    match act:
        case ForgeAction.PUSH:
            return replace(task, forge=replace(forge, pushed=event.about))
        case ForgeAction.OPEN:
            return replace(task, forge=forge, pr=event.pr if event.pr > 0 else task.pr)
        case ForgeAction.REQUEST:
            return replace(task, forge=replace(forge, requested=event.about))
        case ForgeAction.MERGE:
            return replace(task, forge=replace(forge, merged=event.about))
        case ForgeAction.CLOSE:
            return replace(task, forge=replace(forge, is_closed=True))


def apply_act_failed(task: Task, event: work_events.ActFailed) -> Task:
    """Delays the action, or gives it up."""
    intent = task.forge.intent
    is_begun = intent is not None and (intent.act, intent.about) == (event.act, event.about)
    if event.act not in _ACTS or not (is_begun or (intent is None and event.is_final)):
        return task
    act, about = ForgeAction(event.act), event.about
    if intent is not None and not event.is_final:
        tries = max(0, min(event.tries, MAX_TRIES_KEPT))
        until = bound_lease(event.until, event.ts)
        waits = replace(intent, tries=tries, until=until, why=event.why)
        return replace(task, forge=replace(task.forge, intent=waits))
    given_up = AbandonedAction(act=act, about=about, why=event.why)
    rest = _without_abandoned(task.forge, act, about)
    return replace(task, forge=replace(task.forge, intent=None, given_up=(*rest, given_up)[-MAX_ABANDONED:]))


def _remaining_intent(forge: TaskForgeState, act: ForgeAction, about: str) -> PlannedAction | None:
    """The plan that remains once an action is known to have happened."""
    intent = forge.intent
    return None if intent is not None and (intent.act, intent.about) == (act, about) else intent


def _without_abandoned(forge: TaskForgeState, act: ForgeAction, about: str) -> tuple[AbandonedAction, ...]:
    return tuple(one for one in forge.given_up if (one.act, one.about) != (act, about))
