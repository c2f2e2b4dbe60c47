"""Rejections in the thought graph: what was rejected and why, how it was answered, and what blocks what."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from remand.domain import ids
from remand.domain.graph import Edge, EdgeType, Node, NodeType, ThoughtGraph
from remand.domain.reasons import DecisionType, RejectionReason, decision_named, status_after
from remand.domain.refusals import Refused
from remand.domain.rejection import RejectionDecision, TaskRejection
from remand.domain.rejection_events import Decision

REJECTION_PREFIX = "rejection:"
DECISION_PREFIX = "decision:rejection-response:"
BLOCKER_PREFIX = "blocker:"
DECISION_CONTENT = "Rejection decision: "
"""How the content of a decision begins, before its type."""
NO_TASK = "task:unknown"
_LONGEST_ID = 200
_TOLD = (
    "agent_id",
    "handoff_id",
    "rejected_at",
    "reason_summary",
    "reason_detail",
    "blocking_factor",
    "what_attempted",
    "evidence",
    "suggested_alternative",
    "alternative_tasks",
    "task_original_scope",
    "scope_growth_factor",
)


class RecordedGraph(ThoughtGraph):
    """A graph made from the events of a ledger: it has the rejections, and nothing is added to it by hand."""

    def __init__(self, graph: ThoughtGraph, find: Callable[[TaskRejection], str]) -> None:
        super().__init__()
        for node in graph.nodes.values():
            super().add_node(node.id, node.node_type, node.content, node.properties)
        for edge in graph.edges:
            super().add_edge(edge.source, edge.target, edge.edge_type, edge.weight)
        self._find = find

    def recorded(self, rejection: TaskRejection, decision: RejectionDecision) -> str:
        """The id of a rejection's node; refuses a rejection or a decision that is not recorded."""
        name = self._find(rejection)
        found = [
            node for node in self.nodes if node.startswith(REJECTION_PREFIX) and node.endswith(f":{name}")
        ]
        if not name or not found:
            raise Refused(
                "unknown_rejection", "The ledger has no such rejection. File it by `reject_handoff`."
            )
        answers = (e.source for e in self.edges if e.target == found[0] and e.edge_type == EdgeType.ANSWERS)
        kinds = {node.properties.get("decision_type") for node in map(self.get_node, answers) if node}
        if _name(decision.decision_type) not in kinds:
            why = "The ledger has no such decision. Give it by `handle_rejection_response`."
            raise Refused("unknown_rejection", why)
        return found[0]

    def add_node(self, *_: object, **__: object) -> Node:
        """Refuses: nodes come from events."""
        raise Refused("read_only", "The ledger's graph is made from its events; it cannot be written to.")

    def add_edge(self, *_: object, **__: object) -> Edge:
        """Refuses: edges come from events."""
        raise Refused("read_only", "The ledger's graph is made from its events; it cannot be written to.")

    def remove_node(self, *_: object, **__: object) -> list[Edge]:
        """Refuses: what is recorded stays."""
        raise Refused("read_only", "The ledger's graph is made from its events; nothing can be removed.")

    def remove_edge(self, *_: object, **__: object) -> bool:
        """Refuses: what is recorded stays."""
        raise Refused("read_only", "The ledger's graph is made from its events; nothing can be removed.")


def log_rejection_to_got(graph: ThoughtGraph, rejection: TaskRejection, decision: RejectionDecision) -> str:
    """Logs a rejection and its decision to a graph; gives back the id of the rejection's node.

    Tasks that are no nodes yet become nodes first, so that no edge leads nowhere; the rejected one with what the
    decision made of it. The graph of a ledger has them.
    """
    if isinstance(graph, RecordedGraph):
        return graph.recorded(rejection, decision)
    answer = Decision(
        decision_type=_name(decision.decision_type),
        rationale=_text(decision.rationale),
        override_message=_text(decision.override_message),
        reassign_to=_text(decision.reassign_to),
        created_tasks=_texts(decision.created_tasks),
        deferred_task=_text(decision.deferred_task),
    )
    task = task_node(graph, rejection.task_id)
    ensure_node(graph, task, _became(rejection, decision, answer))
    for name in answer.created_tasks:
        ensure_node(graph, task_node(graph, name))
    unique = _moment(rejection.rejected_at)
    is_valid = decision_named(decision.decision_type) is not DecisionType.OVERRIDE
    filed = add_rejection(graph, task, unique, rejection, is_valid=is_valid)
    add_decision(graph, filed.id, unique, answer)
    return filed.id


def ensure_node(graph: ThoughtGraph, name: str, properties: dict[str, Any] | None = None) -> None:
    """Adds a task, or a decision, that is named and is no node yet."""
    if graph.get_node(name) is None:
        kind = NodeType.DECISION if name.startswith(("decision:", "D-")) else NodeType.TASK
        graph.add_node(name, kind, name, properties)


