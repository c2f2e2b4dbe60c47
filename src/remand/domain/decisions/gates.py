"""Decisions on done claims and the gates they must pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.decisions.findings import (
    REJECTED_BEFORE,
    describe_held_count,
    find_rejected_change,
    is_change_accepted,
    is_same_change,
    open_findings,
    require_finding_in_scope,
    require_not_worker,
    settle_lines,
)
from remand.domain.decisions.notices import MAX_STALLED, ask_user, raise_alert
from remand.domain.events.event import Events
from remand.domain.events.reviews import EscalationAnswered
from remand.domain.events.tasks import LeaseRenewed, TaskSubmitted
from remand.domain.events.work import (
    FindingAccepted,
    FindingRefused,
    GateErrored,
    GateHeld,
    GateOverridden,
    GatePassed,
    GateRecovered,
    GateRejected,
    SessionMeasured,
)
from remand.domain.facts import Facts
from remand.domain.gate.control_files import NO_CHANGE, ControlChange, is_control_finding
from remand.domain.gate.gate import gate_title
from remand.domain.gate.state import (
    GATE_QUESTION,
    RETRY,
    broken_gate_names,
    find_measured_gates,
    find_outages,
    render_outage_question,
    update_gates,
    without_gates,
)
from remand.domain.gate.verdict import (
    INTEGRITY_GATE,
    PASSING,
    UNMEASURED,
    GateResult,
    GateStatus,
    Verdict,
    overall_status,
)
from remand.domain.instant import add_seconds
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.task import MAX_LEASE_SECONDS, Claim, Task, update_task
from remand.domain.text.words import format_count

MAX_LEFT_OUT = 50


def require_own_commit(task: Task, claim: Claim, context: c.CommandContext) -> None:
    """Refuses an agent's commit that is the base at the claim, or the base now if the task has its own branch.

    People may submit work without a commit: without gates nothing is measured, and a reviewer checks it.
    """
    facts = context.facts
    if not context.actor.confined:
        return
    base = "" if task.branch in ("", facts.work.base_branch) else facts.work.base
    require_off_base(
        task,
        facts.work.commit,
        is_on_base=bool(facts.work.commit) and facts.work.commit in (claim.base, base),
    )


def is_unmeasured(answer: object) -> bool:
    """True if a done claim lacks only a verdict under the current rules."""
    return isinstance(answer, Refused) and answer.code == "not_measured"


def require_off_base(task: Task, commit: str, *, is_on_base: bool) -> None:
    """Refuses a done claim for a commit that the base already contains."""
    if is_on_base:
        raise Refused(
            "nothing_committed",
            f"{commit[:12]} contains no work on task {task.id}: the base already contains it. Commit the work, then claim done.",
        )


def require_gates_table(gates: object) -> None:
    """Refuses to run gates if the configuration has no `[gates]` table."""
    if gates is None:
        raise Refused(
            "no_gates",
            "remand.toml has no [gates] table. Add the line `[gates]` to it, and the gates below it.",
        )


def verdict_refusal(verdict: Verdict, text: str) -> Refused:
    """The refusal of a done claim by a verdict, with the agent's message."""
    if verdict.status is GateStatus.HELD:
        return Refused("gate_held", text)
    return Refused("gate_errored" if verdict.status in UNMEASURED else "gate_rejected", text)


class MergeFacts(Record, kw_only=True):
    """Facts about a commit to be merged, under the rules and keys of the target branch."""

    commit: str
    tree: str
    base: str
    """The target branch as named by the caller."""
    gates_digest: str
    doubts: tuple[str, ...] = ()
    """Why each verdict on this code tree without a trusted key does not count."""
    control: ControlChange = NO_CHANGE
    """The commit's changes below `.got`."""


def require_current_base(current: str, commit: str, name: str) -> None:
    """Refuses to judge by a commit other than the current base, whose rules and keys count."""
    if commit != current:
        raise Refused(
            "bad_value",
            f"{name} is {commit[:12]}, and the base is at {current[:12]}. Name the base as it is now.",
        )


