"""What a graph alone teaches about the rejections that were logged to it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from remand.app.patterns.analysis import COMMON, MOST_CLUSTERS, Tally, blocker_clusters, by_task
from remand.app.patterns.cases import NOBODY, OVERRIDE, UNKNOWN, Cases, Outcome
from remand.domain.graph import EdgeType, Node, ThoughtGraph
from remand.domain.reasons import DecisionType, decision_named, reason_named
from remand.domain.rejection_graph import DECISION_CONTENT, REJECTION_PREFIX

_RANKS = {"": 0, UNKNOWN: 1, OVERRIDE: 2}
_FINAL = 3
"""Of several answers the one that says most counts, of equals the first: what was accepted stays so."""


def analyze_rejection_patterns(graph: ThoughtGraph) -> dict[str, Any]:
    """Which tasks and agents reject most, what blocks most, and how rejections were answered.

    An invalid rejection counts as overridden. What is not known of an answer is in no rate, and is not guessed from
    its rationale: graphs of other tools name no type of decision, but their content or their links may tell. Blockers are those of accepted rejections, near-duplicates
    merged, the most common first.
    """
    found = _cases(graph)
    tally = Tally(found)
    overridden = tally.overridden()
    merged = blocker_clusters(found, MOST_CLUSTERS).largest
    return {
        "total_rejections": len(found),
        "invalid_rejections": tally.count(lambda kind: not kind.is_valid),
        "unanswered": len(found) - tally.answered(),
        "by_reason": tally.by("reason"),
        "by_agent": tally.by("agent"),
        "by_task": by_task(found),
        "common_blockers": [cluster.example for cluster in merged[:COMMON]],
        "blocker_clusters": msgspec.to_builtins(merged),
        "decision_outcomes": tally.decisions(),
        "override_rate": overridden.rate or 0.0,
        "override_share": msgspec.to_builtins(overridden),
    }


def _cases(graph: ThoughtGraph) -> Cases:
    """The rejections in a graph, each with the task it observes and the decision that counts."""
    tasks: dict[str, str] = {}
    decisions: dict[str, str] = {}
    refining = {(edge.source, edge.target) for edge in graph.edges if edge.edge_type == EdgeType.REFINES}
    for edge in graph.edges:
        if edge.edge_type == EdgeType.OBSERVES:
            tasks[edge.source] = edge.target
    for edge in graph.edges:
        name, node = edge.target, graph.get_node(edge.source)
        if edge.edge_type == EdgeType.ANSWERS and node is not None:
            made = _decision(node, tasks.get(name, ""), refining)
            if _RANKS.get(made, _FINAL) > _RANKS.get(decisions.get(name, ""), _FINAL):
                decisions[name] = made
    nodes = [node for node in graph.nodes.values() if node.id.startswith(REJECTION_PREFIX)]
    return Cases(
        times=[_told(node, "rejected_at") for node in nodes],
        tasks=[tasks.get(node.id) or _told(node, "task_id") or _task_in(node.id) for node in nodes],
        agents=[_told(node, "agent_id") or NOBODY for node in nodes],
        reasons=[_reason(node) for node in nodes],
        valid=[_is_valid(node) for node in nodes],
        decisions=[decisions.get(node.id) or ("" if _is_valid(node) else OVERRIDE) for node in nodes],
        outcomes=[Outcome.UNKNOWN] * len(nodes),
        blockers=[_told(node, "blocking_factor") for node in nodes],
    )


def _is_valid(node: Node) -> bool:
    return node.properties.get("is_valid") is not False


def _reason(node: Node) -> str:
    named = reason_named(node.properties.get("reason_type"))
    return named.name if named else UNKNOWN


def _decision(node: Node, task: str, refining: AbstractSet[tuple[str, str]]) -> str:
    """The type of a decision: as it is stored or written in its content, else what its links leave no doubt about."""
    stored = decision_named(node.properties.get("decision_type")) or decision_named(
        node.content.removeprefix(DECISION_CONTENT) if node.content.startswith(DECISION_CONTENT) else None
    )
    if stored is not None:
        return stored.name
    if _told(node, "deferred_task"):
        return DecisionType.ACCEPT_AND_DEFER.name
    created = node.properties.get("created_tasks")
    if not isinstance(created, list | tuple) or not created:
        return UNKNOWN
    if not all(isinstance(name, str) and (name, task) in refining for name in created):
        return UNKNOWN
    made = DecisionType.ACCEPT_AND_REFORMULATE if len(created) == 1 else DecisionType.ACCEPT_AND_DECOMPOSE
    return made.name


def _task_in(name: str) -> str:
    """The task in the id of a rejection: `rejection:TASK:TIME`."""
    return name.removeprefix(REJECTION_PREFIX).rpartition(":")[0]


def _told(node: Node, name: str) -> str:
    value = node.properties.get(name)
    return value if isinstance(value, str) else ""
