"""Handoffs for Python programs: a thin facade over the ledger, or over any event log that can `log`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from remand.app.asking import Accepted, Request
from remand.app.naming import task_of_handoff
from remand.app.rebuild import story
from remand.app.rejection_views import RejectionView, rejection_of_handoff
from remand.app.stories import handoffs
from remand.bootstrap.directing import directing
from remand.bootstrap.gateway import Gateway
from remand.bootstrap.ledger import find_place
from remand.bootstrap.quick import find_socket
from remand.config import inherited_environment
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.event import Event
from remand.domain.reasons import DecisionType
from remand.domain.refusals import Refused
from remand.domain.rejection import RejectionDecision, TaskRejection
from remand.domain.roles import USER
from remand.domain.validation.assessment import IssueText
from remand.domain.validation.validator import RejectionValidator
from remand.interfaces.library.director import UNNAMED

TaskContext = Callable[[str], Mapping[str, Any]]


@runtime_checkable
class EventLog(Protocol):
    """A log of a program's own."""

    def log(self, event: str, /, **fields: Any) -> Any:
        """Writes an event down."""


class HandoffManager:
    """Files rejections and answers to them.

    Given a folder, it acts on the ledger of the repository there, under all its rules: a refusal is raised, and
    the ledger's own director answers a rejection at once where the policy says so. Given an event log, it judges
    rejections and writes the protocol's events to that log.
    """

    def __init__(
        self, event_log: EventLog | str | os.PathLike[str] = ".", *, task_context: TaskContext | None = None
    ) -> None:
        is_folder = isinstance(event_log, str | os.PathLike)
        self._kept: _Ledgered | _Logged = (
            _Ledgered(os.fspath(event_log)) if is_folder else _Logged(event_log, task_context)  # type: ignore[arg-type]  # narrowed by is_folder
        )

    def reject_handoff(self, handoff_id: str, agent: str, rejection: TaskRejection) -> bool:
        """Files a rejection; False when it is not valid."""
        return self._kept.reject(handoff_id, agent, rejection)

    def handle_rejection_response(
        self, handoff_id: str, decision: RejectionDecision, *, director: str = USER
    ) -> bool:
        """Answers a rejection as the director; True when it was not answered so already."""
        return self._kept.respond(handoff_id, decision, director)

    def status(self, handoff_id: str) -> dict[str, Any]:
        """A handoff as it stands: its status, the last rejection and the decision on it."""
        return self._kept.status(handoff_id)


class _Ledgered:
    """Handoffs in the ledger of a repository."""

    def __init__(self, folder: str) -> None:
        self._gateway = Gateway(find_place(folder))

    def reject(self, handoff_id: str, agent: str, rejection: TaskRejection) -> bool:
        ask = c.RejectHandoff(handoff_id=handoff_id, agent=agent, rejection=rejection.to_dict())
        task = self._ask(ask, agent).task
        if task.filed is None:
            return False
        if not find_socket(self._gateway.place):
            consultants = directing(self._gateway.opened, is_users_own=False)
            consultants.advise(task.id, task.filed.handoff_id)
            consultants.direct(task.id, task.filed.handoff_id)
        return task.filed.is_valid

    def respond(self, handoff_id: str, decision: RejectionDecision, director: str) -> bool:
        kind = decision.decision_type
        name = kind.name if isinstance(kind, DecisionType) else str(kind)
        known = self._view(handoff_id)
        if known is not None and known.decision is not None and known.decision.decision_type == name:
            return False
        ask = c.AnswerRejection(
            handoff_id=handoff_id,
            decision=name,
            created_tasks=tuple(decision.created_tasks),
            rationale=decision.rationale,
            message=decision.override_message,
            reassign_to=decision.reassign_to if kind is DecisionType.OVERRIDE else "",
        )
        self._ask(ask, director)
        return True

    def status(self, handoff_id: str) -> dict[str, Any]:
        bare = ids.handoff_id(handoff_id) or ""
        events = self._story(bare)
        found = next((one for one in handoffs(events) if one.handoff_id == bare), None)
        if found is None:
            raise Refused("unknown_handoff", f"There is no handoff {handoff_id}.")
        view = self._view(handoff_id)
        decided = _decision(view) if view is not None and view.decision is not None else None
        return {
            "handoff_id": bare,
            "task_id": found.task_id,
            "agent": found.agent,
            "status": found.status,
            "rejection": view.rejection if view else None,
            "issues": [issue.message for issue in view.issues] if view else [],
            "decision": decided.to_dict() if decided else None,
            "override_message": found.override_message,
            "reassigned_to": found.reassigned_to,
        }

    def _ask(self, ask: c.Ask, actor: str) -> Accepted:
        is_confined = bool(inherited_environment().get("REMAND_TASK"))
        answer = self._gateway.ask(Request(ask=ask, actor=actor, confined=is_confined))
        if isinstance(answer, Refused):
            raise answer
        return answer

    def _view(self, handoff_id: str) -> RejectionView | None:
        """The last rejection of a handoff."""
        bare = ids.handoff_id(handoff_id) or ""
        return rejection_of_handoff(self._story(bare), bare)

    def _story(self, handoff_id: str) -> list[Event]:
        """The events of the task that a handoff is about."""
        opened = self._gateway.opened
        opened.ledger.refresh()
        with opened.store.read() as view:
            task_id = task_of_handoff(view, handoff_id)
            return story(view, task_id) if task_id else []