def require_release(tasks: Sequence[Task], facts: MergeFacts) -> Task:
    """The task whose gates have passed on the code tree of a commit; refuses to merge a commit without one.

    `remand gate check` uses this. `tasks` are those whose last effective verdict is on that code tree.
    """
    name = f"{facts.commit[:12]} (code tree {facts.tree[:12]})"
    if not tasks:
        why = f" A verdict on it is in the log, but {facts.doubts[0]}." if facts.doubts else ""
        raise Refused(
            "not_measured",
            f"No verdict that a key trusted by {facts.base} signed is on {name}.{why} Submit this commit"
            " (`remand task submit`, or the MCP tool `submit`), then `remand log publish --task ID` and push the branch.",
        )
    released = [task for task in tasks if task.gates.is_released]
    if not released:
        task, status = tasks[0], tasks[0].gates.status or GateStatus.STALE
        blocking = ", ".join(task.gates.blocking) or "a reviewer's decision"
        verdict = Verdict(status=status, commit=facts.commit, tree=facts.tree)
        raise verdict_refusal(verdict, f"The gates of {task.id} have not passed on {name}: {blocking}.")
    current = [task for task in released if task.gates.policy == facts.gates_digest]
    if not current:
        raise Refused(
            "not_measured",
            f"{facts.base} has other gate rules than those that {name} was measured by. Submit it again.",
        )
    settled = [task for task in current if not unsettled_control_changes(task, [facts.control])]
    if not settled:
        raise Refused("control_changed", f"{facts.commit[:12]} cannot be merged: {facts.control.text}.")
    return settled[0]


def require_new_change(task: Task, facts: Facts) -> None:
    """Refuses a change that was rejected before and that the user has not let pass.

    The very commit that was rejected means that the new work is not committed: nobody is asked about it unless it comes
    again under the same claim.
    """
    name = facts.work.same_change or find_rejected_change(task, facts.work.tree, facts.work.patch)
    if not name or is_change_accepted(task, name, facts.work.tree):
        return
    commit, claim = facts.work.commit, task.claim
    is_repeated = claim is not None and claim.repeated == commit
    if facts.gate_rules.is_enforced and is_rejected_commit(task, commit) and not is_repeated:
        raise rejected_commit_refusal(commit)
    raise Refused(
        "not_measured",
        f"{facts.work.commit[:12]} makes the same change as a rejected submission of {task.label}.",
    )


def is_rejected_commit(task: Task, commit: str) -> bool:
    """True for the very commit that a reviewer rejected for this task."""
    return any(one.commit == commit for one in task.standing_rounds)


def rejected_commit_refusal(commit: str) -> Refused:
    """The answer to the first done claim for the very commit that was rejected."""
    return Refused(
        "nothing_committed",
        f"{commit[:12]} is the commit that was rejected. Commit the changes since then, then claim done."
        " Submitted once more as it is, it goes to the user.",
    )


def open_outage_question(task: Task, verdict: Verdict, context: c.CommandContext) -> Events:
    """The question to the user about gates that this verdict shows to be broken, unless it is open already."""
    facts, outages = context.facts, find_outages(verdict)
    known = (*task.gates.outages, *facts.gate_rules.outages)
    broken = broken_gate_names(
        (*without_gates(known, find_measured_gates(verdict)), *outages), facts.gate_rules.gates_digest
    )
    new = tuple(one for one in outages if one.gate in broken and one.gate not in facts.gate_rules.asked_gates)
    if not new:
        return ()
    question = ask_user(task, GATE_QUESTION, render_outage_question(new), context)
    return (replace(question, gates=tuple(one.gate for one in new)),)


