"""What follows from the events of gates."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.gates.outages import after_verdict, without
from remand.domain.gates.standing import Gating
from remand.domain.gates.verdict import RELEASING, Verdict
from remand.domain.steps import advance, bounded, conflict
from remand.domain.task import Status, Task

GateVerdict = e.GatePassed | e.GateRejected | e.GateHeld | e.GateErrored


def passed(task: Task, event: e.GatePassed) -> Task:
    is_released = event.verdict.is_release or event.is_observed
    return advance(task, event, gating=_judged(task, event, is_released=is_released, alert=None))


def rejected(task: Task, event: e.GateRejected) -> Task:
    gating = _judged(
        task,
        event,
        count=task.gating.count + 1,
        stalled=event.stalled,
        failing=event.verdict.failing_count,
        excess=event.verdict.excess,
    )
    return advance(task, event, gating=gating, gate_rejection_count=task.gate_rejection_count + 1)


def held(task: Task, event: e.GateHeld) -> Task:
    claim = task.claim and replace(task.claim, lease_expires_at=bounded(event.lease_expires_at, event.ts))
    gating = _judged(task, event, branch=event.branch, is_branch_given=event.is_branch_given, pr=event.pr)
    return advance(task, event, claim=claim, gating=gating)


def errored(task: Task, event: e.GateErrored) -> Task:
    return advance(
        task,
        event,
        claim=None,
        waiting_for="",
        queue=Status.NEEDS_CONTINUATION,
        gating=_judged(task, event),
    )


def accepted(task: Task, event: e.FindingAccepted) -> Task:
    gating = task.gating
    if event.finding in gating.accepted:
        return task
    refused = tuple(pair for pair in gating.refused if pair[0] != event.finding)
    accepted = (*gating.accepted, event.finding)
    return replace(task, gating=replace(gating, accepted=accepted, refused=refused))


def refused(task: Task, event: e.FindingRefused) -> Task:
    """Takes an acceptance back. Work that was let through unenforced stays so: nothing is stopped there."""
    gating = task.gating
    left = tuple(name for name in gating.accepted if name != event.finding)
    is_released = gating.is_released and gating.status not in RELEASING
    refused = (*(pair for pair in gating.refused if pair[0] != event.finding), (event.finding, event.reason))
    return replace(task, gating=replace(gating, accepted=left, refused=refused, is_released=is_released))


def overridden(task: Task, event: e.GateOverridden) -> Task:
    gating, pair = task.gating, (event.gate, event.tree)
    if pair in gating.overridden:
        return task
    return replace(task, gating=replace(gating, overridden=(*gating.overridden, pair)))


def recovered(task: Task, event: e.GateRecovered) -> Task:
    left = without(task.gating.outages, event.gates)
    return replace(task, gating=replace(task.gating, outages=left))


def claimed_anew(gating: Gating) -> Gating:
    """The gating of a task that another claim begins on: what was settled stays, the counts start again."""
    if not gating.count:
        return gating
    return replace(gating, count=0, stalled=0, failing=0, excess=0.0, alert=None)


def unreleased(task: Task, event: e.TaskSubmitted | e.HandoffCompleted) -> Task | None:
    """The conflict of work that was handed in without its gates' release; None when they let it through."""
    gating = task.gating
    if gating.is_released and (gating.commit, gating.tree) == (event.commit, event.tree):
        return None
    return conflict(task, event, "no verdict of the gates had released that work")


def _judged(task: Task, event: GateVerdict, *, is_released: bool = False, **changes: Any) -> Gating:
    verdict, gating = event.verdict, task.gating
    if any(gate.suspicions for gate in verdict.gates) and event.agent not in gating.questioned:
        gating = replace(gating, questioned=(*gating.questioned, event.agent))
    return replace(
        gating,
        status=verdict.status,
        handoff_id=event.handoff_id,
        commit=verdict.commit,
        tree=verdict.tree,
        base=verdict.base,
        policy=verdict.policy,
        tier=verdict.tier,
        standing=verdict.standing,
        held=verdict.suspicions,
        places=_places(verdict),
        is_released=is_released,
        outages=after_verdict(
            gating.outages, verdict, event.ts, is_stopped=not isinstance(event, e.GatePassed)
        ),
        **changes,
    )


def _places(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    """The file that each finding for a reviewer is about."""
    return tuple((name, finding.path) for gate in verdict.gates for name, finding in gate.held)
