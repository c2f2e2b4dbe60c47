"""Holds what the thought graph keeps, finds and removes."""

import pytest

from remand.domain.graph import EdgeType, NodeType, ThoughtGraph

NODE_TYPES = (
    "CONCEPT QUESTION DECISION FACT TASK ARTIFACT INSIGHT HYPOTHESIS OPTION EVIDENCE OBSERVATION GOAL CONTEXT"
    " CONSTRAINT ACTION ENTITY LOCATION OBJECT"
)
EDGE_TYPES = (
    "REQUIRES ENABLES CONFLICTS SUPPORTS REFUTES SIMILAR CONTAINS CONTRADICTS PRECEDES TRIGGERS BLOCKS ANSWERS"
    " RAISES EXPLORES OBSERVES SUGGESTS IMPLEMENTS TESTS DEPENDS_ON REFINES MOTIVATES JUSTIFIES HAS_OPTION"
    " HAS_ASPECT PART_OF LOCATED_IN PERFORMS USES"
)
TRANSACTIONAL_EDGE_TYPES = (
    "DEPENDS_ON BLOCKS CONTAINS RELATES_TO REQUIRES IMPLEMENTS SUPERSEDES DERIVED_FROM PARENT_OF CHILD_OF"
    " PART_OF REFERENCES CONTRADICTS JUSTIFIES MOTIVATES CAUSED_BY TRANSFERS PRODUCES DOCUMENTED_BY"
)


@pytest.fixture
def graph() -> ThoughtGraph:
    """Two tasks, one of which blocks the other."""
    graph = ThoughtGraph()
    graph.add_node("task:T-1", NodeType.TASK, "Mend the roof", {"status": "incoming"})
    graph.add_node("task:T-2", NodeType.TASK, "Buy nails", {})
    graph.add_edge("task:T-2", "task:T-1", EdgeType.BLOCKS, 0.5)
    return graph


def test_every_type_of_got_is_known_by_its_name() -> None:
    assert [kind.name for kind in NodeType] == NODE_TYPES.split()
    assert {kind.name for kind in EdgeType} == {*EDGE_TYPES.split(), *TRANSACTIONAL_EDGE_TYPES.split()}
    assert all(kind == kind.name for kind in (*NodeType, *EdgeType))


def test_a_node_is_found_by_its_id(graph: ThoughtGraph) -> None:
    node = graph.get_node("task:T-1")

    assert node is graph.nodes["task:T-1"]
    assert (node.id, node.node_type, node.content) == ("task:T-1", NodeType.TASK, "Mend the roof")
    assert node.properties == {"status": "incoming"}


def test_an_absent_node_is_none(graph: ThoughtGraph) -> None:
    assert graph.get_node("task:T-3") is None


def test_a_node_keeps_its_own_copy_of_its_properties(graph: ThoughtGraph) -> None:
    given = {"status": "done"}
    node = graph.add_node("task:T-3", NodeType.TASK, "Paint it", given)
    given["status"] = "changed elsewhere"

    assert node.properties == {"status": "done"}


def test_an_edge_says_from_where_to_where_and_how(graph: ThoughtGraph) -> None:
    (edge,) = graph.edges

    assert (edge.source, edge.target) == ("task:T-2", "task:T-1")
    assert (edge.edge_type, edge.weight) == (EdgeType.BLOCKS, 0.5)


def test_types_given_as_text_become_members_where_they_are_known() -> None:
    graph = ThoughtGraph()

    assert graph.add_node("a", "GOAL").node_type is NodeType.GOAL
    assert graph.add_edge("a", "a", "REFINES").edge_type is EdgeType.REFINES


def test_unknown_types_are_kept_as_text() -> None:
    graph = ThoughtGraph()

    assert graph.add_node("a", "DREAM").node_type == "DREAM"
    assert graph.add_edge("a", "a", "WAITS_WITH").edge_type == "WAITS_WITH"


def test_the_same_edge_is_there_once_with_its_latest_weight(graph: ThoughtGraph) -> None:
    assert graph.edges
    graph.add_edge("task:T-2", "task:T-1", "BLOCKS", 0.9)

    assert [edge.weight for edge in graph.edges] == [0.9]


def test_edges_of_other_type_or_direction_are_edges_of_their_own(graph: ThoughtGraph) -> None:
    graph.add_edge("task:T-2", "task:T-1", EdgeType.SIMILAR)
    graph.add_edge("task:T-1", "task:T-2", EdgeType.BLOCKS)

    assert len(graph.edges) == 3


def test_edges_stand_in_the_order_they_were_added(graph: ThoughtGraph) -> None:
    graph.add_edge("task:T-1", "task:T-2", EdgeType.SIMILAR)
    graph.remove_edge("task:T-2", "task:T-1", EdgeType.BLOCKS)
    graph.add_edge("task:T-1", "task:T-2", EdgeType.ENABLES)

    assert [edge.edge_type for edge in graph.edges] == [EdgeType.SIMILAR, EdgeType.ENABLES]


def test_a_removed_node_takes_its_edges_along_and_no_others(graph: ThoughtGraph) -> None:
    graph.add_node("task:T-3", NodeType.TASK)
    graph.add_edge("task:T-1", "task:T-3", EdgeType.SIMILAR)
    kept = graph.add_edge("task:T-3", "task:T-2", EdgeType.SIMILAR)

    lost = graph.remove_node("task:T-1")

    assert {edge.edge_type for edge in lost} == {EdgeType.BLOCKS, EdgeType.SIMILAR}
    assert graph.edges == [kept]
    assert list(graph.nodes) == ["task:T-2", "task:T-3"]


def test_a_node_linked_to_itself_can_be_removed(graph: ThoughtGraph) -> None:
    graph.add_edge("task:T-2", "task:T-2", EdgeType.REFINES)

    assert len(graph.remove_node("task:T-2")) == 2
    assert graph.edges == []


def test_removing_what_is_absent_changes_nothing(graph: ThoughtGraph) -> None:
    assert graph.remove_node("task:T-3") == []
    assert not graph.remove_edge("task:T-1", "task:T-2", EdgeType.BLOCKS)
    assert (len(graph.nodes), len(graph.edges)) == (2, 1)


def test_removing_an_edge_says_that_it_was_there(graph: ThoughtGraph) -> None:
    assert graph.remove_edge("task:T-2", "task:T-1", EdgeType.BLOCKS)
    assert graph.edges == []


@pytest.mark.parametrize("ends", [("absent", "task:T-1"), ("task:T-1", "absent")], ids=["source", "target"])
def test_an_edge_without_one_of_its_nodes_is_dangling(graph: ThoughtGraph, ends: tuple[str, str]) -> None:
    edge = graph.add_edge(*ends, EdgeType.SIMILAR)

    assert list(graph.dangling_edges()) == [edge]


def test_adding_an_edge_looks_at_no_other_edge() -> None:
    """Enough edges that looking through all of them for each would take minutes."""
    graph = ThoughtGraph()
    for number in range(60_000):
        graph.add_edge("hub", f"n{number}", EdgeType.SIMILAR)

    assert len(graph.edges) == 60_000