def record_measured_gates(task: Task, command: c.NoteGatesMeasured, context: c.CommandContext) -> Events:
    """The consequences for a task when gates ran again, or their rules changed: a question about them is closed."""
    facts = context.facts
    gates = tuple(dict.fromkeys(one.gate for one in task.gates.outages if one.gate in command.gates))
    recovered = (GateRecovered(task_id=task.id, gates=gates),) if gates else ()
    left = without_gates((*task.gates.outages, *facts.gate_rules.outages), command.gates)
    escalation = task.open_escalation
    if escalation is None or escalation.kind != GATE_QUESTION:
        return recovered
    if broken_gate_names(left, facts.gate_rules.gates_digest) & set(escalation.gates):
        return recovered
    answered = EscalationAnswered(task_id=task.id, escalation_id=escalation.id, option=RETRY)
    return (*recovered, answered)


def require_passing_verdict(task: Task, claim: Claim, context: c.CommandContext) -> Events:
    """The requirement for submitting work: a release of its code tree under the current rules.

    Without gates, an empty verdict is recorded here, which says so. If another commit has the released code tree, the
    release is repeated for it: a submission always names the commit of its release.
    """
    facts = context.facts
    if facts.gate_rules.gates is None:
        raise Refused(
            "no_gates",
            "remand.toml has no [gates] table. Add the line `[gates]` to it (empty: there are no gates).",
        )
    require_new_change(task, facts)
    _require_control_settled(task, facts)
    own: dict[str, Any] = {"task_id": task.id, "handoff_id": claim.handoff_id, "agent": claim.agent}
    if not facts.gate_rules.gates:
        if task.details.must_pass:
            raise Refused(
                "no_gates",
                f"Task {task.id} names tests that must pass, and remand.toml has no gate that could run them. Add one.",
            )
        require_own_commit(task, claim, context)
        empty = Verdict(
            status=GateStatus.PASSED,
            commit=facts.work.commit,
            tree=facts.work.tree,
            policy=facts.gate_rules.gates_digest,
            tier="none",
        )
        return (GatePassed(verdict=empty, **own),)
    if facts.work.commit_of:
        raise Refused(
            "nothing_committed",
            f"{facts.work.commit[:12]} was submitted for task {facts.work.commit_of}. Commit the work on {task.id}, then claim done.",
        )
    gates = task.gates
    if not gates.is_released or not facts.work.tree or gates.tree != facts.work.tree:
        raise Refused(
            "not_measured",
            f"The gates {', '.join(facts.gate_rules.gates)} have not passed at {facts.work.commit[:12]}; work cannot be submitted before they pass.",
        )
    if gates.policy != facts.gate_rules.gates_digest:
        raise Refused(
            "not_measured",
            f"The rules have changed since the gates ran on {facts.work.commit[:12]}; the verdict is stale.",
        )
    if gates.commit == facts.work.commit:
        return ()
    is_observed = gates.status not in PASSING
    return (GatePassed(verdict=_carry_over_verdict(task, facts), is_observed=is_observed, **own),)


def _require_control_settled(task: Task, facts: Facts) -> None:
    """Refuses work that changes the ledger's own files until somebody has accepted that."""
    for change in unsettled_control_changes(task, facts.work.control):
        raise Refused("not_measured", f"{facts.work.commit[:12]} is held for a reviewer: {change.text}.")


def unsettled_control_changes(task: Task, changes: Sequence[ControlChange]) -> tuple[ControlChange, ...]:
    """The changes of the ledger's own files that no reviewer accepted and no release of that commit covers."""
    gates = task.gates
    released = gates.commit if gates.is_released else ""
    return tuple(
        one
        for one in changes
        if one.name and one.name not in gates.decisions.accepted and one.commit != released
    )


def _carry_over_verdict(task: Task, facts: Facts) -> Verdict:
    """The verdict on a code tree for another commit with the same tree."""
    gates = task.gates
    results = tuple(
        GateResult(
            name=name,
            status=GateStatus.FAILED if name in gates.blocking else GateStatus.PASSED,
            line=f"- {gate_title(name)}: measured at {gates.commit[:12]}, which has the same code",
        )
        for name in dict.fromkeys((*(facts.gate_rules.gates or ()), *gates.blocking))
    )
    verdict = _verdict_with_results(task, results)
    return replace(verdict, commit=facts.work.commit, status=gates.status or GateStatus.PASSED)


