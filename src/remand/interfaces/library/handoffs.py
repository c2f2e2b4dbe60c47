"""Handoffs for Python programs: in the ledger of a repository, or in an event log of the program's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from remand.domain.reasons import DecisionType
from remand.domain.rejection import RejectionDecision, TaskRejection
from remand.domain.validation.assessment import IssueText
from remand.domain.validation.validator import RejectionValidator
from remand.interfaces.library.director import UNNAMED
from remand.interfaces.library.projects import ProjectManager

TaskContext = Callable[[str], Mapping[str, Any]]


@runtime_checkable
class EventLog(Protocol):
    """A log of a program's own."""

    def log(self, event: str, /, **fields: Any) -> Any:
        """Writes an event down."""


class HandoffManager:
    """Hands tasks over, files rejections and answers to them.

    Given a folder or a `ProjectManager`, it acts on the ledger of the repository there, under all its rules: a refusal
    is raised, and the ledger's own director answers a rejection at once where the policy says so. Given an event log,
    it judges rejections and writes the protocol's events to that log.
    """

    def __init__(
        self,
        event_log: EventLog | ProjectManager | str | os.PathLike[str] = ".",
        *,
        task_context: TaskContext | None = None,
    ) -> None:
        if isinstance(event_log, str | os.PathLike):
            event_log = ProjectManager(event_log)
        self._kept = event_log if isinstance(event_log, ProjectManager) else _Logged(event_log, task_context)

    def initiate_handoff(
        self,
        *,
        target_agent: str,
        task_id: str,
        source_agent: str = "",
        instructions: str = "",
        handoff_id: str = "",
    ) -> str:
        """Hands a task to an agent, under an id of your own if you give one; returns the id, `handoff:H-…`."""
        return self._kept.initiate(task_id, target_agent, source_agent, instructions, handoff_id)

    def reject_handoff(self, handoff_id: str, agent: str, rejection: TaskRejection) -> bool:
        """Files a rejection; False when it is not valid."""
        return self._kept.reject(handoff_id, agent, rejection)

    def handle_rejection_response(
        self, handoff_id: str, decision: RejectionDecision, *, director: str = ""
    ) -> bool:
        """Answers a rejection as the director; True when the answer is recorded, by this call or before it."""
        return self._kept.respond(handoff_id, decision, director)

    def status(self, handoff_id: str) -> dict[str, Any]:
        """A handoff as it stands: its status, the last rejection and the decision on it."""
        return self._kept.status(handoff_id)


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

    def initiate(self, task_id: str, target: str, source: str, instructions: str, handoff_id: str) -> str:
        handoff_id = handoff_id or f"handoff:H-{len(self._active) + 1}"
        told = {"handoff_id": handoff_id, "task_id": task_id, "instructions": instructions}
        self._log.log("handoff.initiate", **told, source_agent=source, target_agent=target)
        self._active[handoff_id] = {**told, "agent": target, "status": "initiated"}
        return handoff_id

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
