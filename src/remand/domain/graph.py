"""The thought graph: tasks, decisions, rejections and blockers, and the links between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from remand.domain import ids
from remand.domain.events.tasks import Decision
from remand.domain.reasons import DecisionType, RejectionReason, parse_decision_type, status_after
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.rejection import RejectionDecision, TaskRejection
from remand.domain.text.words import word_list


class NodeType(StrEnum):
    """The kind of a node."""

    CONCEPT = "CONCEPT"
    QUESTION = "QUESTION"
    DECISION = "DECISION"
    FACT = "FACT"
    TASK = "TASK"
    ARTIFACT = "ARTIFACT"
    INSIGHT = "INSIGHT"
    HYPOTHESIS = "HYPOTHESIS"
    OPTION = "OPTION"
    EVIDENCE = "EVIDENCE"
    OBSERVATION = "OBSERVATION"
    GOAL = "GOAL"
    CONTEXT = "CONTEXT"
    CONSTRAINT = "CONSTRAINT"
    ACTION = "ACTION"
    ENTITY = "ENTITY"
    LOCATION = "LOCATION"
    OBJECT = "OBJECT"


class EdgeType(StrEnum):
    """The relation of a source to a target: a blocker BLOCKS a waiting task, a task DEPENDS_ON another one."""

    REQUIRES = "REQUIRES"
    ENABLES = "ENABLES"
    CONFLICTS = "CONFLICTS"
    SUPPORTS = "SUPPORTS"
    REFUTES = "REFUTES"
    SIMILAR = "SIMILAR"
    CONTAINS = "CONTAINS"
    CONTRADICTS = "CONTRADICTS"
    PRECEDES = "PRECEDES"
    TRIGGERS = "TRIGGERS"
    BLOCKS = "BLOCKS"
    ANSWERS = "ANSWERS"
    RAISES = "RAISES"
    EXPLORES = "EXPLORES"
    OBSERVES = "OBSERVES"
    SUGGESTS = "SUGGESTS"
    IMPLEMENTS = "IMPLEMENTS"
    TESTS = "TESTS"
    DEPENDS_ON = "DEPENDS_ON"
    REFINES = "REFINES"
    MOTIVATES = "MOTIVATES"
    JUSTIFIES = "JUSTIFIES"
    HAS_OPTION = "HAS_OPTION"
    HAS_ASPECT = "HAS_ASPECT"
    PART_OF = "PART_OF"
    LOCATED_IN = "LOCATED_IN"
    PERFORMS = "PERFORMS"
    USES = "USES"
    # Written by GoT's transactional backend only.
    RELATES_TO = "RELATES_TO"
    SUPERSEDES = "SUPERSEDES"
    DERIVED_FROM = "DERIVED_FROM"
    PARENT_OF = "PARENT_OF"
    CHILD_OF = "CHILD_OF"
    REFERENCES = "REFERENCES"
    CAUSED_BY = "CAUSED_BY"
    TRANSFERS = "TRANSFERS"
    PRODUCES = "PRODUCES"
    DOCUMENTED_BY = "DOCUMENTED_BY"


class GraphNode(Record, kw_only=True):
    """One thought. A type that is not known is kept as its text."""

    id: str
    node_type: NodeType | str
    content: str
    properties: dict[str, Any]


class GraphEdge(Record, kw_only=True):
    """A link from one node to another. A type that is not known is kept as its text."""

    source: str
    target: str
    edge_type: EdgeType | str
    weight: float = 1.0


EdgeKey = tuple[str, str, str]


class ThoughtGraph:
    """Nodes by id, and at most one edge of a type from one node to another.

    An edge may name nodes that are not there, or not yet: whoever adds it judges that.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, GraphNode] = {}
        self._edges: dict[EdgeKey, GraphEdge] = {}
        self._listed: list[GraphEdge] | None = []
        self._incident: dict[str, dict[EdgeKey, None]] = {}

    @property
    def edges(self) -> list[GraphEdge]:
        """All edges in the order they were added."""
        if self._listed is None:
            self._listed = list(self._edges.values())
        return self._listed

    def add_node(
        self,
        id: str,  # noqa: A002 - the name the requirements give it
        node_type: NodeType | str,
        content: str = "",
        properties: Mapping[str, Any] | None = None,
    ) -> GraphNode:
        """Adds a node; replaces a node with the same id."""
        known = NodeType.__members__.get(node_type, node_type)
        node = GraphNode(id=id, node_type=known, content=content, properties=dict(properties or {}))
        self.nodes[id] = node
        return node

    def add_edge(self, source: str, target: str, edge_type: EdgeType | str, weight: float = 1.0) -> GraphEdge:
        """Adds an edge; adding it again gives it the new weight."""
        known = EdgeType.__members__.get(edge_type, edge_type)
        edge = GraphEdge(source=source, target=target, edge_type=known, weight=weight)
        key = (source, target, str(edge_type))
        if key in self._edges:
            self._listed = None
        elif self._listed is not None:
            self._listed.append(edge)
        self._edges[key] = edge
        for end in (source, target):
            self._incident.setdefault(end, {})[key] = None
        return edge

    def get_node(self, id: str) -> GraphNode | None:  # noqa: A002 - as in add_node
        """The node with that id; None if there is none."""
        return self.nodes.get(id)

    def remove_node(self, id: str) -> list[GraphEdge]:  # noqa: A002 - as in add_node
        """Removes a node with its edges, if it exists; gives back the edges."""
        if self.nodes.pop(id, None) is None:
            return []
        edges = [self._edges[key] for key in self._incident.get(id, ())]
        for edge in edges:
            self.remove_edge(edge.source, edge.target, edge.edge_type)
        return edges

    def remove_edge(self, source: str, target: str, edge_type: EdgeType | str) -> bool:
        """Removes an edge; False if it did not exist."""
        key = (source, target, str(edge_type))
        if self._edges.pop(key, None) is None:
            return False
        self._listed = None
        for end in {source, target}:
            del self._incident[end][key]
        return True

    def dangling_edges(self) -> Iterator[GraphEdge]:
        """The edges with an end that is no node."""
        return (edge for edge in self.edges if edge.source not in self.nodes or edge.target not in self.nodes)