def record_verdict(task: Task, command: c.RecordVerdict, context: c.CommandContext) -> Events:
    """The consequences of a verdict on a done claim."""
    under = c.ClaimCommand(task_id=task.id, agent=command.agent, handoff_id=command.handoff_id)
    claim = r.require_claim(task, under, context.at)
    verdict = (
        command.verdict
        if command.verdict.policy
        else replace(command.verdict, policy=context.facts.gate_rules.gates_digest)
    )
    own: dict[str, Any] = {"handoff_id": claim.handoff_id, "agent": claim.agent}
    if verdict.allows_submission:
        return (GatePassed(task_id=task.id, verdict=verdict, **own),)
    if not context.facts.gate_rules.is_enforced:
        return (GatePassed(task_id=task.id, verdict=verdict, is_observed=True, **own),)
    if verdict.status is GateStatus.HELD:
        until = add_seconds(context.at, MAX_LEASE_SECONDS - 1)
        return (
            GateHeld(
                task_id=task.id,
                verdict=verdict,
                lease_expires_at=until,
                branch=command.branch,
                is_branch_given=command.is_branch_given,
                pr=command.pr,
                **own,
            ),
            *_rejected_change_question(task, claim, verdict, context),
        )
    if verdict.status in UNMEASURED:
        errored = GateErrored(task_id=task.id, verdict=verdict, **own)
        return (errored, *open_outage_question(task, verdict, context))
    return _reject_claim(task, claim, verdict, context)


def record_session_verdict(
    task: Task, command: c.RecordSessionVerdict, _context: c.CommandContext
) -> tuple[SessionMeasured]:
    """Records the measurement of a session; it has no consequences for any task."""
    return (
        SessionMeasured(
            task_id=task.id,
            verdict=command.verdict,
            host=command.host,
            is_own=command.is_own,
            left_out=command.left_out[:MAX_LEFT_OUT],
        ),
    )


def _rejected_change_question(
    task: Task, claim: Claim, verdict: Verdict, context: c.CommandContext
) -> Events:
    """The question to the user about a resubmitted rejected change, which only the user can let pass."""
    same = next(filter(is_same_change, verdict.suspicions), "")
    if not same or same in task.gates.decisions.accepted:
        return ()
    why = f"{claim.agent} submitted a change for {task.label} that was rejected before"
    return (ask_user(task, REJECTED_BEFORE, why, context),)


def _reject_claim(
    task: Task, claim: Claim, verdict: Verdict, context: c.CommandContext, because: str = ""
) -> Events:
    gates, facts = task.gates, context.facts
    number = gates.progress.count + 1
    progress = has_progress(task, verdict)
    stalled = 0 if progress or number <= facts.policy.alert_after_gates else gates.progress.stalled + 1
    rejected = GateRejected(
        task_id=task.id,
        handoff_id=claim.handoff_id,
        agent=claim.agent,
        verdict=verdict,
        number=number,
        has_progress=progress,
        stalled=stalled,
        because=because,
    )
    about_gates = open_outage_question(task, verdict, context)
    if about_gates:
        return (rejected, *about_gates)
    if number < facts.policy.escalate_after_gates and stalled < MAX_STALLED:
        return (rejected, *raise_alert(task, claim, number, facts), *_restore_lease(task, claim, context))
    why = (
        f"{claim.agent} was rejected {format_count(number, 'time')} by the gates {', '.join(verdict.blocking_gates)}"
        f"{', the last two without progress' if stalled >= MAX_STALLED else ''}"
    )
    return (rejected, ask_user(task, "gates", why, context))


def _restore_lease(task: Task, claim: Claim, context: c.CommandContext) -> Events:
    """Shortens the long lease of a held claim again, as its agent may be gone."""
    until = add_seconds(context.at, context.facts.policy.lease_seconds)
    if task.gates.status is not GateStatus.HELD or claim.lease_expires_at <= until:
        return ()
    return (
        LeaseRenewed(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, lease_expires_at=until),
    )


