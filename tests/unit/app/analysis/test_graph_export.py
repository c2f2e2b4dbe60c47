"""Holds that every export is valid and that no text in the graph can break or add to it."""

import json
import re
import unicodedata
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import networkx as nx
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from remand.app.analysis.graph_export import (
    FORMATS,
    render_dot,
    render_graphml,
    render_html,
    render_json,
    render_mermaid,
)
from remand.domain.graph import EdgeType, NodeType, ThoughtGraph

HOSTILE = {
    "quotes": "\"double\" 'single' `tick`",
    "brackets": "] } ) > [ { ( <",
    "lines": "a\nb\r\nc\u2028d\x0be",
    "closing-script": "</script><script>alert(1)</script>",
    "closing-script-with-space": "</script ><!--<script>",
    "image": "<img src=x onerror=alert(1)>",
    "comment": "<!-- --> ]]> <?x?> <!DOCTYPE x>",
    "controls": "a\x00b\x1b[31mc\x7fd\x9be",
    "bidi": "a\u202eb\u2066c\u200bd\ufeffe",
    "tags": "a\U000e0041b\ufe0fc\u3164d",
    "surrogate": "a\ud800b\ufffec\uffff",
    "arrow": "--> n0 -->|x| n1",
    "mermaid-directive": '%%{init: {"theme": "dark"}}%%',
    "mermaid-style": "style n0 fill:#f00; classDef TASK fill:#0f0;",
    "mermaid-entity": "style:#quot; #35; ﬂ°°60¶ß",
    "markdown": "1. *one* _two_ [three](http://x)",
    "dot-statement": '"]; evil [label="x',
    "dot-escape": '\\N \\G \\" \\',
    "entity": "&quot; &#60; &amp;",
    "placeholder": "{{graph}} {{script hash}}",
    "empty": "",
    "blank": "   ",
    "unseen-only": "\u202e\u200b",
    "huge": "x" * 300_000,
    "not-latin": "é 中文 😀",
}
hostile = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)


def graph_of(text: str) -> ThoughtGraph:
    """A graph with the text wherever a text may stand."""
    graph = ThoughtGraph()
    graph.add_node("first", NodeType.TASK, text, {"said": text, text: [text, {"deep": text}]})
    graph.add_node(f"{text}:second", text, text, {})
    graph.add_edge("first", f"{text}:second", text, 0.5)
    graph.add_edge(f"{text}:second", "first", EdgeType.BLOCKS, 1.0)
    return graph


@pytest.fixture
def graph() -> ThoughtGraph:
    graph = ThoughtGraph()
    graph.add_node("task:T-1", NodeType.TASK, "Mend the roof", {"status": "done", "skills": ("roofing",)})
    graph.add_node("decision:D-1", NodeType.DECISION, "Use slate\nnot tin", {})
    graph.add_node("dream:1", "DREAM", "", {})
    graph.add_edge("decision:D-1", "task:T-1", EdgeType.MOTIVATES, 0.25)
    graph.add_edge("decision:D-1", "task:T-1", "HAUNTS", 1.0)
    graph.add_edge("task:T-1", "absent", EdgeType.BLOCKS, 1.0)
    return graph


def shows_only_what_can_be_seen(text: str) -> bool:
    return not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") and c != "\n" for c in text)


def test_every_format_of_the_command_line_is_there() -> None:
    assert list(FORMATS) == ["mermaid", "dot", "graphml", "json", "html"]


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_graph_is_written_the_same(name: str) -> None:
    assert FORMATS[name](graph_of("x")) == FORMATS[name](graph_of("x"))


@pytest.mark.parametrize("name", FORMATS)
@hostile
def test_no_control_or_invisible_character_is_written(name: str, text: str) -> None:
    written = FORMATS[name](graph_of(text))

    assert written.encode()
    assert shows_only_what_can_be_seen(written)


@pytest.mark.parametrize("name", ["json", "html"])
def test_no_control_or_invisible_character_is_written_as_an_escape(name: str) -> None:
    written = FORMATS[name](graph_of(HOSTILE["bidi"] + HOSTILE["controls"]))

    assert not re.search(r"\\u(00[01]|202|206|200|feff)", written)


UNSEEN = "\x00\x1b\x7f\x85\u00ad\u034f\u115f\u17b4\u180b\u200b\u200d\u202e\u2066\u2800\u3164\ufdd0\ufe0f\ufeff\uffa0\uffff\U000e0041\U000e0100"


@pytest.mark.parametrize("character", UNSEEN, ids=lambda character: f"{ord(character):04X}")
def test_what_has_no_shape_is_left_out(character: str) -> None:
    graph = ThoughtGraph()
    graph.add_node("x", NodeType.FACT, f"a{character}b")

    assert json.loads(render_json(graph))["nodes"][0]["content"].replace("\n", "") == "ab"


