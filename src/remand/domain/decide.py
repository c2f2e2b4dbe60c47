"""The registry of commands, and `decide`, which turns a command on a task into events or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.access.team import REVIEWERS, Actor, Role
from remand.domain.decisions import (
    claims,
    escalations,
    forge_actions,
    gates,
    handoffs,
    objections,
    rejections,
    reviews,
    runs,
    tasks,
)
from remand.domain.decisions.claims import add_team_to_lockouts
from remand.domain.decisions.notices import mark_overrides
from remand.domain.events.event import Events
from remand.domain.preconditions import require_role
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused, unknown_handoff_refusal, unknown_task_refusal
from remand.domain.task import Task


class FactKind(Enum):
    """Facts that only some commands need; `app/facts.py` has a lookup function for each."""

    NEW_TASK = auto()
    NEW_HANDOFF = auto()
    CLAIMANTS = auto()
    LINKS = auto()
    OWNERS = auto()
    DEFERRAL = auto()
    WAITED_TASKS = auto()
    MEMBER = auto()
    STAFF = auto()
    CAPACITY = auto()
    REJECTION = auto()
    ANSWER = auto()
    OUTAGES = auto()
    OBJECTIONS = auto()
    DISMISSED = auto()
    UNDO = auto()
    ACTIONS = auto()


class CommandRule(NamedTuple):
    """The declaration of one command."""

    decide: Callable[[Any, Any, c.CommandContext], Events]
    leads_to: str
    """The names of the events it may lead to."""
    refusals: str
    """The refusal codes of its decision, besides `COMMON_REFUSALS`."""
    roles: frozenset[Role] | None = None
    """The roles that may give it; None: everybody, or the holder of the claim."""
    needs: tuple[FactKind, ...] = ()
    names: tuple[str, ...] = ()
    """The fields that name members."""
    is_by_agent: bool = False
    """Whether its field `agent` is the actor."""
    is_verified: bool = True
    """Whether the task's events must be verified; False for a command that releases no work."""
    is_internal: bool = False
    """Whether only the program itself gives it, in a member's name; no interface accepts it."""


# The module that judges rejections loads much, so it is imported with the first rejection.


def _file_rejection(task: Task, command: c.RejectHandoff, context: c.CommandContext) -> Events:
    return rejections.file_rejection(task, command, context)


def _appeal_rejection(task: Task, command: c.AppealRejection, context: c.CommandContext) -> Events:
    return rejections.appeal_rejection(task, command, context)


def _answer_rejection(task: Task, command: c.AnswerRejection, context: c.CommandContext) -> Events:
    return rejections.answer_rejection(task, command, context)


def _record_opinion(task: Task, command: c.GiveOpinion, context: c.CommandContext) -> Events:
    return rejections.record_opinion(task, command, context)


_USER = frozenset({Role.USER})
_DIRECTORS = frozenset({Role.USER, Role.DIRECTOR})
_LEADERS = _DIRECTORS | REVIEWERS
COORDINATOR = frozenset({Role.COORDINATOR})
_STAFF = (FactKind.STAFF,)

COMMON_REFUSALS = (
    "bad_value lines_missing name_taken not_authorised not_eligible not_yours "
    "nothing_to_claim unknown_handoff unknown_task user_only"
)
"""Refusals possible for any command, before or after its decision: about names, roles, unknown tasks."""