def has_progress(task: Task, verdict: Verdict) -> bool:
    """True if fewer tests fail than at the previous rejection, or thresholds are missed by less."""
    gates = task.gates
    if not gates.progress.count:
        return True
    return verdict.failing_count < gates.progress.failing or verdict.excess < gates.progress.excess


def settle_finding(task: Task, command: c.SettleFinding, context: c.CommandContext) -> Events:
    """A reviewer's decision on a finding. When all are accepted, the held claim passes."""
    r.require_text("reason", command.reason)
    require_not_worker(task, context.actor)
    gates = task.gates
    if command.finding not in (*gates.held, *(name for name, _ in gates.decisions.refused)):
        raise Refused("nothing_held", _unknown_finding_message(task, command, context))
    require_finding_in_scope(task, command, context.actor)
    fields: dict[str, Any] = {
        "finding": command.finding,
        "reviewer": context.actor.name,
        "reason": command.reason,
    }
    if not command.is_accepted:
        refused = FindingRefused(task_id=task.id, **fields)
        return (refused, *_send_back_held_work(task, command, context))
    accepted = FindingAccepted(task_id=task.id, **fields)
    return (
        accepted,
        *_answer_rejected_change(task, command),
        *_submit_held_work(task, _settled_gates(task, accepted=command.finding), context),
    )


def _unknown_finding_message(task: Task, command: c.SettleFinding, context: c.CommandContext) -> str:
    """Says that there is no such finding, with a command for each existing one."""
    named = f" {command.finding[:40]!r}" if command.finding else ""
    findings = open_findings(task) or tuple(dict.fromkeys(task.gates.held))
    if not findings:
        return f"Task {task.id} has no held finding{named}."
    start = f"Task {task.id} has no held finding{named}" if named else "Name the finding"
    return f"{start}. {describe_held_count(len(findings))}:\n{settle_lines(task, context.actor, findings, is_accepted=command.is_accepted)}"


def _answer_rejected_change(task: Task, command: c.SettleFinding) -> Events:
    """The answer to the question about a rejected change: the task returns to its queue, where the change passes."""
    escalation = task.open_escalation
    if escalation is None or escalation.kind != REJECTED_BEFORE or not is_same_change(command.finding):
        return ()
    return (EscalationAnswered(task_id=task.id, escalation_id=escalation.id, option="reopen"),)


def override_gate(task: Task, command: c.OverrideGate, context: c.CommandContext) -> Events:
    """The user overrides a gate's failure for the measured code tree.

    A held claim passes as a result. After a rejection the override counts for the next claim: the rejecting verdict
    releases nothing, so nothing is submitted on its results for other gates.
    """
    r.require_text("reason", command.reason, may_be_empty=False)
    gates = task.gates
    standing = [name for name in gates.blocking if name not in _overridden_gates(task)]
    if command.gate not in standing:
        names = ", ".join(standing) or "none"
        raise Refused(
            "nothing_to_override",
            f"No gate {command.gate[:40]!r} blocks task {task.id}; the blocking gates are {names}.",
        )
    overridden = GateOverridden(task_id=task.id, gate=command.gate, tree=gates.tree, reason=command.reason)
    # The code tree excludes the ledger's own files: findings about those must be accepted by name.
    own: dict[str, Any] = {"task_id": task.id, "reviewer": context.actor.name, "reason": command.reason}
    control = _unsettled_control_findings(task) if command.gate == INTEGRITY_GATE else ()
    return (
        *(FindingAccepted(finding=name, **own) for name in control),
        overridden,
        *_submit_held_work(task, _settled_gates(task, overridden=command.gate), context),
    )


def _unsettled_control_findings(task: Task) -> tuple[str, ...]:
    """The held findings about the ledger's own files that nobody accepted."""
    gates = task.gates
    return tuple(
        name for name in gates.held if is_control_finding(name) and name not in gates.decisions.accepted
    )