# Mermaid.

MERMAID_TEXT = r'"(?:[\w ,()/]|#\d+;)+"'
MERMAID_LINES = re.compile(
    rf"    n\d+(?:\[{MERMAID_TEXT}\]|\{{{MERMAID_TEXT}\}}|\(\[{MERMAID_TEXT}\]\)|\({MERMAID_TEXT}\)"
    rf"|\{{\{{{MERMAID_TEXT}\}}\}})(?::::[A-Z]+)?"
    rf"|    n\d+ -->\|{MERMAID_TEXT}\| n\d+"
    r"|    classDef [A-Z]+ fill:#[0-9a-f]{6},stroke:#888,color:#111"
)


def test_mermaid_shows_titles_types_and_edges(graph: ThoughtGraph) -> None:
    lines = render_mermaid(graph).splitlines()

    assert lines[:6] == [
        "flowchart LR",
        '    n0["Mend the roof"]:::TASK',
        '    n1{"Use slate not tin"}:::DECISION',
        '    n2["dream#58;1"]',
        '    n1 -->|"MOTIVATES"| n0',
        '    n1 -->|"HAUNTS"| n0',
    ]
    assert all(line.startswith("    classDef ") for line in lines[6:])


@hostile
def test_mermaid_holds_any_text_as_a_label(text: str) -> None:
    first, *lines = render_mermaid(graph_of(text)).split("\n")[:-1]

    assert first == "flowchart LR"
    assert [line for line in lines if not MERMAID_LINES.fullmatch(line)] == []
    assert sum(" -->|" in line for line in lines) == 2
    assert "ﬂ" not in "".join(lines)


def test_mermaid_cuts_long_labels() -> None:
    assert len(render_mermaid(graph_of("x" * 300_000))) < 2_000


def test_mermaid_says_when_a_page_must_allow_a_large_chart() -> None:
    graph = ThoughtGraph()
    for number in range(502):
        graph.add_node(f"n{number}", NodeType.TASK, "x")
        graph.add_edge("n0", f"n{number}", EdgeType.SIMILAR)

    assert render_mermaid(graph).startswith("%% Large: ")


# Graphviz.

DOT_TEXT = r'"(?:[^"\\\n]|\\["\\])*"'
DOT_LINES = re.compile(
    rf"    n\d+ \[label={DOT_TEXT}, tooltip={DOT_TEXT}, shape=[a-z]+, fillcolor={DOT_TEXT}\];"
    rf"|    n\d+ -> n\d+ \[label={DOT_TEXT}, tooltip={DOT_TEXT}\];"
)


def test_dot_shows_titles_types_edges_and_weights(graph: ThoughtGraph) -> None:
    written = render_dot(graph)

    assert written.startswith("digraph thoughts {\n")
    assert written.endswith("\n}\n")
    assert '    n1 [label="Use slate not tin", tooltip="DECISION decision:D-1", shape=diamond,' in written
    assert '    n1 -> n0 [label="MOTIVATES", tooltip="MOTIVATES, weight 0.25"];' in written
    assert written.count(" -> ") == 2


@hostile
def test_dot_holds_any_text_as_a_quoted_text(text: str) -> None:
    lines = render_dot(graph_of(text)).split("\n")

    assert len(lines) == 10
    assert [line for line in lines[4:8] if not DOT_LINES.fullmatch(line)] == []


def test_dot_shows_backslashes_and_ampersands_as_they_are() -> None:
    graph = ThoughtGraph()
    graph.add_node("x", NodeType.TASK, "a\\N &lt;")

    assert 'label="a\\\\N &amp;lt;"' in render_dot(graph)


# GraphML.


def test_graphml_keeps_types_contents_properties_and_weights(graph: ThoughtGraph) -> None:
    read = nx.parse_graphml(render_graphml(graph))

    assert set(read.nodes) == {"task:T-1", "decision:D-1", "dream:1"}
    assert read.nodes["task:T-1"]["type"] == "TASK"
    assert read.nodes["decision:D-1"]["content"] == "Use slate\nnot tin"
    assert json.loads(read.nodes["task:T-1"]["properties"]) == {"status": "done", "skills": ["roofing"]}
    assert sorted(
        (source, target, data["edge_type"], data["weight"]) for source, target, data in read.edges(data=True)
    ) == [
        ("decision:D-1", "task:T-1", "HAUNTS", 1.0),
        ("decision:D-1", "task:T-1", "MOTIVATES", 0.25),
    ]


@hostile
def test_graphml_holds_any_text(text: str) -> None:
    written = render_graphml(graph_of(text))
    read = nx.parse_graphml(written)

    assert (read.number_of_nodes(), read.number_of_edges()) == (2, 2)
    assert len(ET.fromstring(written).findall(".//{*}data")) == 10


