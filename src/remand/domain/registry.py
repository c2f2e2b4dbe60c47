"""Every command of the domain, declared once: who may give it, which facts it needs, and what decides it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from remand.domain import commands as c
from remand.domain.access.team import REVIEWERS, Actor, Role
from remand.domain.decisions import (
    claims,
    escalations,
    forge_actions,
    gates,
    handoffs,
    lockouts,
    objections,
    rejections,
    reviews,
    runs,
    tasks,
)
from remand.domain.events.event import Events
from remand.domain.preconditions import require_role
from remand.domain.record import NamedTuple
from remand.domain.task import Task


class FactKind(Enum):
    """Facts that are looked up for some commands only; `app/facts.py` has a function for each."""

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


class CommandRule(NamedTuple):
    """What is declared of one command."""

    decide: Callable[[Any, Any, c.CommandContext], Events]
    roles: frozenset[Role] | None = None
    """Which roles may give it; None: everyone, or the agent that holds the claim."""
    needs: tuple[FactKind, ...] = ()
    names: tuple[str, ...] = ()
    """The fields that name a member."""
    is_by_agent: bool = False
    """Its field `agent` is whoever gives it."""
    is_verified: bool = True
    """False when it releases no work: events of a task that was only added need no second look."""
    is_internal: bool = False
    """Only the program itself gives it, in a member's name; no interface takes it."""


def _decide_rejection(task: Task, command: c.Command, context: c.CommandContext) -> Events:
    """Loads what judges rejections with the first one: it reads much."""
    return rejections.decide_rejection(task, command, context)


_USER = frozenset({Role.USER})
_DIRECTORS = frozenset({Role.USER, Role.DIRECTOR})
_LEADERS = _DIRECTORS | REVIEWERS
COORDINATOR = frozenset({Role.COORDINATOR})
_STAFF = (FactKind.STAFF,)

