"""Holds that the ledger's graph tells rejections, their answers and what blocks what."""

from random import Random

import pytest
from msgspec.structs import replace

from remand.app.analysis.graph import GraphView, fold_graph
from remand.app.analysis.graph_export import FORMATS
from remand.app.analysis.rejection_analysis import analyze_rejection_patterns
from remand.domain.events.catalogue import Unknown
from remand.domain.events.event import Event
from remand.domain.events.tasks import Decision, EdgeDeleted, TaskDeleted
from remand.domain.graph import EdgeType, NodeType, ThoughtGraph
from remand.domain.ids import task_node_id
from remand.testing.builders import (
    H1,
    T1,
    T2,
    T3,
    invalid_rejection_filed,
    rejection_answered,
    rejection_filed,
    task_added,
)
from tests.support.builders import stamp_events

N1, N2, N3 = map(task_node_id, (T1, T2, T3))
STORY = (
    task_added(T1),
    rejection_filed(),
    rejection_answered("ACCEPT_AND_DEFER", created=(T2,)),
    task_added(T2, "Buy a ladder"),
)
REJECTION, DECISION, BLOCKER = f"rejection:{N1}:R-1", "decision:rejection-response:R-1", "blocker:R-1"


def folded(*events: Event) -> GraphView:
    return fold_graph(stamp_events(*events))


def links(graph: ThoughtGraph) -> set[tuple[str, str, str]]:
    return {(edge.source, str(edge.edge_type), edge.target) for edge in graph.edges}


def test_a_rejection_its_answer_and_its_blocker_are_linked() -> None:
    view = folded(*STORY)

    assert view.conflicts == []
    assert list(view.graph.nodes) == [N1, REJECTION, DECISION, BLOCKER, N2]
    assert links(view.graph) == {
        (REJECTION, "OBSERVES", N1),
        (DECISION, "ANSWERS", REJECTION),
        (N2, "IMPLEMENTS", DECISION),
        (BLOCKER, "BLOCKS", N1),
    }
    assert view.graph.nodes[N2].content == "Buy a ladder"
    assert view.graph.nodes[DECISION].properties["decision_type"] == "ACCEPT_AND_DEFER"
    assert view.graph.nodes[REJECTION].properties["agent_id"] == "Alice"


def test_an_invalid_rejection_is_told_and_blocks_nothing() -> None:
    view = folded(task_added(T1), invalid_rejection_filed(), rejection_answered("OVERRIDE"))

    assert view.graph.nodes[REJECTION].properties["is_valid"] is False
    assert BLOCKER not in view.graph.nodes
    assert analyze_rejection_patterns(view.graph)["override_rate"] == 1.0


def test_an_override_that_is_taken_back_leaves_both_answers_and_the_acceptance_counts() -> None:
    view = folded(
        task_added(T1), rejection_filed(), rejection_answered("OVERRIDE"), rejection_answered("ACCEPT")
    )

    assert [name for name in view.graph.nodes if name.startswith("decision:")] == [DECISION, f"{DECISION}:2"]
    assert BLOCKER in view.graph.nodes
    assert analyze_rejection_patterns(view.graph)["decision_outcomes"] == {"ACCEPT": 1}


def test_what_was_accepted_stays_accepted() -> None:
    view = folded(
        task_added(T1),
        rejection_filed(),
        rejection_answered("ACCEPT"),
        rejection_answered("OVERRIDE"),
        rejection_answered("ACCEPT_AND_DEFER"),
    )

    assert [conflict.why for conflict in view.conflicts] == [
        "the rejection was already answered, by ACCEPT"
    ] * 2
    assert [name for name in view.graph.nodes if name.startswith(("decision:", "blocker:"))] == [
        DECISION,
        BLOCKER,
    ]


def test_the_graph_is_the_same_whatever_the_order_and_number_of_copies() -> None:
    events = stamp_events(*STORY, rejection_filed(T1, 2), rejection_answered("OVERRIDE", number=2))
    shuffled = events * 2
    Random(1).shuffle(shuffled)
    one, other = fold_graph(events), fold_graph(shuffled)

    assert one.graph.nodes == other.graph.nodes
    assert one.graph.edges == other.graph.edges
    assert one.conflicts == other.conflicts == []