@for_all(st.text(), st.text())
def test_graphml_can_always_be_read(content: str, name: str) -> None:
    graph = graph_of(content)
    graph.add_node(name, NodeType.FACT, content)

    assert nx.parse_graphml(render_graphml(graph)).number_of_nodes() == len(graph.nodes)


# JSON.


def test_json_has_the_names_of_the_graph(graph: ThoughtGraph) -> None:
    read = json.loads(render_json(graph))

    assert read["nodes"][0] == {
        "id": "task:T-1",
        "node_type": "TASK",
        "content": "Mend the roof",
        "properties": {"status": "done", "skills": ["roofing"]},
    }
    assert read["edges"][0] == {
        "source": "decision:D-1",
        "target": "task:T-1",
        "edge_type": "MOTIVATES",
        "weight": 0.25,
    }
    assert (len(read["nodes"]), len(read["edges"])) == (3, 2)


def no_constant(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


def test_json_holds_values_json_does_not_know() -> None:
    graph = ThoughtGraph()
    odd = {"nan": float("nan"), "set": set("ihgfedcba"), "kind": NodeType.FACT, 7: None, "bytes": b"x"}
    graph.add_node("x", NodeType.FACT, "x", odd)
    graph.add_edge("x", "x", EdgeType.REFINES, float("inf"))

    read = json.loads(render_json(graph), parse_constant=no_constant)

    assert read["nodes"][0]["properties"] == {
        "nan": "nan",
        "set": [*"abcdefghi"],
        "kind": "FACT",
        "7": None,
        "bytes": "b'x'",
    }
    assert read["edges"][0]["weight"] == 0.0


def test_json_ends_values_nested_without_end() -> None:
    graph = ThoughtGraph()
    endless: list[Any] = []
    endless.append(endless)
    graph.add_node("x", NodeType.FACT, "x", {"endless": endless})

    assert "…" in str(json.loads(render_json(graph)))


def test_ids_that_look_alike_stay_apart() -> None:
    graph = ThoughtGraph()
    for name in ("a", "a\u200b", "a\u202e", "\u200b", "a (2)"):
        graph.add_node(name, NodeType.FACT, name)
    graph.add_edge("a\u200b", "a", EdgeType.SIMILAR)

    read = json.loads(render_json(graph))
    names = [node["id"] for node in read["nodes"]]

    assert len(set(names)) == 5
    assert (read["edges"][0]["source"], read["edges"][0]["target"]) == (names[1], "a")


# The page.


class Page(HTMLParser):
    """What a browser makes of the page: its elements, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.is_in_script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.is_in_script = tag == "script"
        if self.is_in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.is_in_script = False

    def handle_data(self, data: str) -> None:
        if self.is_in_script:
            self.scripts[-1] += data

    @property
    def policy(self) -> str:
        (policy,) = (
            attrs["content"]
            for _, attrs in self.elements
            if attrs.get("http-equiv") == "Content-Security-Policy"
        )
        return policy or ""


def test_the_page_holds_the_graph_as_data(graph: ThoughtGraph) -> None:
    assert json.loads(Page(render_html(graph)).scripts[0]) == json.loads(render_json(graph))


@hostile
def test_the_page_has_the_same_elements_whatever_the_text(text: str) -> None:
    plain, page = Page(render_html(graph_of("x"))), Page(render_html(graph_of(text)))

    assert page.elements == plain.elements
    assert page.scripts[1:] == plain.scripts[1:]
    assert json.loads(page.scripts[0])["nodes"][0]["id"] == "first"
    assert not set("<>&") & set(page.scripts[0])


def test_the_page_allows_its_own_script_and_style_and_nothing_else(graph: ThoughtGraph) -> None:
    text = render_html(graph)
    page = Page(text)
    style = text.split("<style>")[1].split("</style>")[0]
    script, sheet = (b64encode(sha256(code.encode()).digest()).decode() for code in (page.scripts[1], style))

    assert page.policy == (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{sheet}'; base-uri 'none'; form-action 'none'"
    )


def test_the_page_needs_no_network(graph: ThoughtGraph) -> None:
    page = Page(render_html(graph))
    addresses = set(re.findall(r"\w+://[^\s\"']*", render_html(graph)))

    assert not any(attrs.keys() & {"src", "href", "style", "onclick", "onload"} for _, attrs in page.elements)
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of a namespace is no address"


def test_the_page_never_writes_text_as_markup(graph: ThoughtGraph) -> None:
    script = Page(render_html(graph)).scripts[1]

    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script
    )


def test_the_page_cuts_huge_texts() -> None:
    assert len(render_html(graph_of("x" * 300_000))) - len(render_html(ThoughtGraph())) < 50_000
