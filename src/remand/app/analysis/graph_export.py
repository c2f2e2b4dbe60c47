"""Exports the graph to the formats of other programs and to an HTML page. Foreign text always remains text."""

from __future__ import annotations

import json
import math
import unicodedata
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any
from xml.etree import ElementTree as ET

from remand.domain.graph import GraphEdge, GraphNode, NodeType, ThoughtGraph
from remand.domain.text.words import shorten

_LABEL = 60
_PAGE_TEXT = 4_000
_DEEPEST = 20
_MERMAID_EDGES, _MERMAID_CHARACTERS = 500, 50_000
"""Mermaid's default limits; larger graphs need a page that raises them."""

_FILLS: dict[str, str] = {
    NodeType.TASK: "#cfe0fb",
    NodeType.DECISION: "#e6d6fb",
    NodeType.CONTEXT: "#cdeceb",
    NodeType.GOAL: "#fbe0c4",
    NodeType.CONSTRAINT: "#f9d2d2",
    NodeType.OBSERVATION: "#d3efd9",
}
_OTHER_FILL = "#e9e9ec"
_SHAPES: dict[str, tuple[str, str, str]] = {
    NodeType.DECISION: ("{", "}", "diamond"),
    NodeType.GOAL: ("([", "])", "oval"),
    NodeType.CONTEXT: ("(", ")", "note"),
    NodeType.CONSTRAINT: ("{{", "}}", "hexagon"),
}
"""Mermaid's brackets and Graphviz's shape by node type."""
_OTHER_SHAPE = ("[", "]", "box")


# ------------------------------------------------------------------------------------------------ Mermaid


def render_mermaid(graph: ThoughtGraph) -> str:
    names = _short_names(graph)
    lines = [
        *(_mermaid_node(names[node.id], node) for node in graph.nodes.values()),
        *(
            f'    {names[edge.source]} -->|"{_mermaid_text(str(edge.edge_type))}"| {names[edge.target]}'
            for edge in _complete_edges(graph)
        ),
        *(f"    classDef {kind} fill:{fill},stroke:#888,color:#111" for kind, fill in _FILLS.items()),
    ]
    chart = "\n".join(["flowchart LR", *lines, ""])
    if len(graph.edges) > _MERMAID_EDGES or len(chart) > _MERMAID_CHARACTERS:
        return f"%% Large: draw it with maxEdges and maxTextSize raised in mermaid.initialize.\n{chart}"
    return chart


def _mermaid_node(name: str, node: GraphNode) -> str:
    opening, closing, _ = _SHAPES.get(node.node_type, _OTHER_SHAPE)
    kind = f":::{node.node_type}" if node.node_type in _FILLS else ""
    return f'    {name}{opening}"{_mermaid_text(_title(node))}"{closing}{kind}'


def _mermaid_text(text: str) -> str:
    """Escapes everything except letters, digits and harmless punctuation: Mermaid interprets Markdown even in quotes."""
    safe = " ,()/"
    # Mermaid marks entities internally with the ligature, and rejects empty text.
    label = _label(text).replace("ﬂ", "fl") or "?"
    return "".join(c if c.isalnum() or c in safe else f"#{ord(c)};" for c in label)


# ----------------------------------------------------------------------------------------------- Graphviz


def render_dot(graph: ThoughtGraph) -> str:
    """The graph in Graphviz's language."""
    names = _short_names(graph)
    lines = [
        "digraph thoughts {",
        '    graph [rankdir=LR, charset="UTF-8"];',
        '    node [style="filled", fontname="Helvetica", fontsize=11, color="#888888"];',
        '    edge [fontname="Helvetica", fontsize=9, color="#777777"];',
        *(_dot_node(names[node.id], node) for node in graph.nodes.values()),
        *(_dot_edge(names[edge.source], names[edge.target], edge) for edge in _complete_edges(graph)),
        "}",
        "",
    ]
    return "\n".join(lines)


def _dot_node(name: str, node: GraphNode) -> str:
    _, _, shape = _SHAPES.get(node.node_type, _OTHER_SHAPE)
    fill = _FILLS.get(node.node_type, _OTHER_FILL)
    tooltip = _dot_text(f"{node.node_type} {node.id}")
    return (
        f'    {name} [label={_dot_text(_title(node))}, tooltip={tooltip}, shape={shape}, fillcolor="{fill}"];'
    )


def _dot_edge(source: str, target: str, edge: GraphEdge) -> str:
    tooltip = _dot_text(f"{edge.edge_type}, weight {_weight(edge):g}")
    return f"    {source} -> {target} [label={_dot_text(str(edge.edge_type))}, tooltip={tooltip}];"