RULES: dict[type[c.Command], CommandRule] = {
    # Tasks.
    c.AddTask: CommandRule(tasks.add_task, needs=(FactKind.NEW_TASK, FactKind.LINKS), is_verified=False),
    c.ImportIssue: CommandRule(
        tasks.import_issue, COORDINATOR, needs=(FactKind.NEW_TASK, FactKind.LINKS), is_verified=False
    ),
    c.EditTask: CommandRule(tasks.edit_task, _DIRECTORS, needs=(FactKind.LINKS, FactKind.OWNERS)),
    c.CancelTask: CommandRule(tasks.cancel_task, _DIRECTORS),
    c.ReopenTask: CommandRule(tasks.reopen_task, _DIRECTORS, needs=_STAFF),
    c.DeferTask: CommandRule(tasks.defer_task, _DIRECTORS, needs=(FactKind.LINKS, FactKind.DEFERRAL)),
    c.WakeTask: CommandRule(tasks.wake_task, COORDINATOR),
    c.SettleTask: CommandRule(tasks.settle_task, COORDINATOR),
    c.CheckStaff: CommandRule(tasks.check_staff, COORDINATOR, needs=_STAFF),
    # Claims and handoffs.
    c.ClaimTask: CommandRule(
        claims.claim_task,
        needs=(FactKind.NEW_HANDOFF, FactKind.CLAIMANTS),
        is_by_agent=True,
        is_verified=False,
    ),
    c.Heartbeat: CommandRule(claims.renew_lease, is_by_agent=True, is_verified=False),
    c.ReleaseTask: CommandRule(claims.release_task, is_by_agent=True),
    c.ContinueTask: CommandRule(claims.continue_task, is_by_agent=True),
    c.WaitTask: CommandRule(claims.wait_task, needs=(FactKind.WAITED_TASKS,), is_by_agent=True),
    c.FailTask: CommandRule(claims.fail_task, is_by_agent=True),
    c.SubmitTask: CommandRule(claims.submit_task, needs=(FactKind.OWNERS,), is_by_agent=True),
    c.ExpireLease: CommandRule(claims.expire_lease, COORDINATOR),
    c.InitiateHandoff: CommandRule(
        handoffs.initiate_handoff,
        _LEADERS,
        needs=(FactKind.NEW_HANDOFF, FactKind.MEMBER),
        names=("source", "target"),
    ),
    c.AcceptHandoff: CommandRule(handoffs.accept_handoff, is_by_agent=True),
    c.CompleteHandoff: CommandRule(handoffs.complete_handoff, needs=(FactKind.OWNERS,), is_by_agent=True),
    c.FetchFeedback: CommandRule(reviews.record_feedback_fetch, is_by_agent=True),
    # Runs.
    c.AssignTask: CommandRule(
        claims.assign_task,
        COORDINATOR,
        needs=(FactKind.NEW_HANDOFF, FactKind.MEMBER),
        names=("agent",),
        is_verified=False,
    ),
    c.StartRun: CommandRule(
        runs.start_run,
        COORDINATOR,
        needs=(FactKind.NEW_HANDOFF, FactKind.MEMBER),
        names=("agent",),
        is_verified=False,
    ),
    c.EndRun: CommandRule(runs.end_run, COORDINATOR, is_verified=False),
    # Rejections of a task.
    c.RejectHandoff: CommandRule(_decide_rejection, needs=(FactKind.REJECTION,), is_by_agent=True),
    c.AnswerRejection: CommandRule(
        _decide_rejection, _DIRECTORS, needs=(FactKind.ANSWER,), names=("reassign_to",)
    ),
    c.GiveOpinion: CommandRule(_decide_rejection, COORDINATOR),
    # Reviews and lockouts.
    c.RequestReview: CommandRule(
        reviews.request_review, REVIEWERS, needs=(FactKind.NEW_HANDOFF, FactKind.MEMBER), names=("reviewer",)
    ),
    c.ApproveReview: CommandRule(reviews.approve_review, REVIEWERS, needs=(FactKind.OBJECTIONS,)),
    c.RejectReview: CommandRule(reviews.reject_review, REVIEWERS, needs=(FactKind.STAFF, FactKind.CAPACITY)),
    c.RetractReview: CommandRule(reviews.retract_review, REVIEWERS, needs=_STAFF),
    c.AddComments: CommandRule(reviews.add_review_comments, REVIEWERS, is_internal=True),
    c.NoteReview: CommandRule(reviews.record_review, COORDINATOR),
    c.NoteMerge: CommandRule(reviews.record_merge, COORDINATOR),
    c.DismissObjections: CommandRule(objections.dismiss_objections, _USER, needs=(FactKind.DISMISSED,)),
    c.LockOut: CommandRule(lockouts.lock_out_agent, REVIEWERS, needs=_STAFF, names=("agent",)),
    c.Unlock: CommandRule(lockouts.unlock_agent, _USER, needs=_STAFF, names=("agent",)),
    c.ReassignTask: CommandRule(lockouts.reassign_task, _LEADERS, needs=_STAFF, names=("source", "target")),
    # Questions to the user.
    c.EscalateTask: CommandRule(escalations.escalate_task),
    c.AnswerEscalation: CommandRule(escalations.answer_escalation, _USER, needs=_STAFF),
    c.AcknowledgeEscalation: CommandRule(escalations.acknowledge_escalation, _USER),
    c.RepeatEscalation: CommandRule(escalations.repeat_escalation, COORDINATOR),
    c.NoteDelivery: CommandRule(escalations.record_delivery, COORDINATOR),
    # Gates.
    c.RecordVerdict: CommandRule(gates.record_verdict, COORDINATOR, needs=(FactKind.OUTAGES,)),
    c.NoteGatesMeasured: CommandRule(gates.record_measured_gates, COORDINATOR, needs=(FactKind.OUTAGES,)),
    c.CountIdleStop: CommandRule(claims.count_idle_stop, COORDINATOR),
    c.SettleFinding: CommandRule(gates.settle_finding, REVIEWERS),
    c.OverrideGate: CommandRule(gates.override_gate, _USER),
    # The forge.
    c.PlanForgeAction: CommandRule(forge_actions.plan_action, COORDINATOR),
    c.RecordForgeAction: CommandRule(forge_actions.record_action, COORDINATOR),
    c.RecordForgeActionFailure: CommandRule(forge_actions.record_action_failure, COORDINATOR),
}

REQUESTS = tuple(kind for kind, rule in RULES.items() if rule.roles != COORDINATOR and not rule.is_internal)
"""The commands that an interface may take from outside."""


def require_permission(context: type[c.Command], actor: Actor) -> None:
    """Refuses an actor none of whose roles allows such a command."""
    require_role(RULES[context].roles, actor)