def _became(rejection: TaskRejection, decision: RejectionDecision, answer: Decision) -> dict[str, Any]:
    """What the decision made of the task."""
    named = decision_named(decision.decision_type)
    status = status_after(named, rejection.reason) if named else ""
    if status == "decomposed":
        return {"status": status, "decomposed_into": list(answer.created_tasks)}
    return {"status": status} if status else {}


def add_rejection(
    graph: ThoughtGraph, task: str, unique: str, rejection: TaskRejection, *, is_valid: bool
) -> Node:
    """Adds a rejection of a task's node, under an id that nothing else has."""
    told = rejection.to_dict()
    summary = _text(rejection.reason_summary) or _text(rejection.blocking_factor)
    node = graph.add_node(
        free_id(graph, f"{REJECTION_PREFIX}{task}:{unique}"),
        NodeType.OBSERVATION,
        f"Task {task} rejected: {summary}",
        {
            "task_id": task,
            "reason_type": _name(rejection.reason_type),
            "is_valid": is_valid,
            **{name: told[name] for name in _TOLD},
        },
    )
    graph.add_edge(node.id, task, EdgeType.OBSERVES)
    return node


def add_decision(graph: ThoughtGraph, rejection: str, unique: str, answer: Decision) -> list[Node]:
    """Adds the answer to a rejection's node, and what then blocks the task; gives back the new nodes."""
    created = [task_node(graph, name) for name in answer.created_tasks]
    node = graph.add_node(
        free_id(graph, f"{DECISION_PREFIX}{unique}"),
        NodeType.DECISION,
        f"{DECISION_CONTENT}{answer.decision_type}",
        {
            "decision_type": answer.decision_type,
            "rationale": answer.rationale,
            "created_tasks": list(created),
            "deferred_task": task_node(graph, answer.deferred_task) if answer.deferred_task else "",
            "override_message": answer.override_message,
            "reassign_to": answer.reassign_to,
        },
    )
    graph.add_edge(node.id, rejection, EdgeType.ANSWERS)
    for name in created:
        graph.add_edge(name, node.id, EdgeType.IMPLEMENTS)
    filed = graph.get_node(rejection)
    if filed is None or not _holds(answer):
        return [node]
    blocker = _add_blocker(graph, filed, unique)
    return [node, blocker] if blocker else [node]


def _add_blocker(graph: ThoughtGraph, filed: Node, unique: str) -> Node | None:
    """Adds what blocks the task, by a rejection that was accepted; None when it named no blocker."""
    if filed.properties.get("reason_type") != RejectionReason.BLOCKER.name:
        return None
    blocker = graph.add_node(
        free_id(graph, f"{BLOCKER_PREFIX}{unique}"),
        NodeType.CONSTRAINT,
        _text(filed.properties.get("blocking_factor")),
        {"evidence": filed.properties.get("evidence"), "rejection": filed.id},
    )
    graph.add_edge(blocker.id, filed.properties["task_id"], EdgeType.BLOCKS)
    return blocker


def task_node(graph: ThoughtGraph, task: object) -> str:
    """The node a task is, or would be: as it stands in the graph, else by the rules for ids."""
    given = _text(task).strip()
    if given in graph.nodes:
        return given
    named = ids.node_id(given)
    if named is None:
        printable = "".join(char if char.isprintable() else "?" for char in given)
        named = printable[:_LONGEST_ID]
    return named or NO_TASK


def free_id(graph: ThoughtGraph, wanted: str) -> str:
    """The id, with a number behind it when it is taken; found fast also where thousands are."""
    if wanted not in graph.nodes:
        return wanted
    taken, free = 1, 2
    while f"{wanted}:{free}" in graph.nodes:
        taken, free = free, free * 2
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if f"{wanted}:{middle}" in graph.nodes else (taken, middle)
    return f"{wanted}:{free}"


def _holds(answer: Decision) -> bool:
    """True when the rejection was accepted, in whatever way."""
    named = decision_named(answer.decision_type)
    return named is not None and named is not DecisionType.OVERRIDE


def _moment(value: object) -> str:
    """A time as a part of an id: seconds since 1970, with what is left below the second."""
    if isinstance(value, datetime):
        try:
            return f"{value.timestamp():.6f}"
        except (OverflowError, ValueError, OSError):
            return "0"
    return "0"


def _name(value: object) -> str:
    return value.name if isinstance(value, RejectionReason | DecisionType) else _text(value) or "UNKNOWN"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, list | tuple | dict | set) else str(value)


def _texts(value: Any) -> tuple[str, ...]:
    items: Iterable[object] = value if isinstance(value, list | tuple) else ()
    return tuple(text for text in map(_text, items) if text)
