"""Handoffs and the director for Python programs, on a repository's ledger or on their own event log."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from remand.domain import ids
from remand.domain.decisions import director
from remand.domain.graph import EdgeType, NodeType, ThoughtGraph, ensure_node
from remand.domain.policy import Policy
from remand.domain.reasons import DecisionType, RejectionReason, status_after
from remand.domain.rejection import RejectionDecision, TaskRejection
from remand.domain.validation.assessment import Issue, IssueText, NamedTask, ValidationFacts
from remand.domain.validation.parsed_rejection import dependency_names, mentioned_names
from remand.domain.validation.validator import RejectionValidator
from remand.interfaces.library.projects import ProjectManager

UNNAMED = Issue(
    code="task_unnamed",
    field="task_id",
    message="The record's task, handoff and agent must match those of the call.",
)
_ENDED = ("completed", "done", "cancelled", "infeasible")


class TaskManager(Protocol):
    """What the director needs from a program that keeps its own tasks."""

    @property
    def graph(self) -> ThoughtGraph:
        """The graph whose nodes are the tasks."""

    def create_task(self, title: str, description: str, priority: str, category: str) -> str:
        """Creates a task and returns its id."""

    def update_task(self, task_id: str, *, status: str, properties: Mapping[str, Any]) -> Any:
        """Changes a task's status, and notes what it became."""


class GraphProject:
    """Tasks that exist only in a graph, for programs without their own manager."""

    def __init__(self, graph: ThoughtGraph | None = None) -> None:
        self.graph = graph if graph is not None else ThoughtGraph()
        self._count = 0

    def create_task(
        self, title: str, description: str = "", priority: str = "medium", category: str = ""
    ) -> str:
        self._count += 1
        while self.graph.get_node(f"task:T-{self._count}") or self.graph.get_node(f"T-{self._count}"):
            self._count += 1
        name = f"task:T-{self._count}"
        fields = {"description": description, "priority": priority, "category": category, "status": "pending"}
        self.graph.add_node(name, NodeType.TASK, title, fields)
        return name

    def update_task(self, task_id: str, *, status: str, properties: Mapping[str, Any]) -> None:
        """Changes what a task node says; one that was not there is added."""
        ensure_node(self.graph, task_id)
        self.graph.nodes[task_id].properties.update({**properties, "status": status})


