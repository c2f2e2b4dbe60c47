"""The graph from the events: tasks, decisions and other nodes, and the edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from hashlib import sha256
from operator import itemgetter
from sys import intern
from typing import Any

import msgspec

from remand.app.events.signatures import confirmed_events
from remand.domain import ids
from remand.domain.events import tasks
from remand.domain.events.catalogue import Unknown
from remand.domain.events.event import Event, event_names
from remand.domain.graph import (
    EdgeKey,
    GraphEdge,
    GraphNode,
    NodeType,
    ThoughtGraph,
    add_decision,
    add_rejection,
    find_task_node,
)
from remand.domain.reasons import DecisionType, parse_decision_type
from remand.domain.record import Record
from remand.domain.rejection import TaskRejection
from remand.domain.task import EventConflict
from remand.ledger.order import EventPlace, order_key
from remand.ledger.store import Transaction

_CONTENT = ("title", "name", "message", "content", "text", "summary")
"""The text fields of nodes of GoT tools; the first existing one is used."""


class _Description(Record, kw_only=True):
    """A node as an event describes it, and the key of its content."""

    node: GraphNode
    content_key: str


class GraphView(Record, kw_only=True):
    """The graph, and the events that could not be applied to it, in order."""

    graph: ThoughtGraph
    conflicts: list[EventConflict]


def read_graph(view: Transaction, statuses: Mapping[str, str] | None = None) -> GraphView:
    """The graph of a ledger. `statuses` are the statuses of tasks by id."""
    return _fold(partial(confirmed_events, view), statuses or {}, has_texts=True)


def count_graph(view: Transaction) -> dict[str, Any]:
    """Figures about the graph of a ledger, which is built without the texts of tasks."""
    return graph_stats(_fold(partial(confirmed_events, view), {}, has_texts=False))


def fold_graph(
    events: Iterable[Event], statuses: Mapping[str, str] | None = None, *, has_texts: bool = True
) -> GraphView:
    """The graph of events in any order and number of copies."""
    given = list(events)
    return _fold(lambda _: given, statuses or {}, has_texts=has_texts)


def _fold(
    read: Callable[[Collection[str]], Iterable[Event]],
    statuses: Mapping[str, str],
    *,
    has_texts: bool,
) -> GraphView:
    """Folds the events with the names it asks for; others may be among them.

    Those with which handoffs start are read only if a rejection names no task. Of a task that was added, only its node
    is in memory: most of a large ledger's events are such.
    """
    describe = _node_or_event if has_texts else _outline_or_event
    kept = [(_place(event), describe(event)) for event in read(_HANDLERS.keys()) if event.name in _HANDLERS]
    is_unclear = any(isinstance(event, _REJECTIONS) and not event.task_id for _, event in kept)
    fold = _Fold(_handed_tasks(read(_STARTS)) if is_unclear else {})
    kept.sort(key=itemgetter(0))
    kept.reverse()
    while kept:  # an event is freed once the graph has it
        fold.apply(*kept.pop())
    fold.add_named_tasks()
    fold.leave_out_dangling()
    for task, status in statuses.items():
        node = fold.graph.get_node(ids.task_node_id(task))
        if node is not None:
            node.properties["status"] = str(status)
    return GraphView(graph=fold.graph, conflicts=fold.conflicts())


def _place(event: Event) -> EventPlace:
    time, session, seq, event_id = order_key(event)
    return time, intern(session), seq, event_id


def _node_or_event(event: Event) -> Event | _Description:
    """An event, or the node that it adds."""
    return (isinstance(event, tasks.TaskAdded) and _description_of(event)) or event


def _outline_or_event(event: Event) -> Event | _Description:
    """The same, with a hash of the node's texts in place of them."""
    found = _node_or_event(event)
    if not isinstance(found, _Description):
        return found
    node = GraphNode(id=found.node.id, node_type=found.node.node_type, content="", properties={})
    return _Description(node=node, content_key=sha256(repr(found.node).encode()).hexdigest())


def _handed_tasks(events: Iterable[Event]) -> dict[str, str]:
    """The task of each handoff by its first event: ours before lines of GoT tools."""
    found: dict[str, tuple[bool, EventPlace, str]] = {}
    for event in events:
        if isinstance(event, tasks.HandoffInitiated | tasks.TaskClaimed) and event.task_id:
            one = (event.is_legacy, order_key(event), event.task_id)
            found[event.handoff_id] = min(one, found.get(event.handoff_id, one))
    return {handoff: task for handoff, (_, _, task) in found.items()}


def graph_stats(view: GraphView) -> dict[str, Any]:
    """Figures about the graph, most frequent types first."""
    graph = view.graph
    return {
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "by_node_type": _counts(str(node.node_type) for node in graph.nodes.values()),
        "by_edge_type": _counts(str(edge.edge_type) for edge in graph.edges),
        "conflicts": len(view.conflicts),
    }


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