RULES: dict[type[c.Command], CommandRule] = {
    # Tasks. Each row: the decision, its events, its refusals, and the roles if not everybody may give the command.
    c.AddTask: CommandRule(tasks.add_task, "edge.create node.create",
        "taken", needs=(FactKind.NEW_TASK, FactKind.LINKS), is_verified=False),
    c.ImportIssue: CommandRule(tasks.import_issue, "edge.create forge.import node.create",
        "taken", COORDINATOR, needs=(FactKind.NEW_TASK, FactKind.LINKS), is_verified=False),
    c.EditTask: CommandRule(tasks.edit_task, "edge.create edge.delete node.update",
        "bad_transition closes_cycle own_work taken", _DIRECTORS, needs=(FactKind.LINKS, FactKind.OWNERS)),
    c.CancelTask: CommandRule(tasks.cancel_task, "escalation.answer task.cancel",
        "bad_transition own_work", _DIRECTORS),
    c.ReopenTask: CommandRule(tasks.reopen_task, "escalation.answer escalation.open task.reopen",
        "bad_transition own_work too_late", _DIRECTORS, needs=(FactKind.STAFF, FactKind.UNDO)),
    c.DeferTask: CommandRule(tasks.defer_task, "task.defer",
        "bad_transition closes_cycle own_work", _DIRECTORS, needs=(FactKind.LINKS, FactKind.DEFERRAL)),
    c.WakeTask: CommandRule(tasks.wake_task, "task.wake", "", COORDINATOR),
    c.SettleTask: CommandRule(tasks.settle_task, "task.settle", "", COORDINATOR),
    c.CheckStaff: CommandRule(tasks.check_staff, "escalation.open", "", COORDINATOR, needs=_STAFF),
    # Claims and handoffs.
    c.ClaimTask: CommandRule(claims.claim_task, "handoff.accept task.claim",
        "already_claimed bad_transition locked_out waits_on_other",
        needs=(FactKind.NEW_HANDOFF, FactKind.CLAIMANTS), is_by_agent=True, is_verified=False),
    c.Heartbeat: CommandRule(claims.renew_lease, "task.heartbeat",
        "lease_lost", is_by_agent=True, is_verified=False),
    c.ReleaseTask: CommandRule(claims.release_task, "escalation.open task.release",
        "exit_used lease_lost", is_by_agent=True),
    c.ContinueTask: CommandRule(claims.continue_task, "escalation.open task.continue",
        "exit_used lease_lost", is_by_agent=True),
    c.WaitTask: CommandRule(claims.wait_task, "task.wait",
        "exit_used lease_lost nothing_to_wait_for", needs=(FactKind.WAITED_TASKS,), is_by_agent=True),
    c.FailTask: CommandRule(claims.fail_task, "lockout.set task.fail", "lease_lost", is_by_agent=True),
    c.SubmitTask: CommandRule(claims.submit_task, "gate.pass task.submit",
        "feedback_unread lease_lost locked_out no_gates not_measured not_on_branch nothing_committed "
        "taken unknown_commit", needs=(FactKind.OWNERS,), is_by_agent=True),
    c.ExpireLease: CommandRule(claims.expire_lease, "escalation.open handoff.lapse run.end task.expire",
        "", COORDINATOR),
    c.InitiateHandoff: CommandRule(handoffs.initiate_handoff, "handoff.initiate",
        "already_claimed bad_transition locked_out taken waits_on_other", _LEADERS,
        needs=(FactKind.NEW_HANDOFF, FactKind.MEMBER), names=("source", "target")),
    c.AcceptHandoff: CommandRule(handoffs.accept_handoff, "handoff.accept",
        "already_claimed bad_transition handoff_closed locked_out waits_on_other", is_by_agent=True),
    c.CompleteHandoff: CommandRule(handoffs.complete_handoff, "gate.pass handoff.complete",
        "bad_transition feedback_unread handoff_closed lease_lost locked_out no_gates not_measured "
        "not_on_branch nothing_committed taken unknown_commit", needs=(FactKind.OWNERS,), is_by_agent=True),
    c.FetchFeedback: CommandRule(reviews.record_feedback_fetch, "feedback.fetch",
        "locked_out", is_by_agent=True),
    # Runs.
    c.AssignTask: CommandRule(claims.assign_task, "handoff.accept run.start task.claim",
        "already_claimed already_running bad_transition locked_out waits_on_other", COORDINATOR,
        needs=(FactKind.NEW_HANDOFF, FactKind.MEMBER), names=("agent",), is_verified=False),
    c.StartRun: CommandRule(runs.start_run, "run.start",
        "already_running bad_transition lease_lost locked_out nothing_to_review own_work", COORDINATOR,
        needs=(FactKind.NEW_HANDOFF, FactKind.MEMBER), names=("agent",), is_verified=False),
    c.EndRun: CommandRule(runs.end_run, "escalation.open run.end task.return",
        "", COORDINATOR, is_verified=False),
    # Rejections of a task.
    c.RejectHandoff: CommandRule(_file_rejection,
        "edge.create escalation.open handoff.initiate handoff.reject handoff.reject.invalid "
        "handoff.reject.response lockout.set node.create task.block task.cancel task.decompose task.defer "
        "task.infeasible",
        "bad_transition handoff_closed lease_lost", needs=(FactKind.REJECTION,), is_by_agent=True),
    c.AppealRejection: CommandRule(_appeal_rejection, "handoff.appeal task.block",
        "exit_used handoff_closed lease_lost nothing_to_appeal", needs=(FactKind.ANSWER,), is_by_agent=True),
    c.AnswerRejection: CommandRule(_answer_rejection,
        "edge.create handoff.initiate handoff.lapse handoff.reject.response handoff.resume "
        "lockout.clear lockout.set node.create task.block task.cancel task.decompose task.defer task.infeasible task.release "
        "task.reopen",
        "bad_transition closes_cycle handoff_closed locked_out nothing_to_answer own_work", _DIRECTORS,
        needs=(FactKind.ANSWER,), names=("reassign_to",)),
    c.GiveOpinion: CommandRule(_record_opinion, "handoff.reject.opinion", "nothing_to_answer", COORDINATOR),
    # Reviews and lockouts.
    c.RequestReview: CommandRule(reviews.request_review, "review.request",
        "locked_out nothing_to_review own_work", REVIEWERS, needs=(FactKind.NEW_HANDOFF, FactKind.MEMBER),
        names=("reviewer",)),
    c.ApproveReview: CommandRule(reviews.approve_review, "review.approve",
        "control_changed head_moved locked_out not_measured nothing_to_review out_of_scope own_work rejected_before "
        "stale_review too_late unconfirmed_no unknown_commit vacuous_approval", REVIEWERS,
        needs=(FactKind.OBJECTIONS,)),
    c.RejectReview: CommandRule(reviews.reject_review,
        "escalation.open handoff.initiate lockout.set review.reject task.reassign",
        "locked_out nothing_to_review out_of_scope own_work stale_review too_late unknown_commit", REVIEWERS,
        needs=(FactKind.STAFF, FactKind.CAPACITY)),
    c.RetractReview: CommandRule(reviews.retract_review, "lockout.clear review.retract",
        "bad_transition nothing_to_retract", REVIEWERS, needs=_STAFF),
    c.AddComments: CommandRule(reviews.add_review_comments, "review.comment",
        "locked_out nothing_to_review own_work", REVIEWERS, is_internal=True),
    c.NoteReview: CommandRule(reviews.record_review, "review.note", "", COORDINATOR),
    c.NoteMerge: CommandRule(reviews.record_merge, "escalation.open review.bypass", "", COORDINATOR),
    c.DismissObjections: CommandRule(objections.dismiss_objections, "objection.dismiss",
        "nothing_to_answer", _USER, needs=(FactKind.DISMISSED,)),
    c.LockOut: CommandRule(claims.lock_out_agent, "escalation.open lockout.set",
        "bad_transition own_work", REVIEWERS, needs=_STAFF, names=("agent",)),
    c.Unlock: CommandRule(claims.unlock_agent,
        "escalation.answer handoff.initiate handoff.lapse lockout.clear",
        "", _USER, needs=_STAFF, names=("agent",)),
    c.ReassignTask: CommandRule(claims.reassign_task, "escalation.answer handoff.initiate task.reassign",
        "bad_transition locked_out own_work waits_on_other", _LEADERS, needs=_STAFF,
        names=("source", "target")),
    # Questions to the user.
    c.EscalateTask: CommandRule(escalations.escalate_task, "escalation.open", "bad_transition exit_used"),
    c.AnswerEscalation: CommandRule(escalations.answer_escalation,
        "escalation.acknowledge escalation.answer escalation.open gate.accept gate.alert gate.pass "
        "gate.refuse gate.reject handoff.initiate lockout.clear review.approve task.cancel task.claim "
        "task.heartbeat task.reassign task.submit",
        "locked_out nothing_held nothing_to_answer out_of_scope own_work unconfirmed_no", _USER,
        needs=_STAFF),
    c.RetractAnswer: CommandRule(tasks.retract_answer, "answer.retract",
        "nothing_to_retract too_late", _LEADERS, needs=(FactKind.UNDO,)),
    c.AcknowledgeEscalation: CommandRule(escalations.acknowledge_escalation, "escalation.acknowledge",
        "nothing_to_answer", _USER),
    c.RepeatEscalation: CommandRule(escalations.repeat_escalation, "escalation.repeat", "", COORDINATOR),
    c.NoteDelivery: CommandRule(escalations.record_delivery, "escalation.notify", "", COORDINATOR),
    # Gates.
    c.RecordVerdict: CommandRule(gates.record_verdict,
        "escalation.open gate.alert gate.error gate.hold gate.pass gate.reject task.heartbeat",
        "lease_lost", COORDINATOR, needs=(FactKind.OUTAGES,)),
    c.NoteGatesMeasured: CommandRule(gates.record_measured_gates, "escalation.answer gate.recover",
        "", COORDINATOR, needs=(FactKind.OUTAGES,)),
    c.RecordSessionVerdict: CommandRule(gates.record_session_verdict, "session.verdict", "", COORDINATOR),
    c.CountIdleStop: CommandRule(claims.count_idle_stop, "escalation.open task.idle", "", COORDINATOR),
    c.SettleFinding: CommandRule(gates.settle_finding,
        "escalation.answer escalation.open gate.accept gate.alert gate.pass gate.refuse gate.reject "
        "task.heartbeat task.submit",
        "nothing_held out_of_scope own_work", REVIEWERS),
    c.OverrideGate: CommandRule(gates.override_gate, "gate.accept gate.override gate.pass task.submit",
        "nothing_to_override", _USER),
    # The forge.
    c.PlanForgeAction: CommandRule(forge_actions.plan_action, "forge.intend",
        "given_up not_approved not_due nothing_to_review policy_off rejected_before stale_review",
        COORDINATOR, needs=(FactKind.ACTIONS,)),
    c.RecordForgeAction: CommandRule(forge_actions.record_action, "forge.done", "", COORDINATOR),
    c.RecordForgeActionFailure: CommandRule(forge_actions.record_action_failure, "forge.fail",
        "", COORDINATOR),
}  # fmt: skip

