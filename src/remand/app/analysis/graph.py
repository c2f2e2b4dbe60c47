"""The graph from the events: tasks, decisions and other nodes, and the edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from operator import itemgetter
from sys import intern
from typing import Any

import msgspec
from msgspec.structs import replace

from remand.app.events.signatures import confirmed_events
from remand.app.events.task_folds import task_lines
from remand.domain import ids
from remand.domain.events import tasks
from remand.domain.events.catalogue import Unknown
from remand.domain.events.event import Event, event_names
from remand.domain.graph import (
    BLOCKER_PREFIX,
    DECISION_PREFIX,
    REJECTION_PREFIX,
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
from remand.ledger import codec
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
    return _fold(partial(confirmed_events, view), statuses or {})


def count_graph(view: Transaction) -> dict[str, Any]:
    """Figures about the graph of a ledger: each task's part is built by itself, counted and forgotten."""
    count = _GraphCount()
    withheld = {found.event_id for found in view.unconfirmed.every()}
    others = codec.decode_stored_lines((row.line for row in view.event_rows.rows(have_task=False)), _NAMES)
    is_countable = count.add("", (event for event in others if event.meta.id not in withheld)) and all(
        count.add(task_id, codec.decode_stored_lines(lines, _NAMES)) for task_id, lines in task_lines(view)
    )
    return (count.figures() if is_countable else None) or graph_stats(read_graph(view))


def fold_graph(events: Iterable[Event], statuses: Mapping[str, str] | None = None) -> GraphView:
    """The graph of events in any order and number of copies."""
    given = list(events)
    return _fold(lambda _: given, statuses or {})


def _fold(read: Callable[[Collection[str]], Iterable[Event]], statuses: Mapping[str, str]) -> GraphView:
    """Folds the events with the names it asks for; others may be among them.

    Those with which handoffs start are read only if a rejection names no task. Of a task that was added, only its node
    is in memory: most of a large ledger's events are such.
    """
    kept = [
        (_place(event), _node_or_event(event)) for event in read(_HANDLERS.keys()) if event.name in _HANDLERS
    ]
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
    nodes = Counter(str(node.node_type) for node in view.graph.nodes.values())
    return _figures(nodes, Counter(str(edge.edge_type) for edge in view.graph.edges), len(view.conflicts))


def _figures(nodes: Counter[str], edges: Counter[str], conflicts: int) -> dict[str, Any]:
    return {
        "nodes": nodes.total(),
        "edges": edges.total(),
        "by_node_type": _counts_in_order(nodes),
        "by_edge_type": _counts_in_order(edges),
        "conflicts": conflicts,
    }