class _Fold:
    def __init__(self, handed_tasks: Mapping[str, str]) -> None:
        self.graph = ThoughtGraph()
        self._handed_tasks = handed_tasks
        self._place: EventPlace = ("", "", 0, "")
        """That of the last event: copies follow one another."""
        self._created: dict[str, _Description] = {}
        self._linked: dict[EdgeKey, EventPlace] = {}
        self._lost: set[EdgeKey] = set()
        """Edges removed together with one of their nodes."""
        self._misfits: list[tuple[EventPlace, str, str]] = []
        """Events that could not be applied: place, name and reason."""
        self._rejections: dict[str, str] = {}
        """The node of each rejection, by the rejection's id."""
        self._imported: dict[str, str] = {}
        """The last rejection of each handoff by a GoT tool, whose lines have no other id."""
        self._accepted: dict[str, str] = {}
        """How each accepted rejection was accepted."""
        self._named: dict[str, None] = {}
        """Tasks that rejections and their answers name."""

    def apply(self, place: EventPlace, event: Event | _Description) -> None:
        """Applies one event, or the node that one adds; further copies have no effect."""
        if place[-1] and place == self._place:
            return
        self._place = place
        if isinstance(event, _Description):
            name, why = _ADDED, self._add(event)
        else:
            name, why = event.name, _HANDLERS[event.name](self, event)
        if why:
            self._misfits.append((place, name, why))

    def conflicts(self) -> list[EventConflict]:
        """Events that could not be applied, in order."""
        return [
            EventConflict(event_id=event_id, event=name, at=time, why=why)
            for (time, _, _, event_id), name, why in sorted(self._misfits, key=itemgetter(0))
        ]

    def add_named_tasks(self) -> None:
        """Adds tasks that rejections name without an event, which another branch may have."""
        ends = {end for edge in self.graph.dangling_edges() for end in (edge.source, edge.target)}
        for name in self._named:
            if name in ends and name not in self.graph.nodes:
                self.graph.add_node(name, NodeType.TASK, name)

    def leave_out_dangling(self) -> None:
        """Removes edges without both nodes."""
        for edge in list(self.graph.dangling_edges()):
            self.graph.remove_edge(edge.source, edge.target, edge.edge_type)
            absent = edge.target if edge.source in self.graph.nodes else edge.source
            self._misfits.append((self._linked[_key(edge)], _LINKED, f"{absent} is not a node"))

    def create(self, event: Event) -> str:
        """Adds the node described by an event, unless its id exists."""
        description = _description_of(event)
        return self._add(description) if description else "it does not describe a node"

    def _add(self, description: _Description) -> str:
        node = description.node
        if node.id in self.graph.nodes:
            return (
                ""
                if _are_equal(self._created[node.id], description)
                else f"{node.id} already exists with other content"
            )
        self._created[node.id] = description
        self.graph.nodes[node.id] = node  # the same one: a change makes another
        return ""

    def update(self, event: Event) -> str:
        name, changes = _changes(event)
        node = self.graph.get_node(name)
        if node is None:
            return f"{name or 'what it changes'} is not a node"
        # Some changes were written by hand as `{"old": …, "new": …}`.
        current = {
            key: value["new"] if isinstance(value, dict) and value.keys() == {"old", "new"} else value
            for key, value in changes.items()
        }
        content = current.pop(self._created[name].content_key, node.content)
        self.graph.add_node(name, node.node_type, _text(content), node.properties | current)
        return ""

    def delete(self, event: Event) -> str:
        """Removes a node and its edges."""
        name = _node_id(event)
        if name not in self.graph.nodes:
            return f"{name or 'what it deletes'} is not a node"
        self._lost.update(_key(edge) for edge in self.graph.remove_node(name))
        return ""

    def link(self, event: Event) -> str:
        if not isinstance(event, tasks.EdgeCreated):
            return "it does not describe an edge"
        source, target = _edge_end(event.src), _edge_end(event.tgt)
        key = _key(self.graph.add_edge(source, target, event.type, event.weight))
        self._linked[key] = self._place
        self._lost.discard(key)
        return ""

    def unlink(self, event: Event) -> str:
        """Removes an edge, which may already be gone with one of its nodes."""
        if not isinstance(event, tasks.EdgeDeleted):
            return "it does not describe an edge"
        source, target = _edge_end(event.src), _edge_end(event.tgt)
        if self.graph.remove_edge(source, target, event.type) or (source, target, event.type) in self._lost:
            return ""
        return f"there is no edge {event.type} from {source} to {target}"

    def reject(self, event: Event) -> str:
        if not isinstance(event, tasks.HandoffRejected | tasks.HandoffRejectionInvalid):
            return "it does not describe a rejection"
        named = event.task_id or self._handed_tasks.get(event.handoff_id, "")
        if not named:
            return "it names neither a task nor a handoff that is known"
        task, unique = find_task_node(self.graph, named), event.rejection_id or event.meta.origin
        if unique in self._rejections:
            return f"the rejection {unique} is already in the graph"
        own = {
            "task_id": task,
            "handoff_id": event.handoff_id,
            "agent_id": event.agent,
            "rejected_at": event.ts,
        }
        record = TaskRejection.from_dict(tasks.record_of(event) | own)
        is_valid = isinstance(event, tasks.HandoffRejected)
        node = add_rejection(self.graph, task, unique, record, is_valid=is_valid)
        self._remember_node(node)
        self._rejections[unique] = node.id
        if event.is_legacy:
            self._imported[event.handoff_id] = unique
        self._named[task] = None
        return ""

    def answer(self, event: Event) -> str:
        """Adds a decision and the blocker it accepts. An imported answer only applies to imported rejections."""
        if not isinstance(event, tasks.RejectionAnswered):
            return "it does not describe an answer"
        unique = self._imported.get(event.handoff_id, "") if event.is_legacy else event.rejection_id
        rejection = self._rejections.get(unique)
        if rejection is None or rejection not in self.graph.nodes:
            return f"there is no rejection {unique or f'of the handoff {event.handoff_id}'} to answer"
        if unique in self._accepted:
            return f"the rejection was already answered, by {self._accepted[unique]}"
        if (
            parse_decision_type(event.decision.decision_type) or DecisionType.OVERRIDE
        ) is not DecisionType.OVERRIDE:
            self._accepted[unique] = event.decision.decision_type
        for node in add_decision(self.graph, rejection, unique, event.decision):
            self._remember_node(node)
            node.properties["at"] = event.ts
        self._named.update((find_task_node(self.graph, name), None) for name in event.decision.created_tasks)
        return ""

    def _remember_node(self, node: GraphNode) -> None:
        """Remembers a node as described, so that later events find it."""
        self._created[node.id] = _Description(node=node, content_key=_CONTENT[0])