class DirectorRejectionHandler:
    """Answers rejections: it overrides an invalid one; a valid one leads to tasks, links and a new status.

    Given a folder or a `ProjectManager`, it answers once on the ledger of that repository, and returns an answer
    that already exists. Given another manager, it calls that one; given none, a graph keeps the tasks.
    """

    def __init__(
        self,
        manager: TaskManager | ProjectManager | str | os.PathLike[str] | None = None,
        *,
        policy: Policy | None = None,
    ) -> None:
        if isinstance(manager, str | os.PathLike):
            manager = ProjectManager(manager)
        self.manager: TaskManager | ProjectManager = manager if manager is not None else GraphProject()
        self.validator = RejectionValidator()
        self._limit = (policy or Policy()).max_invalid_rejections
        self._invalid: Counter[tuple[str, ...]] = Counter()
        self._slips: defaultdict[tuple[str, ...], list[set[str]]] = defaultdict(list)

    def handle_rejection(
        self, rejection: TaskRejection, task_context: Mapping[str, Any] | Any
    ) -> RejectionDecision:
        """Decides, and carries out the decision."""
        if isinstance(self.manager, ProjectManager):
            return self.manager.decide(rejection)
        task_context = task_context if isinstance(task_context, Mapping) else {}
        return self._decide(self.manager, rejection, task_context)

    def _decide(
        self, manager: TaskManager, rejection: TaskRejection, task_context: Mapping[str, Any]
    ) -> RejectionDecision:
        facts = _validation_facts(manager.graph, rejection)
        assessment = self.validator.assess(rejection, task_context, facts)
        if not isinstance(rejection.task_id, str) or not rejection.task_id:
            return self._override(rejection, [UNNAMED, *assessment.issues])
        if not assessment.is_valid:
            return self._override(rejection, list(assessment.issues))
        reason = rejection.reason or RejectionReason.BLOCKER
        fields = {**task_context, "id": rejection.task_id}
        drawn = director.plan_decision(director.AUTOMATIC[reason], rejection, fields, facts)
        # Before tasks are created: none may get the id of one that was named and is no node yet.
        others = (other for sketch in drawn.sketches for other in sketch.tasks)
        for name in (rejection.task_id, *drawn.waits_for, *others):
            ensure_node(manager.graph, name)
        created = [
            manager.create_task(
                title=sketch.title,
                description=sketch.description,
                priority=sketch.priority,
                category=sketch.category,
            )
            for sketch in drawn.sketches
        ]
        _link(manager.graph, rejection.task_id, drawn, created)
        status = status_after(drawn.decision, rejection.reason)
        manager.update_task(
            rejection.task_id, status=status, properties=_task_properties(rejection, drawn, created)
        )
        is_deferred = drawn.decision is DecisionType.ACCEPT_AND_DEFER
        return RejectionDecision(
            decision_type=drawn.decision,
            rejection=rejection,
            rationale=drawn.rationale(tuple(created)),
            created_tasks=created,
            deferred_task=rejection.task_id if is_deferred else "",
        )

    def _override(self, rejection: TaskRejection, issues: list[Issue]) -> RejectionDecision:
        """Sends the work back; an agent that has done this too often does not get it again."""
        key = tuple(name if isinstance(name, str) else "" for name in (rejection.task_id, rejection.agent_id))
        is_formal = director.is_formal_slip(issues, self._slips[key])
        if is_formal:
            self._slips[key].append({issue.code for issue in issues})
        else:
            self._invalid[key] += 1
        is_last = not is_formal and self._invalid[key] >= self._limit
        message = director.override_message(issues, is_last=is_last)
        return RejectionDecision(
            decision_type=DecisionType.OVERRIDE,
            rejection=rejection,
            rationale=f"Rejection validation failed: {', '.join(issue.code for issue in issues)}.",
            override_message=director.slip_message(issues) if is_formal else message,
            reassign_to="" if is_last else rejection.agent_id,
        )


def _link(graph: ThoughtGraph, task_id: str, drawn: director.DecisionPlan, created: list[str]) -> None:
    for name in created:
        ensure_node(graph, name)
    weight = 0.8 if drawn.decision is DecisionType.ACCEPT_AND_DECOMPOSE else 1.0
    for name in (*drawn.waits_for, *created):
        if drawn.link == "DEPENDS_ON":
            graph.add_edge(task_id, name, EdgeType.DEPENDS_ON, weight=1.0)
        elif drawn.link == "BLOCKS":
            graph.add_edge(name, task_id, EdgeType.BLOCKS, weight=1.0)
        else:
            graph.add_edge(name, task_id, EdgeType.REFINES, weight=weight)
    for name, sketch in zip(created, drawn.sketches, strict=True):
        for other in (*(created[index] for index in sketch.siblings), *sketch.tasks):
            graph.add_edge(name, other, EdgeType.DEPENDS_ON, weight=1.0)


def _validation_facts(graph: ThoughtGraph, rejection: TaskRejection) -> ValidationFacts:
    """The tasks that a rejection waits for and that are nodes of the graph; others are assumed to exist."""
    known: list[NamedTask] = []
    waited = dependency_names(rejection)
    for name in (*waited, *mentioned_names(rejection)):
        node_id = name if graph.get_node(name) else f"task:{name}"
        node = graph.get_node(node_id)
        if node is None and name in waited and ids.parse_task_id(name):
            is_self = ids.parse_task_id(name) == ids.parse_task_id(str(rejection.task_id)[:200])
            known.append(NamedTask(name=name, task_id=name, is_open=True, is_self=is_self))
        elif node is not None:
            is_self = node_id in (rejection.task_id, f"task:{rejection.task_id}")
            status = str(node.properties.get("status", ""))
            is_open = status not in _ENDED
            known.append(
                NamedTask(name=name, task_id=node_id, status=status, is_open=is_open, is_self=is_self)
            )
    return ValidationFacts(named=tuple(known))