def _dot_text(text: str) -> str:
    """A quoted text; Graphviz interprets backslash escapes and HTML entities in it."""
    escaped = _label(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# ------------------------------------------------------------------------------------------------ GraphML

_KEYS = (
    ("type", "node", "string"),
    ("content", "node", "string"),
    ("properties", "node", "string"),
    ("edge_type", "edge", "string"),
    ("weight", "edge", "double"),
)


def render_graphml(graph: ThoughtGraph) -> str:
    """The graph as GraphML; a node's properties are one JSON text."""
    names = _clean_ids(graph)
    root = ET.Element("graphml", {"xmlns": "http://graphml.graphdrawing.org/xmlns"})
    for key, owner, kind in _KEYS:
        ET.SubElement(root, "key", {"id": key, "for": owner, "attr.name": key, "attr.type": kind})
    body = ET.SubElement(root, "graph", {"id": "thoughts", "edgedefault": "directed"})
    for node in graph.nodes.values():
        element = ET.SubElement(body, "node", {"id": names[node.id]})
        _add_datum(element, "type", _visible_text(str(node.node_type)))
        _add_datum(element, "content", _visible_text(node.content))
        _add_datum(element, "properties", json.dumps(_json_value(node.properties)))
    for number, edge in enumerate(_complete_edges(graph)):
        ends = {"source": names[edge.source], "target": names[edge.target]}
        element = ET.SubElement(body, "edge", {"id": f"e{number}", **ends})
        _add_datum(element, "edge_type", _visible_text(str(edge.edge_type)))
        _add_datum(element, "weight", repr(_weight(edge)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_datum(element: ET.Element, key: str, text: str) -> None:
    ET.SubElement(element, "data", {"key": key}).text = text


# --------------------------------------------------------------------------------------------------- JSON


def render_json(graph: ThoughtGraph) -> str:
    return json.dumps(_json_document(graph), indent=2, allow_nan=False) + "\n"


def _json_document(graph: ThoughtGraph, longest: int | None = None) -> dict[str, Any]:
    names = _clean_ids(graph, longest)
    return {
        "nodes": [
            {
                "id": names[node.id],
                "node_type": _json_value(str(node.node_type), longest),
                "content": _json_value(node.content, longest),
                "properties": _json_value(node.properties, longest),
            }
            for node in graph.nodes.values()
        ],
        "edges": [
            {
                "source": names[edge.source],
                "target": names[edge.target],
                "edge_type": _json_value(str(edge.edge_type), longest),
                "weight": _weight(edge),
            }
            for edge in _complete_edges(graph)
        ],
    }


def _json_value(value: Any, longest: int | None = None, depth: int = 0) -> Any:
    """The value in a form that JSON permits, with texts cleaned and optionally truncated."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if depth == _DEEPEST:
            return "…"
        if isinstance(value, Mapping):
            return {
                _truncate(_visible_text(str(key)), longest): _json_value(value[key], longest, depth + 1)
                for key in value
            }
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_json_value(item, longest, depth + 1) for item in items]
    return _truncate(_visible_text(str(value)), longest)


# --------------------------------------------------------------------------------------------------- page


def render_html(graph: ThoughtGraph) -> str:
    """The graph as a self-contained HTML page with pan, zoom and search."""
    data = json.dumps(_json_document(graph, _PAGE_TEXT), separators=(",", ":"), allow_nan=False)
    inert = data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    before, after = _page_parts()
    return f"{before}{inert}{after}"


@cache
def _page_parts() -> tuple[str, str]:
    """The page before and after its data. Its policy allows only its own style and script."""
    page = resources.files("remand.app").joinpath("graph_page.html").read_text(encoding="utf-8")
    for tag in ("style", "script"):
        text = page.split(f"<{tag}>", 1)[1].split(f"</{tag}>", 1)[0]
        digest = b64encode(sha256(text.encode()).digest()).decode()
        page = page.replace(f"{{{{{tag} hash}}}}", f"sha256-{digest}")
    before, after = page.split("{{graph}}")
    return before, after


# --------------------------------------------------------------------------------------------------- text

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Invisible characters that Unicode classifies as letters, marks or symbols."""


def _visible_text(text: str) -> str:
    """The text without control and invisible characters; newlines and tabs are kept."""
    if text.isascii() and text.isprintable():
        return text
    lines = "\n".join(text.splitlines())
    return "".join(c for c in lines if c in "\n\t" or not _is_invisible(c))


def _is_invisible(character: str) -> bool:
    code = ord(character)
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Cs")
        or character in _INVISIBLE
        or 0xFE00 <= code <= 0xFE0F
        or 0xFDD0 <= code <= 0xFDEF
        or 0xE0000 <= code <= 0xE0FFF
        or code & 0xFFFE == 0xFFFE
    )


def _truncate(text: str, longest: int | None) -> str:
    return text if longest is None else shorten(text, longest)


def _label(text: str) -> str:
    return _truncate(" ".join(_visible_text(text[: 20 * _LABEL]).split()), _LABEL)


def _title(node: GraphNode) -> str:
    return node.content if _label(node.content) else node.id


def _weight(edge: GraphEdge) -> float:
    return float(edge.weight) if math.isfinite(edge.weight) else 0.0


def _short_names(graph: ThoughtGraph) -> dict[str, str]:
    return {name: f"n{number}" for number, name in enumerate(graph.nodes)}


def _clean_ids(graph: ThoughtGraph, longest: int | None = None) -> dict[str, str]:
    """Unique ids of nodes without invisible characters."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    copies: Counter[str] = Counter()
    for name in graph.nodes:
        clean = unique = _truncate(" ".join(_visible_text(name).split()), longest) or "node"
        while unique in taken:
            copies[clean] += 1
            unique = f"{clean} ({copies[clean] + 1})"
        taken.add(unique)
        names[name] = unique
    return names


def _complete_edges(graph: ThoughtGraph) -> Iterator[GraphEdge]:
    """The edges with both nodes."""
    return (edge for edge in graph.edges if edge.source in graph.nodes and edge.target in graph.nodes)


FORMATS: dict[str, Callable[[ThoughtGraph], str]] = {
    "mermaid": render_mermaid,
    "dot": render_dot,
    "graphml": render_graphml,
    "json": render_json,
    "html": render_html,
}