def _decision(view: RejectionView) -> RejectionDecision:
    decided = view.decision
    return RejectionDecision(
        decision_type=decided.decision_type if decided else "",
        rejection=TaskRejection.from_dict(view.rejection),
        rationale=decided.rationale if decided else "",
        override_message=decided.override_message if decided else "",
        reassign_to=decided.reassign_to if decided else "",
        created_tasks=[ids.task_node(name) for name in decided.created_tasks] if decided else [],
        deferred_task=ids.task_node(decided.deferred_task) if decided and decided.deferred_task else "",
    )


def _agrees(stated: object, named: str) -> bool:
    """True when the record says nothing, or the same as the call."""
    if not isinstance(stated, str):
        return not stated
    return not stated or stated.removeprefix("handoff:") == named.removeprefix("handoff:")


class _Logged:
    """Handoffs of a program that keeps a log of its own."""

    def __init__(self, event_log: EventLog, task_context: TaskContext | None) -> None:
        self._log = event_log
        self._context: TaskContext = task_context or (lambda _: {})
        self._active: dict[str, dict[str, Any]] = {}

    def reject(self, handoff_id: str, agent: str, rejection: TaskRejection) -> bool:
        is_valid, issues = RejectionValidator().validate(rejection, dict(self._context(rejection.task_id)))
        if not _agrees(rejection.handoff_id, handoff_id) or not _agrees(rejection.agent_id, agent):
            is_valid, issues = False, [IssueText(UNNAMED), *issues]
        told = {"handoff_id": handoff_id, "agent": agent, "rejection": rejection.to_dict()}
        if not is_valid:
            messages = [issue.message for issue in issues]
            self._log.log("handoff.reject.invalid", **told, validation_issues=messages)
            return False
        self._log.log("handoff.reject", **told)
        self._active[handoff_id] = {**told, "status": "rejected", "decision": None}
        return True

    def respond(self, handoff_id: str, decision: RejectionDecision, _director: str) -> bool:
        self._log.log("handoff.reject.response", handoff_id=handoff_id, decision=decision.to_dict())
        is_override = decision.decision_type is DecisionType.OVERRIDE
        known = self._active.setdefault(handoff_id, {"handoff_id": handoff_id})
        is_passed_on = is_override and decision.reassign_to not in ("", known.get("agent", ""))
        known.update(
            status="overridden" if is_override else "rejection_accepted",
            decision=decision.to_dict(),
            override_message=decision.override_message,
            reassigned_to=decision.reassign_to if is_passed_on else "",
        )
        return True

    def status(self, handoff_id: str) -> dict[str, Any]:
        return dict(self._active.get(handoff_id, {"handoff_id": handoff_id, "status": "initiated"}))
