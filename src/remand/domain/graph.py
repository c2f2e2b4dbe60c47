"""The thought graph: tasks, decisions and what else is thought of, and how they are linked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from remand.domain.record import Record


class NodeType(StrEnum):
    """What a node stands for."""

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
    """How a source relates to a target: a blocker BLOCKS what waits for it, a task DEPENDS_ON what it needs first."""

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


class Node(Record, kw_only=True):
    """One thought. A type that is not known is kept as its text."""

    id: str
    node_type: NodeType | str
    content: str
    properties: dict[str, Any]


class Edge(Record, kw_only=True):
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
        self.nodes: dict[str, Node] = {}
        self._edges: dict[EdgeKey, Edge] = {}
        self._listed: list[Edge] | None = []
        self._incident: dict[str, dict[EdgeKey, None]] = {}

    @property
    def edges(self) -> list[Edge]:
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
    ) -> Node:
        """Adds a node, in place of the one of that id when there is one."""
        known = NodeType.__members__.get(node_type, node_type)
        node = Node(id=id, node_type=known, content=content, properties=dict(properties or {}))
        self.nodes[id] = node
        return node

    def add_edge(self, source: str, target: str, edge_type: EdgeType | str, weight: float = 1.0) -> Edge:
        """Adds an edge; adding it again gives it the new weight."""
        known = EdgeType.__members__.get(edge_type, edge_type)
        edge = Edge(source=source, target=target, edge_type=known, weight=weight)
        key = (source, target, str(edge_type))
        if key in self._edges:
            self._listed = None
        elif self._listed is not None:
            self._listed.append(edge)
        self._edges[key] = edge
        for end in (source, target):
            self._incident.setdefault(end, {})[key] = None
        return edge

    def get_node(self, id: str) -> Node | None:  # noqa: A002 - as in add_node
        """The node of that id; None when there is none."""
        return self.nodes.get(id)

    def remove_node(self, id: str) -> list[Edge]:  # noqa: A002 - as in add_node
        """Removes a node with its edges, if it is there; gives back the edges."""
        if self.nodes.pop(id, None) is None:
            return []
        lost = [self._edges[key] for key in self._incident.get(id, ())]
        for edge in lost:
            self.remove_edge(edge.source, edge.target, edge.edge_type)
        return lost

    def remove_edge(self, source: str, target: str, edge_type: EdgeType | str) -> bool:
        """Removes an edge; False when it was not there."""
        key = (source, target, str(edge_type))
        if self._edges.pop(key, None) is None:
            return False
        self._listed = None
        for end in {source, target}:
            del self._incident[end][key]
        return True

    def dangling(self) -> Iterator[Edge]:
        """The edges with an end that is no node."""
        return (edge for edge in self.edges if edge.source not in self.nodes or edge.target not in self.nodes)