def _counts_in_order(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


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
        self.rejections: dict[str, str] = {}
        """The node of each rejection, by the rejection's id."""
        self._imported: dict[str, str] = {}
        """The last rejection of each handoff by a GoT tool, whose lines have no other id."""
        self._accepted: dict[str, str] = {}
        """How each accepted rejection was accepted."""
        self.named: dict[str, None] = {}
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
        for name in self.named:
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
        if unique in self.rejections:
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
        self.rejections[unique] = node.id
        if event.is_legacy:
            self._imported[event.handoff_id] = unique
        self.named[task] = None
        return ""

    def answer(self, event: Event) -> str:
        """Adds a decision and the blocker it accepts. An imported answer only applies to imported rejections."""
        if not isinstance(event, tasks.RejectionAnswered):
            return "it does not describe an answer"
        unique = self._imported.get(event.handoff_id, "") if event.is_legacy else event.rejection_id
        rejection = self.rejections.get(unique)
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
        self.named.update((find_task_node(self.graph, name), None) for name in event.decision.created_tasks)
        return ""

    def _remember_node(self, node: GraphNode) -> None:
        """Remembers a node as described, so that later events find it."""
        self._created[node.id] = _Description(node=node, content_key=_CONTENT[0])


class _GraphCount:
    """Counts a graph part by part: the events of each task are a part, and those of no task.

    A part can only be counted by itself if its events name nothing of another part but the ends of edges.
    """

    def __init__(self) -> None:
        self._nodes: Counter[str] = Counter()
        self._edges: Counter[str] = Counter()
        self._conflicts = 0
        self._known: set[str] = set()
        """The nodes at which edges of other parts may end."""
        self._open: list[tuple[str, tuple[str, ...]]] = []
        """The types of edges with ends outside their part, and those ends."""
        self._named: set[str] = set()
        self._rejections: set[str] = set()
        self._sought: set[str] = set()
        """The rejections that were answered in a part without them."""

    def add(self, task_id: str, events: Iterable[Event]) -> bool:
        """Counts a part; False if it cannot be counted by itself."""
        events = sorted(events, key=order_key)
        if len(events) == 1 and type(events[0]) is tasks.TaskAdded and _is_within(events[0], task_id):
            self._nodes[_TASK] += 1
            self._known.add(_node_id(events[0]))
            return True
        fold = _Fold({})
        for event in events:
            if not _is_within(event, task_id):
                return False
            fold.apply(order_key(event), _without_texts(event))
            if isinstance(event, tasks.RejectionAnswered) and event.rejection_id not in fold.rejections:
                self._sought.add(event.rejection_id)
        if not self._rejections.isdisjoint(fold.rejections):
            return False
        self._rejections.update(fold.rejections)
        self._named.update(fold.named)
        self._conflicts += len(fold.conflicts())
        nodes = fold.graph.nodes
        self._nodes.update(str(node.node_type) for node in nodes.values())
        self._known.update(name for name in nodes if not name.startswith(_DERIVED))
        self._edges.update(str(edge.edge_type) for edge in fold.graph.edges)
        for edge in fold.graph.dangling_edges():
            outside = tuple(end for end in (edge.source, edge.target) if end not in nodes)
            self._open.append((str(edge.edge_type), outside))
        return True

    def figures(self) -> dict[str, Any] | None:
        """The figures, once all parts are counted; None if a part named what another part may have."""
        ends = {end for _, outside in self._open for end in outside} - self._known
        if any(end.startswith(_DERIVED) for end in ends) or not self._sought.isdisjoint(self._rejections):
            return None
        named = ends & self._named
        dangling = [name for name, outside in self._open if not ends.isdisjoint(set(outside) - named)]
        nodes, edges = self._nodes + Counter({_TASK: len(named)}), self._edges - Counter(dangling)
        return _figures(nodes, edges, self._conflicts + len(dangling))


_DERIVED = (REJECTION_PREFIX, DECISION_PREFIX, BLOCKER_PREFIX)
"""How the ids of nodes begin that rejections and their answers make."""


def _is_within(event: Event, task_id: str) -> bool:
    """True if an event can be applied with the other events of its task, or of no task, alone."""
    if isinstance(event, _REJECTIONS | tasks.RejectionAnswered):
        return event.task_id == task_id != "" and not event.is_legacy
    if isinstance(event, tasks.EdgeCreated | tasks.EdgeDeleted):
        return True
    name = _node_id(event)
    is_own = name == ids.task_node_id(task_id) if task_id else ids.parse_task_id(name) is None
    return is_own and event.name != _DELETED and not name.startswith(_DERIVED)


def _without_texts(event: Event) -> Event:
    """An event; of a rejection's record only the reason."""
    if isinstance(event, _REJECTIONS) and "reason_type" in event.rejection:
        return replace(event, rejection={"reason_type": event.rejection["reason_type"]})
    return event


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
_ADDED, _DELETED, _LINKED = "node.create", "node.delete", "edge.create"
_TASK = str(NodeType.TASK)
_NAMES = frozenset(_HANDLERS)
_STARTS = event_names(tasks.HandoffInitiated, tasks.TaskClaimed)
_REJECTIONS = tasks.HandoffRejected | tasks.HandoffRejectionInvalid