def _task_properties(
    rejection: TaskRejection, drawn: director.DecisionPlan, created: list[str]
) -> dict[str, Any]:
    match drawn.decision:
        case DecisionType.ACCEPT_AND_DECOMPOSE:
            return {"decomposed_into": created}
        case DecisionType.ACCEPT_AND_REFORMULATE:
            return {"reformulated_as": created[0]}
        case DecisionType.ACCEPT_AND_DEFER:
            return {"waits_for": [*drawn.waits_for, *created]}
        case _ if drawn.superseded_by:
            return {"superseded_by": drawn.superseded_by}
        case _:
            return {"rejection": rejection.to_dict()}


TaskContext = Callable[[str], Mapping[str, Any]]


@runtime_checkable
class EventLog(Protocol):
    def log(self, event: str, /, **fields: Any) -> Any:
        """Records an event."""


class HandoffManager:
    """Hands tasks over, files rejections and answers to them.

    Given a folder or a `ProjectManager`, it acts on the ledger of that repository, under all its rules: a refusal
    is raised, and the ledger's own director answers a rejection at once if the policy says so. Given an event log,
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
        self._kept = (
            event_log if isinstance(event_log, ProjectManager) else _LogHandoffs(event_log, task_context)
        )

    def initiate_handoff(
        self,
        *,
        target_agent: str,
        task_id: str,
        source_agent: str = "",
        instructions: str = "",
        handoff_id: str = "",
    ) -> str:
        """Hands a task to an agent, under your own id if you give one; returns the id, `handoff:H-…`."""
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
        """The state of a handoff: its status, the last rejection and the decision on it."""
        return self._kept.status(handoff_id)


def _agrees(stated: object, named: str) -> bool:
    """True if the record's value is empty, or the same as the call's."""
    if not isinstance(stated, str):
        return not stated
    return not stated or stated.removeprefix("handoff:") == named.removeprefix("handoff:")


class _LogHandoffs:
    """Handoffs of a program that keeps its own log."""

    def __init__(self, event_log: EventLog, task_context: TaskContext | None) -> None:
        self._log = event_log
        self._context: TaskContext = task_context or (lambda _: {})
        self._active: dict[str, dict[str, Any]] = {}

    def initiate(self, task_id: str, target: str, source: str, instructions: str, handoff_id: str) -> str:
        handoff_id = handoff_id or f"handoff:H-{len(self._active) + 1}"
        fields = {"handoff_id": handoff_id, "task_id": task_id, "instructions": instructions}
        self._log.log("handoff.initiate", **fields, source_agent=source, target_agent=target)
        self._active[handoff_id] = {**fields, "agent": target, "status": "initiated"}
        return handoff_id

    def reject(self, handoff_id: str, agent: str, rejection: TaskRejection) -> bool:
        is_valid, issues = RejectionValidator().validate(rejection, dict(self._context(rejection.task_id)))
        if not _agrees(rejection.handoff_id, handoff_id) or not _agrees(rejection.agent_id, agent):
            is_valid, issues = False, [IssueText(UNNAMED), *issues]
        fields = {"handoff_id": handoff_id, "agent": agent, "rejection": rejection.to_dict()}
        if not is_valid:
            messages = [issue.message for issue in issues]
            self._log.log("handoff.reject.invalid", **fields, validation_issues=messages)
            return False
        self._log.log("handoff.reject", **fields)
        self._active[handoff_id] = {**fields, "status": "rejected", "decision": None}
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