REQUESTS = tuple(kind for kind, rule in RULES.items() if rule.roles != COORDINATOR and not rule.is_internal)
"""The commands that interfaces may accept."""


def require_permission(kind: type[c.Command], actor: Actor) -> None:
    """Refuses an actor without a role that permits such a command."""
    require_role(RULES[kind].roles, actor)


def decide(task: Task | None, context: c.CommandContext) -> Events | Refused:
    """The events that follow from a command, or its refusal."""
    command, actor, facts = context.command, context.actor, context.facts
    rule = RULES[type(command)]
    try:
        r.require_distinct_names(facts)
        r.require_role(rule.roles, actor)
        r.require_names(actor.name)
        if rule.is_by_agent:
            r.require_own_name(getattr(command, "agent", ""), actor)
        if isinstance(command, c.AddTask):
            return rule.decide(task, command, context)
        if task is None:
            raise _missing_task_refusal(context)
        events = rule.decide(task, command, context)
        if r.need_complete_log(events):
            r.require_whole_log(task, facts)
        return mark_overrides(add_team_to_lockouts(task, events, facts.team.members), actor)
    except Refused as refusal:
        return refusal


def _missing_task_refusal(context: c.CommandContext) -> Refused:
    command = context.command
    if isinstance(command, c.ClaimTask) and not command.task_id:
        r.require_agent(context.actor, context.facts)
    if isinstance(command, c.ClaimTask | c.AssignTask) and not command.task_id:
        return Refused("nothing_to_claim", f"There is no free task for {command.agent} now.")
    if isinstance(command, c.HandoffCommand):
        return unknown_handoff_refusal(command.handoff_id)
    return unknown_task_refusal(getattr(command, "task_id", ""))
