"""Holds the director for programs that keep their own tasks: the requirements' example, and no manager at all."""

from collections.abc import Mapping
from typing import Any

import pytest

from remand import (
    DecisionType,
    DirectorRejectionHandler,
    EdgeType,
    NodeType,
    RejectionDecision,
    RejectionReason,
    TaskRejection,
    ThoughtGraph,
    log_rejection_to_got,
)
from remand.domain.policy import Policy
from remand.interfaces.library.handoffs import GraphProject
from tests.support.rejection_records import DEPENDENCY, LAZY, OAUTH, OAUTH_TASK, SCOPE, TITLE, a_rejection

_TEXTS = ("reason_summary", "reason_detail", "blocking_factor")
TASK = "task:T-20251220-153045-a1b2"
CONTEXT = {"title": TITLE, "scope": SCOPE, "priority": "medium", "category": "feature"}


class Project:
    """A program's own tasks, with nothing in common with ours but the three things a director asks."""

    def __init__(self) -> None:
        self.graph = ThoughtGraph()
        self.graph.add_node(TASK, NodeType.TASK, TITLE, {"status": "in_progress"})
        self.created: list[dict[str, str]] = []
        self.updated: list[tuple[str, str, dict[str, Any]]] = []

    def create_task(self, title: str, description: str, priority: str, category: str) -> str:
        name = f"task:mine-{len(self.created)}"
        self.created.append(
            {"title": title, "description": description, "priority": priority, "category": category}
        )
        self.graph.add_node(name, NodeType.TASK, title)
        return name

    def update_task(self, task_id: str, *, status: str, properties: Mapping[str, Any]) -> None:
        self.updated.append((task_id, status, dict(properties)))

    def edges(self, kind: EdgeType) -> list[tuple[str, str]]:
        return [(edge.source, edge.target) for edge in self.graph.edges if edge.edge_type is kind]


def handled(
    record: dict[str, Any], project: Project | None = None, **context: Any
) -> tuple[RejectionDecision, Project]:
    project = project or Project()
    rejection = TaskRejection.from_dict({**record, "task_id": TASK, "agent_id": "Alice", "handoff_id": "H-1"})
    return DirectorRejectionHandler(project).handle_rejection(rejection, {**CONTEXT, **context}), project


def test_the_example_of_the_requirements_is_cut_in_three_with_two_dependencies() -> None:
    decision, project = handled(OAUTH, **OAUTH_TASK)

    one, two, three = decision.created_tasks
    assert decision.decision_type is DecisionType.ACCEPT_AND_DECOMPOSE
    assert decision.rationale == "Valid scope creep. Decomposed into 3 sub-tasks."
    assert project.edges(EdgeType.DEPENDS_ON) == [(two, one), (three, two)]
    assert project.edges(EdgeType.REFINES) == [(one, TASK), (two, TASK), (three, TASK)]
    assert project.updated == [(TASK, "decomposed", {"decomposed_into": [one, two, three]})]
    assert [task["title"] for task in project.created] == [row["title"] for row in OAUTH["alternative_tasks"]]


def test_the_lazy_example_is_overridden_and_creates_nothing() -> None:
    decision, project = handled(LAZY)

    assert decision.decision_type is DecisionType.OVERRIDE
    assert decision.override_message.count("\n- ") >= 4
    assert decision.reassign_to == "Alice"
    assert (project.created, project.updated, project.graph.edges) == ([], [], [])


@pytest.mark.parametrize(
    ("reason", "decision", "status", "link"),
    [
        ("BLOCKER", DecisionType.ACCEPT_AND_DEFER, "deferred", EdgeType.BLOCKS),
        ("UNCLEAR_REQUIREMENTS", DecisionType.ACCEPT_AND_DEFER, "deferred", EdgeType.BLOCKS),
        ("INFEASIBLE", DecisionType.ACCEPT_AND_REFORMULATE, "infeasible", EdgeType.REFINES),
    ],
)
def test_what_is_created_points_at_the_task(
    reason: str, decision: DecisionType, status: str, link: EdgeType
) -> None:
    answer, project = handled(a_rejection(reason))

    assert answer.decision_type is decision
    assert project.edges(link) == [(answer.created_tasks[0], TASK)]
    assert [update[:2] for update in project.updated] == [(TASK, status)]
    assert answer.deferred_task == (TASK if status == "deferred" else "")