def test_a_task_that_another_branch_has_yet_to_bring_is_a_bare_node() -> None:
    view = folded(task_added(T1), rejection_filed(), rejection_answered("ACCEPT_AND_DEFER", created=(T2,)))

    assert view.conflicts == []
    assert (view.graph.nodes[N2].node_type, view.graph.nodes[N2].content) == (NodeType.TASK, N2)
    assert list(view.graph.dangling_edges()) == []


def test_a_deleted_task_does_not_come_back_by_its_rejection() -> None:
    view = folded(task_added(T1), rejection_filed(), TaskDeleted(id=N1))

    assert N1 not in view.graph.nodes
    assert REJECTION in view.graph.nodes


def test_an_answer_to_nothing_is_a_conflict() -> None:
    view = folded(task_added(T1), rejection_answered("ACCEPT", number=9))

    assert [conflict.why for conflict in view.conflicts] == ["there is no rejection R-9 to answer"]
    assert list(view.graph.nodes) == [N1]


def test_events_on_the_nodes_of_rejections_do_no_harm() -> None:
    taken = Unknown(kind="node.create", fields={"id": REJECTION, "type": "GOAL", "data": {"name": "Mine"}})
    update = Unknown(kind="node.update", fields={"id": DECISION, "changes": {"note": "x"}})
    edge = EdgeDeleted(src=REJECTION, tgt=N1, type="OBSERVES")
    gone = Unknown(kind="node.delete", fields={"id": REJECTION})

    before = folded(taken, *STORY)
    assert f"{REJECTION}:2" in before.graph.nodes
    after = folded(*STORY, taken, update, edge, gone, gone, rejection_answered("ACCEPT"))
    assert REJECTION not in after.graph.nodes
    assert after.graph.nodes[DECISION].properties["note"] == "x"
    assert [conflict.event for conflict in after.conflicts] == [
        "node.create",
        "node.delete",
        "handoff.reject.response",
    ]
    assert list(after.graph.dangling_edges()) == []


@pytest.mark.parametrize("record", [{}, {"task_id": T3, "agent_id": "Mallory", "reason_type": ["x"]}])
def test_a_record_does_not_say_whose_it_is_the_event_does(record: dict[str, object]) -> None:
    told = folded(task_added(T1), rejection_filed(rejection=record)).graph.nodes[REJECTION].properties

    assert (told["task_id"], told["agent_id"], told["handoff_id"]) == (N1, "Alice", H1)


HOSTILE = '</script><script>alert(1)</script>"]; }\n%%{init}%% \x1b[31m&amp; `x` \N{RIGHT-TO-LEFT OVERRIDE}'


@pytest.mark.parametrize("format_", FORMATS)
def test_hostile_text_in_a_rejection_stays_text_in_every_export(format_: str) -> None:
    record = {
        "reason_type": "BLOCKER",
        "blocking_factor": HOSTILE,
        "reason_summary": HOSTILE,
        "what_attempted": [HOSTILE, {HOSTILE: float("nan")}],
        "evidence": HOSTILE,
    }
    decision = Decision(decision_type="ACCEPT", rationale=HOSTILE, created_tasks=(HOSTILE, T2))
    answer = replace(rejection_answered("ACCEPT"), decision=decision)
    view = folded(task_added(T1), rejection_filed(rejection=record, agent=HOSTILE), answer)
    text = FORMATS[format_](view.graph)

    assert len(view.graph.nodes) == 6
    assert "\x1b" not in text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    if format_ not in ("json", "dot"):
        assert "<script>alert" not in text
    if format_ == "mermaid":
        assert "%%{" not in text


def test_edges_of_rejections_have_their_known_types() -> None:
    kinds = {edge.edge_type for edge in folded(*STORY).graph.edges}

    assert kinds == {EdgeType.OBSERVES, EdgeType.ANSWERS, EdgeType.IMPLEMENTS, EdgeType.BLOCKS}