def _key(edge: GraphEdge) -> EdgeKey:
    return (edge.source, edge.target, str(edge.edge_type))


def _edge_end(text: str) -> str:
    return ids.parse_node_id(text) or text


def _node_id(event: Event) -> str:
    """The node of an event; empty if it names none."""
    found = event.fields.get("id") if isinstance(event, Unknown) else getattr(event, "id", "")
    return ids.parse_node_id(found) or "" if isinstance(found, str) else ""


def _description_of(event: Event) -> _Description | None:
    """The node in an event that creates one; None if there is none."""
    name = _node_id(event)
    if not name:
        return None
    if isinstance(event, tasks.TaskAdded):
        return _description(name, NodeType.TASK, msgspec.structs.asdict(event.data), "title")
    if not isinstance(event, Unknown):
        return None
    fields = event.fields
    if event.kind == "decision.create":
        stated = {key: value for key, value in fields.items() if key != "id"}
        return _description(name, NodeType.DECISION, stated, "decision")
    kind, data = fields.get("type"), fields.get("data", {})
    if not isinstance(kind, str) or not kind or not isinstance(data, dict):
        return None
    return _description(name, kind, data, next((key for key in _CONTENT if key in data), _CONTENT[0]))


def _description(name: str, kind: str, stated: Mapping[str, Any], content_key: str) -> _Description:
    description = {
        key: value for key, value in stated.items() if value not in (None, msgspec.UNSET, "", (), [], {})
    }
    content = _text(description.pop(content_key, None))
    known = NodeType.__members__.get(kind, kind)
    node = GraphNode(id=name, node_type=known, content=content, properties=description)
    return _Description(node=node, content_key=content_key)


def _are_equal(one: _Description, other: _Description) -> bool:
    try:
        return one == other
    except RecursionError:  # values nested as deeply as a line permits
        return False


def _changes(event: Event) -> tuple[str, dict[str, Any]]:
    """The node that an event changes, and the new values."""
    name = _node_id(event)
    if isinstance(event, tasks.TaskEdited):
        description = msgspec.structs.asdict(event.changes)
        return name, {key: value for key, value in description.items() if value is not None}
    changes = event.fields.get("changes") if isinstance(event, Unknown) else None
    return (name, changes) if isinstance(changes, dict) else ("", {})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


_HANDLERS: dict[str, Callable[[_Fold, Event], str]] = {
    "node.create": _Fold.create,
    "decision.create": _Fold.create,
    "node.update": _Fold.update,
    "node.delete": _Fold.delete,
    "edge.create": _Fold.link,
    "edge.delete": _Fold.unlink,
    "handoff.reject": _Fold.reject,
    "handoff.reject.invalid": _Fold.reject,
    "handoff.reject.response": _Fold.answer,
}
_ADDED, _LINKED = "node.create", "edge.create"
_STARTS = event_names(tasks.HandoffInitiated, tasks.TaskClaimed)
_REJECTIONS = tasks.HandoffRejected | tasks.HandoffRejectionInvalid