def test_a_dependency_is_waited_for_and_believed_to_exist_where_the_graph_has_none() -> None:
    known = Project()
    known.graph.add_node(f"task:{DEPENDENCY}", NodeType.TASK, "PDF export", {"status": "pending"})

    waits, known = handled(a_rejection("MISSING_DEPENDENCY"), known)
    believed, fresh = handled(a_rejection("MISSING_DEPENDENCY"))

    assert (waits.created_tasks, known.created) == ([], [])
    assert known.edges(EdgeType.DEPENDS_ON) == [(TASK, f"task:{DEPENDENCY}")]
    assert (believed.created_tasks, fresh.created) == ([], [])
    assert [source for source, _ in fresh.edges(EdgeType.DEPENDS_ON)] == [TASK]


@pytest.mark.parametrize("status", ["completed", "done", "cancelled"])
def test_a_dependency_that_has_ended_is_overridden(status: str) -> None:
    project = Project()
    project.graph.add_node(f"task:{DEPENDENCY}", NodeType.TASK, "PDF export", {"status": status})

    assert handled(a_rejection("MISSING_DEPENDENCY"), project)[0].decision_type is DecisionType.OVERRIDE


def test_what_is_obsolete_is_cancelled() -> None:
    decision, project = handled(a_rejection("OBSOLETE"))

    assert decision.decision_type is DecisionType.ACCEPT
    ((_, status, became),) = project.updated
    assert status == "cancelled"
    assert DEPENDENCY in became["superseded_by"]


@pytest.mark.parametrize("reason", RejectionReason)
def test_without_a_manager_the_graph_keeps_the_tasks(reason: RejectionReason) -> None:
    handler = DirectorRejectionHandler()
    task = handler.manager.create_task(TITLE, SCOPE, "medium", "feature")
    rejection = TaskRejection.from_dict({**a_rejection(reason), "task_id": task, "agent_id": "Alice"})

    decision = handler.handle_rejection(rejection, CONTEXT)

    assert decision.decision_type is not DecisionType.OVERRIDE
    node = handler.manager.graph.get_node(task)
    assert node is not None
    assert node.properties["status"] != "pending"
    assert all(handler.manager.graph.get_node(name) for name in decision.created_tasks)
    assert log_rejection_to_got(handler.manager.graph, rejection, decision).startswith(f"rejection:{task}:")


def test_overrides_are_bounded_by_task_and_agent() -> None:
    handler = DirectorRejectionHandler(policy=Policy(max_invalid_rejections=2))

    def answered(task: str, agent: str) -> str:
        rejection = TaskRejection.from_dict({**LAZY, "task_id": task, "agent_id": agent})
        return handler.handle_rejection(rejection, CONTEXT).reassign_to

    assert [answered("T-1", "Alice"), answered("T-1", "Bob"), answered("T-2", "Alice")] == [
        "Alice",
        "Bob",
        "Alice",
    ]
    assert answered("T-1", "Alice") == ""
    assert answered("T-2", "Bob") == "Bob"


def test_a_record_of_nonsense_is_answered() -> None:
    handler = DirectorRejectionHandler()
    for odd in (None, 3, float("nan"), [], [[]], {"a": {}}, "x" * 100_000):
        fields = dict.fromkeys(a_rejection(), odd)
        decision = handler.handle_rejection(TaskRejection(**fields), {})
        assert decision.decision_type is DecisionType.OVERRIDE


def test_formal_slips_are_asked_for_and_do_not_end_the_rejections_of_an_agent() -> None:
    handler = DirectorRejectionHandler()
    slips = ({"task_original_scope": "Write a poem. 4 hours."}, {"scope_growth_factor": None})
    own = {"task_id": TASK, "agent_id": "Alice", "handoff_id": "H-1"}
    records = [
        TaskRejection.from_dict({**a_rejection("SCOPE_CREEP"), **slip, **own}) for slip in (*slips, *slips)
    ]

    decisions = [handler.handle_rejection(one, {"title": TITLE, "scope": SCOPE}) for one in records]

    assert [one.reassign_to for one in decisions] == ["Alice"] * 4
    assert all("does not count against you" in one.override_message for one in decisions)