REJECTION_PREFIX = "rejection:"
DECISION_PREFIX = "decision:rejection-response:"
BLOCKER_PREFIX = "blocker:"
DECISION_CONTENT = "Rejection decision: "
"""How the content of a decision begins, before its type."""
UNKNOWN_TASK_NODE = "task:unknown"
_LONGEST_ID = 200
_COPIED_FIELDS = word_list("""
agent_id handoff_id rejected_at reason_summary reason_detail blocking_factor what_attempted evidence
suggested_alternative alternative_tasks task_original_scope scope_growth_factor
""")


class LedgerGraph(ThoughtGraph):
    """A graph made from the events of a ledger: it has the rejections, and nothing is added to it manually."""

    def __init__(self, graph: ThoughtGraph, find: Callable[[TaskRejection], str]) -> None:
        super().__init__()
        for node in graph.nodes.values():
            super().add_node(node.id, node.node_type, node.content, node.properties)
        for edge in graph.edges:
            super().add_edge(edge.source, edge.target, edge.edge_type, edge.weight)
        self._find = find

    def find_rejection_node(self, rejection: TaskRejection, decision: RejectionDecision) -> str:
        """The id of a rejection's node; refuses a rejection or a decision that is not recorded."""
        name = self._find(rejection)
        found = [
            node for node in self.nodes if node.startswith(REJECTION_PREFIX) and node.endswith(f":{name}")
        ]
        if not name or not found:
            raise Refused(
                "unknown_rejection", "The ledger has no such rejection. File it with `reject_handoff`."
            )
        answers = (e.source for e in self.edges if e.target == found[0] and e.edge_type == EdgeType.ANSWERS)
        kinds = {node.properties.get("decision_type") for node in map(self.get_node, answers) if node}
        if _enum_name(decision.decision_type) not in kinds:
            why = "The ledger has no such decision. Make it with `handle_rejection_response`."
            raise Refused("unknown_rejection", why)
        return found[0]

    def add_node(self, *_: object, **__: object) -> GraphNode:
        """Refuses: nodes come from events."""
        raise Refused("read_only", "The ledger's graph is built from its events; it cannot be written to.")

    def add_edge(self, *_: object, **__: object) -> GraphEdge:
        """Refuses: edges come from events."""
        raise Refused("read_only", "The ledger's graph is built from its events; it cannot be written to.")

    def remove_node(self, *_: object, **__: object) -> list[GraphEdge]:
        """Refuses: recorded events are permanent."""
        raise Refused("read_only", "The ledger's graph is built from its events; nothing can be removed.")

    def remove_edge(self, *_: object, **__: object) -> bool:
        """Refuses: recorded events are permanent."""
        raise Refused("read_only", "The ledger's graph is built from its events; nothing can be removed.")


def log_rejection_to_got(graph: ThoughtGraph, rejection: TaskRejection, decision: RejectionDecision) -> str:
    """Logs a rejection and its decision to a graph; gives back the id of the rejection's node.

    Tasks that are no nodes yet become nodes first, so that no edge leads nowhere; the rejected one with what the
    decision made of it. The graph of a ledger has them.
    """
    if isinstance(graph, LedgerGraph):
        return graph.find_rejection_node(rejection, decision)
    answer = Decision(
        decision_type=_enum_name(decision.decision_type),
        rationale=_text(decision.rationale),
        override_message=_text(decision.override_message),
        reassign_to=_text(decision.reassign_to),
        created_tasks=_texts(decision.created_tasks),
        deferred_task=_text(decision.deferred_task),
    )
    task = find_task_node(graph, rejection.task_id)
    ensure_node(graph, task, _status_properties(rejection, decision, answer))
    for name in answer.created_tasks:
        ensure_node(graph, find_task_node(graph, name))
    unique = _time_key(rejection.rejected_at)
    is_valid = parse_decision_type(decision.decision_type) is not DecisionType.OVERRIDE
    filed = add_rejection(graph, task, unique, rejection, is_valid=is_valid)
    add_decision(graph, filed.id, unique, answer)
    return filed.id