def _overridden_gates(task: Task) -> set[str]:
    """The gates that the user overrode for the measured code tree."""
    names = {name for name, tree in task.gates.decisions.overridden if tree == task.gates.tree}
    return names - {INTEGRITY_GATE} if _unsettled_control_findings(task) else names


def is_settled_by_people(task: Task) -> bool:
    """True if people have settled everything that blocked the work, and its claim is still active."""
    claim, gates = task.claim, task.gates
    is_measured = claim is not None and claim.handoff_id == gates.handoff_id and bool(gates.blocking)
    return is_measured and not set(gates.blocking) - set(_settled_gates(task))


def _settled_gates(task: Task, *, accepted: str = "", overridden: str = "") -> dict[str, GateStatus]:
    """The gates that no longer block the measured code tree, with their status."""
    gates = task.gates
    after = update_task(task, gates=update_gates(gates, accepted=(*gates.decisions.accepted, accepted)))
    let_pass = {*_overridden_gates(after), overridden}
    settled = {name: GateStatus.OVERRIDDEN for name in gates.blocking if name in let_pass}
    if gates.held and not set(gates.held) - {*gates.decisions.accepted, accepted}:
        settled.setdefault(INTEGRITY_GATE, GateStatus.PASSED)
    return settled


def _submit_held_work(task: Task, settled: dict[str, GateStatus], context: c.CommandContext) -> Events:
    """Submits held work if nothing blocks it any more and its claim is still active."""
    claim, gates = _live_claim(task, context), task.gates
    if claim is None or gates.status is not GateStatus.HELD:
        return ()
    if set(gates.blocking) - set(settled) or gates.policy != context.facts.gate_rules.gates_digest:
        return ()
    own: dict[str, Any] = {"task_id": task.id, "handoff_id": claim.handoff_id, "agent": claim.agent}
    verdict = _verdict_with_results(
        task, tuple(_person_result(name, settled[name]) for name in gates.blocking)
    )
    return (
        GatePassed(verdict=verdict, **own),
        TaskSubmitted(
            commit=gates.commit,
            tree=gates.tree,
            branch=gates.branch,
            is_branch_given=gates.is_branch_given,
            pr=gates.pr,
            **own,
        ),
    )


def _send_back_held_work(task: Task, command: c.SettleFinding, context: c.CommandContext) -> Events:
    """Rejects a held claim on a reviewer's decision; without enforcement, only the decision is recorded."""
    claim, gates = _live_claim(task, context), task.gates
    is_held = gates.status is GateStatus.HELD and command.finding in gates.held
    if claim is None or not is_held or not context.facts.gate_rules.is_enforced:
        return ()
    results = tuple(_person_result(name, GateStatus.FAILED) for name in gates.blocking)
    because = (
        f"a reviewer refused the finding {command.finding}{f': {command.reason}' if command.reason else ''}"
    )
    return _reject_claim(task, claim, _verdict_with_results(task, results), context, because)


def _live_claim(task: Task, context: c.CommandContext) -> Claim | None:
    """The claim under which the work was measured, if still active: nobody else gets credit for it."""
    claim = task.claim
    if claim is None or claim.lease_expires_at <= context.at:
        return None
    return claim if claim.handoff_id == task.gates.handoff_id else None


_STATUS_WORDS = {
    GateStatus.PASSED: "accepted by a reviewer",
    GateStatus.OVERRIDDEN: "let pass by the user",
    GateStatus.FAILED: "refused by a reviewer",
}


def _person_result(name: str, status: GateStatus) -> GateResult:
    """A gate's result as decided by a person."""
    return GateResult(name=name, status=status, line=f"- {gate_title(name)}: {_STATUS_WORDS[status]}")


def _verdict_with_results(task: Task, results: tuple[GateResult, ...]) -> Verdict:
    """The task's last verdict with other results; the measurements are in the event before it."""
    gates = task.gates
    return Verdict(
        status=overall_status(results),
        commit=gates.commit,
        tree=gates.tree,
        base=gates.base,
        policy=gates.policy,
        tier=gates.tier,
        gates=results,
    )
