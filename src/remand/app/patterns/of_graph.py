"""What a graph alone teaches about the rejections that were logged to it."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.app.patterns.analysis import COMMON, MOST_CLUSTERS, Tally, blocker_clusters, by_task
from remand.app.patterns.cases import NOBODY, OVERRIDE, UNKNOWN, Cases, Outcome
from remand.domain.graph import EdgeType, Node, ThoughtGraph
from remand.domain.reasons import decision_named, reason_named
from remand.domain.rejection_graph import REJECTION_PREFIX


def analyze_rejection_patterns(graph: ThoughtGraph) -> dict[str, Any]:
    """Which tasks and agents reject most, what blocks most, and how rejections were answered.

    An invalid rejection counts as overridden. Blockers are those of accepted rejections, near-duplicates
    merged, the most common first.
    """
    found = _cases(graph)
    tally = Tally(found)
    overridden = tally.overridden()
    merged = blocker_clusters(found, MOST_CLUSTERS).largest
    return {
        "total_rejections": len(found),
        "invalid_rejections": tally.count(lambda kind: not kind.is_valid),
        "unanswered": len(found) - overridden.of,
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
    for edge in graph.edges:
        name = edge.target
        if edge.edge_type == EdgeType.OBSERVES:
            tasks[edge.source] = name
        elif edge.edge_type == EdgeType.ANSWERS and decisions.get(name, OVERRIDE) == OVERRIDE:
            decisions[name] = _decision(graph.get_node(edge.source))
    nodes = [node for node in graph.nodes.values() if node.id.startswith(REJECTION_PREFIX)]
    return Cases(
        times=[_told(node, "rejected_at") for node in nodes],
        tasks=[tasks.get(node.id) or _told(node, "task_id") for node in nodes],
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


def _decision(node: Node | None) -> str:
    named = decision_named(node.properties.get("decision_type")) if node else None
    return named.name if named else UNKNOWN


def _told(node: Node, name: str) -> str:
    value = node.properties.get(name)
    return value if isinstance(value, str) else ""