def ensure_node(graph: ThoughtGraph, name: str, properties: dict[str, Any] | None = None) -> None:
    """Adds a task, or a decision, that is named and is no node yet."""
    if graph.get_node(name) is None:
        kind = NodeType.DECISION if name.startswith(("decision:", "D-")) else NodeType.TASK
        graph.add_node(name, kind, name, properties)


def _status_properties(
    rejection: TaskRejection, decision: RejectionDecision, answer: Decision
) -> dict[str, Any]:
    """What the decision made of the task."""
    named = parse_decision_type(decision.decision_type)
    status = status_after(named, rejection.reason) if named else ""
    if status == "decomposed":
        return {"status": status, "decomposed_into": list(answer.created_tasks)}
    return {"status": status} if status else {}


def add_rejection(
    graph: ThoughtGraph, task: str, unique: str, rejection: TaskRejection, *, is_valid: bool
) -> GraphNode:
    """Adds a rejection of a task's node, under an id that nothing else has."""
    fields = rejection.to_dict()
    summary = _text(rejection.reason_summary) or _text(rejection.blocking_factor)
    node = graph.add_node(
        free_id(graph, f"{REJECTION_PREFIX}{task}:{unique}"),
        NodeType.OBSERVATION,
        f"Task {task} rejected: {summary}",
        {
            "task_id": task,
            "reason_type": _enum_name(rejection.reason_type),
            "is_valid": is_valid,
            **{name: fields[name] for name in _COPIED_FIELDS},
        },
    )
    graph.add_edge(node.id, task, EdgeType.OBSERVES)
    return node


def add_decision(graph: ThoughtGraph, rejection: str, unique: str, answer: Decision) -> list[GraphNode]:
    """Adds the decision on a rejection, and the resulting blocker of the task; returns the new nodes."""
    created = [find_task_node(graph, name) for name in answer.created_tasks]
    node = graph.add_node(
        free_id(graph, f"{DECISION_PREFIX}{unique}"),
        NodeType.DECISION,
        f"{DECISION_CONTENT}{answer.decision_type}",
        {
            "decision_type": answer.decision_type,
            "rationale": answer.rationale,
            "created_tasks": list(created),
            "deferred_task": find_task_node(graph, answer.deferred_task) if answer.deferred_task else "",
            "override_message": answer.override_message,
            "reassign_to": answer.reassign_to,
        },
    )
    graph.add_edge(node.id, rejection, EdgeType.ANSWERS)
    for name in created:
        graph.add_edge(name, node.id, EdgeType.IMPLEMENTS)
    filed = graph.get_node(rejection)
    if filed is None or not _is_accepted(answer):
        return [node]
    blocker = _add_blocker(graph, filed, unique)
    return [node, blocker] if blocker else [node]


def _add_blocker(graph: ThoughtGraph, filed: GraphNode, unique: str) -> GraphNode | None:
    """Adds the blocker that an accepted rejection named; None if it named none."""
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


def find_task_node(graph: ThoughtGraph, task: object) -> str:
    """The id of a task's node: as in the graph, otherwise by the rules for ids."""
    given = _text(task).strip()
    if given in graph.nodes:
        return given
    named = ids.parse_node_id(given)
    if named is None:
        printable = "".join(char if char.isprintable() else "?" for char in given)
        named = printable[:_LONGEST_ID]
    return named or UNKNOWN_TASK_NODE


def free_id(graph: ThoughtGraph, wanted: str) -> str:
    """The id, with a number appended if it is taken; also fast if thousands are."""
    if wanted not in graph.nodes:
        return wanted
    taken, free = 1, 2
    while f"{wanted}:{free}" in graph.nodes:
        taken, free = free, free * 2
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if f"{wanted}:{middle}" in graph.nodes else (taken, middle)
    return f"{wanted}:{free}"


def _is_accepted(answer: Decision) -> bool:
    """True when the rejection was accepted, in whatever way."""
    named = parse_decision_type(answer.decision_type)
    return named is not None and named is not DecisionType.OVERRIDE


def _time_key(value: object) -> str:
    """A time as a part of an id: seconds since 1970, with their fraction."""
    if isinstance(value, datetime):
        try:
            return f"{value.timestamp():.6f}"
        except (OverflowError, ValueError, OSError):
            return "0"
    return "0"


def _enum_name(value: object) -> str:
    return value.name if isinstance(value, RejectionReason | DecisionType) else _text(value) or "UNKNOWN"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, list | tuple | dict | set) else str(value)


def _texts(value: Any) -> tuple[str, ...]:
    items: Iterable[object] = value if isinstance(value, list | tuple) else ()
    return tuple(text for text in map(_text, items) if text)