@pytest.mark.parametrize("reason", RejectionReason)
@pytest.mark.parametrize("manager", [GraphProject, Project])
def test_no_link_leads_nowhere(reason: RejectionReason, manager: type[GraphProject] | type[Project]) -> None:
    project = manager()
    project.graph.remove_node(TASK)
    rejection = TaskRejection.from_dict({**a_rejection(reason), "task_id": TASK, "agent_id": "Alice"})

    decision = DirectorRejectionHandler(project).handle_rejection(rejection, CONTEXT)

    assert decision.decision_type is not DecisionType.OVERRIDE
    assert list(project.graph.dangling_edges()) == []


@pytest.mark.parametrize(
    ("reason", "status", "became"),
    [
        ("SCOPE_CREEP", "decomposed", "decomposed_into"),
        ("INFEASIBLE", "infeasible", "reformulated_as"),
        ("BLOCKER", "deferred", "waits_for"),
        ("MISSING_DEPENDENCY", "deferred", "waits_for"),
        ("OBSOLETE", "cancelled", "superseded_by"),
    ],
)
def test_what_a_task_became_is_kept_though_it_was_no_node(reason: str, status: str, became: str) -> None:
    handler = DirectorRejectionHandler()
    rejection = TaskRejection.from_dict({**a_rejection(reason), "task_id": TASK, "agent_id": "Alice"})

    handler.handle_rejection(rejection, CONTEXT)

    node = handler.manager.graph.get_node(TASK)
    assert node is not None
    assert node.node_type is NodeType.TASK
    assert node.properties["status"] == status
    assert node.properties[became]


@pytest.mark.parametrize("task", ["task:T-1", "T-1", "task:T-2"])
@pytest.mark.parametrize("reason", ["SCOPE_CREEP", "INFEASIBLE", "BLOCKER", "UNCLEAR_REQUIREMENTS"])
def test_no_new_task_gets_the_id_of_one_that_is_named_and_is_no_node_yet(reason: str, task: str) -> None:
    handler = DirectorRejectionHandler()
    rejection = TaskRejection.from_dict({**a_rejection(reason), "task_id": task, "agent_id": "Alice"})

    decision = handler.handle_rejection(rejection, CONTEXT)

    assert decision.created_tasks
    assert {task, f"task:{task}"}.isdisjoint(decision.created_tasks)
    assert all(edge.source != edge.target for edge in handler.manager.graph.edges)


def test_a_decision_that_is_waited_for_becomes_a_decision_in_the_graph() -> None:
    record = a_rejection("MISSING_DEPENDENCY")
    told = {
        **record,
        **{key: str(record[key]).replace(DEPENDENCY, "D-20251220-101500-ab12") for key in _TEXTS},
    }

    decision, project = handled(told)

    assert decision.decision_type is DecisionType.ACCEPT_AND_DEFER
    assert list(project.graph.dangling_edges()) == []


def in_words(**fields: Any) -> dict[str, Any]:
    """A missing dependency that has no id."""
    record = a_rejection("MISSING_DEPENDENCY")
    told = {
        key: value.replace(DEPENDENCY, "the PDF export") for key, value in record.items() if key in _TEXTS
    }
    factor = (
        "Depends on the PDF export of reports/export.py, which nobody has built: GET /report.pdf answers 501"
    )
    more = {"blocking_factor": factor, "suggested_alternative": IN_WORDS_FIRST}
    return {**record, **told, **more, **fields}


IN_WORDS_FIRST = (
    "Build the PDF export first, about 30 hours. The mail part is ready on branch report-mail with 6 tests; it needs "
    "the 40 lines that fetch the PDF, about 2 hours, once the endpoint answers 200."
)


def test_a_dependency_named_in_words_becomes_a_task_that_is_waited_for() -> None:
    decision, project = handled(in_words())

    (made,) = decision.created_tasks
    assert decision.decision_type is DecisionType.ACCEPT_AND_DEFER
    assert (project.created[0]["category"], project.created[0]["priority"]) == ("dependency", "high")
    assert project.created[0]["title"].startswith(f"Dependency for {TITLE}: Depends on the PDF export")
    assert project.edges(EdgeType.DEPENDS_ON) == [(TASK, made)]
    assert (decision.deferred_task, decision.rationale) == (
        TASK,
        f"Valid dependency. Task depends on {made}.",
    )
