"""Holds the protocol's example flow for Python programs: on the ledger of a repository, and in memory."""

import gc
import io
import json
import os
import re
import sys
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from remand import (
    DecisionType,
    DirectorRejectionHandler,
    HandoffManager,
    NodeType,
    ProjectManager,
    Refused,
    RejectionDecision,
    TaskRejection,
    analyze_rejection_patterns,
    log_rejection_to_got,
)
from tests.integration.machine import PATIENCE, Machine, Repository
from tests.support.rejection_records import LAZY, OAUTH, OAUTH_TASK, SCOPE, TITLE, a_rejection

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
TASK, HANDOFF = "T-20251220-153045-a1b2", "H-20251220-153100-c3d4"
HUMAN = '[gates]\n[policy]\ndirector = "human"\n'
TEAM = (
    '[gates]\n[policy]\ndirector = "human"\n[team]\nmembers = [{ name = "Alice" }, { name = "Bob" }, '
    '{ name = "Dora", roles = ["director"] }]\n'
)


@pytest.fixture
def place(near_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository whose rejections the ledger's own director answers; programs run in it."""
    made = near_machine.repository()
    monkeypatch.chdir(made.path)
    return made


@pytest.fixture
def human(near_machine: Machine) -> Repository:
    """A repository whose rejections a human answers."""
    return near_machine.repository("human", config=HUMAN)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```python {kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def run(*sources: str) -> tuple[dict[str, Any], str]:
    """Runs code of the page; returns the names it leaves and what it printed."""
    names: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()) as printed:
        for source in sources:
            exec(compile(source, "docs/python.md", "exec"), names)
    return names, printed.getvalue()


def events(repository: Repository) -> Counter[str]:
    return Counter(event["event"] for event in repository.written().values())


def held(
    repository: Repository, title: str = TITLE, scope: str = SCOPE, agent: str = "Alice"
) -> tuple[str, str]:
    task = repository.add(title, "--scope", scope)
    return task, repository.ok("task", "claim", task, "--agent", agent)["handoff_id"]


def a_record(
    record: dict[str, Any], task: str, handoff: str, agent: str = "Alice", **more: Any
) -> TaskRejection:
    own = {"task_id": f"task:{task}", "handoff_id": f"handoff:{handoff}", "agent_id": agent}
    return TaskRejection.from_dict({**record, **own, **more})


# The page's code.


def test_the_example_runs_on_a_ledger_and_everything_is_recorded_once(place: Repository) -> None:
    example, lazy = blocks("example")
    names, printed = run(*blocks("on-a-ledger"), example)

    decision = names["decision"]
    assert "Rejection decision: ACCEPT_AND_DECOMPOSE" in printed
    assert "Rationale: Valid scope creep. Decomposed into 3 sub-tasks." in printed
    listed = {task["task_id"]: task["status"] for task in place.ok("task", "list")}
    created = [name.removeprefix("task:") for name in decision.created_tasks]
    assert listed == {TASK: "decomposed"} | dict.fromkeys(created, "incoming")
    told = place.ok("handoff", "status", HANDOFF)
    assert told["status"] == "rejection_accepted"
    assert told["decision"]["created_tasks"] == created
    graph = place.ok("graph", "export", "--format", "json")
    assert names["rejection_node_id"] in {node["id"] for node in graph["nodes"]}
    refines = {(e["source"], e["target"]) for e in graph["edges"] if e["edge_type"] == "REFINES"}
    assert refines == {(name, f"task:{TASK}") for name in decision.created_tasks}
    recorded = events(place)
    assert (recorded["handoff.reject"], recorded["handoff.reject.response"], recorded["node.create"]) == (
        1,
        1,
        4,
    )

    names, _ = run(*blocks("on-a-ledger"), example, lazy)

    assert events(place) == recorded, "repeating the whole program records nothing"
    assert names["decision"].created_tasks == decision.created_tasks
    assert names["rejection_accepted"] is False


def test_programs_that_run_at_once_record_everything_once_and_are_told_the_same(human: Repository) -> None:
    code = "\n".join([*blocks("on-a-ledger"), *blocks("example")])
    started = [human.machine.start(human.path, sys.executable, "-c", code) for _ in range(3)]
    said = [process.communicate(timeout=PATIENCE) for process in started]

    assert [process.returncode for process in started] == [0, 0, 0], said
    assert len({out for out, _ in said}) == 1
    recorded = events(human)
    assert (recorded["handoff.reject"], recorded["handoff.reject.response"], recorded["node.create"]) == (
        1,
        1,
        4,
    )


def test_a_rejection_is_in_git_once_it_is_published(place: Repository) -> None:
    run(*blocks("on-a-ledger"), blocks("example")[0])
    assert place.git("ls-files", ".got/events") == ""

    place.ok("log", "publish")

    (name,) = place.git("ls-files", ".got/events").split()
    committed = [json.loads(line)["event"] for line in place.git("show", f"HEAD:{name}").splitlines()]
    assert {"handoff.reject", "handoff.reject.response"} <= set(committed)


def test_the_lazy_example_is_false_and_overridden_on_a_ledger(place: Repository) -> None:
    example, lazy = blocks("example")
    setting = example[: example.index("# Agent discovers scope")]
    names, _ = run(*blocks("on-a-ledger"), setting, "manager = HandoffManager(event_log)", lazy)

    assert names["rejection_accepted"] is False
    told = place.ok("handoff", "status", HANDOFF)
    assert told["status"] == "overridden"
    assert len(told["rejection"]["issues"]) >= 4


def test_the_example_runs_in_memory() -> None:
    example, lazy = blocks("example")
    names, printed = run(*blocks("in-memory"), example, lazy)

    assert "Rejection decision: ACCEPT_AND_DECOMPOSE" in printed
    assert names["rejection_accepted"] is False
    assert [event for event, _ in names["event_log"].events] == [
        "handoff.reject",
        "handoff.reject.response",
        "handoff.reject.invalid",
    ]
    graph = names["project_manager"].graph
    assert names["rejection_node_id"] in graph.nodes
    assert all(graph.get_node(name) for name in names["decision"].created_tasks)


def test_the_examples_of_records_graph_and_patterns_run() -> None:
    names, printed = run(*blocks("records"))

    assert "Rejection accepted" in printed
    assert "Total rejections: 1" in printed
    assert names["patterns"]["by_reason"] == {"SCOPE_CREEP": 1}


def test_the_events_of_the_protocol_are_logged_to_the_ledger_once(place: Repository) -> None:
    run(*blocks("on-a-ledger"))
    log = ProjectManager(place.path)
    lazy, good = (a_record(record, TASK, HANDOFF, "sub-agent-1") for record in (LAZY, OAUTH))
    for _ in range(2):
        told = {"handoff_id": f"handoff:{HANDOFF}", "agent": "sub-agent-1"}
        assert (
            log.log("handoff.reject.invalid", **told, rejection=lazy.to_dict(), validation_issues=["vague"])
            is False
        )
        assert log.log("handoff.reject", **told, rejection=good.to_dict()) is True
        decided = DirectorRejectionHandler(log).handle_rejection(good, {})
        assert log.log("handoff.reject.response", handoff_id=HANDOFF, decision=decided.to_dict()) is True

    recorded = events(place)
    assert recorded["handoff.reject.invalid"] == recorded["handoff.reject"] == 1
    assert recorded["handoff.reject.response"] == 2, "the override and the decision"


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("node.create", {"id": "task:T-1"}),
        ("handoff.reject", {}),
        ("handoff.reject", {"handoff_id": HANDOFF, "agent": "sub-agent-1", "rejection": "no"}),
        ("handoff.reject.response", {"handoff_id": HANDOFF, "decision": {}}),
        ("handoff.reject.response", {"handoff_id": 7, "decision": None}),
    ],
)
def test_what_the_ledger_cannot_take_as_an_event_is_refused(
    place: Repository, event: str, fields: dict[str, Any]
) -> None:
    run(*blocks("on-a-ledger"))
    before = events(place)

    with pytest.raises(Refused):
        ProjectManager(".").log(event, **fields)

    assert events(place) == before


# The director.


@pytest.mark.parametrize(
    ("reason", "kind", "status", "created"),
    [
        ("BLOCKER", DecisionType.ACCEPT_AND_DEFER, "deferred", 1),
        ("SCOPE_CREEP", DecisionType.ACCEPT_AND_DECOMPOSE, "decomposed", 3),
        ("INFEASIBLE", DecisionType.ACCEPT_AND_REFORMULATE, "infeasible", 1),
        ("UNCLEAR_REQUIREMENTS", DecisionType.ACCEPT_AND_DEFER, "deferred", 1),
    ],
)
def test_a_handler_answers_what_waits_for_a_director_once(
    human: Repository, reason: str, kind: DecisionType, status: str, created: int
) -> None:
    task, handoff = held(human)
    manager = ProjectManager(human.path)
    rejection = a_record(a_rejection(reason), task, handoff)
    assert HandoffManager(manager).reject_handoff(handoff, "Alice", rejection)
    assert human.ok("task", "show", task)["status"] == "blocked"

    first = DirectorRejectionHandler(manager).handle_rejection(rejection, OAUTH_TASK)
    again = DirectorRejectionHandler(str(human.path)).handle_rejection(rejection, {})
    assert HandoffManager(human.path).handle_rejection_response(handoff, first) is True

    assert first.decision_type is kind
    assert len(first.created_tasks) == created
    assert again.to_dict() == first.to_dict()
    assert human.ok("task", "show", task)["status"] == status
    assert events(human)["handoff.reject.response"] == 1
    assert events(human)["node.create"] == 1 + created
    node = log_rejection_to_got(manager.graph, rejection, first)
    assert manager.graph.nodes[node].properties["reason_type"] == reason


def test_a_handler_alone_files_the_rejection_and_answers_it(place: Repository) -> None:
    task, handoff = held(place)
    rejection = a_record(a_rejection(), task, handoff)

    decision = DirectorRejectionHandler(".").handle_rejection(rejection, {})

    assert decision.decision_type is DecisionType.ACCEPT_AND_DEFER
    assert decision.deferred_task == f"task:{task}"
    assert decision.rejection is rejection
    assert events(place)["handoff.reject"] == events(place)["handoff.reject.response"] == 1


def test_a_handler_returns_the_override_of_an_invalid_rejection(place: Repository) -> None:
    task, handoff = held(place)

    decision = DirectorRejectionHandler(place.path).handle_rejection(a_record(LAZY, task, handoff), {})

    assert decision.decision_type is DecisionType.OVERRIDE
    assert decision.reassign_to == "Alice"
    assert "not accepted" in decision.override_message
    assert events(place)["handoff.reject.invalid"] == 1


def test_a_rejection_filed_on_the_command_line_is_answered_from_python(human: Repository) -> None:
    task, handoff = held(human)
    (human.path / "no.json").write_text(json.dumps(a_rejection()))
    human.ok("handoff", "reject", handoff, "--agent", "Alice", "--from", "no.json")

    manager = HandoffManager(human.path)
    rejection = TaskRejection.from_dict(manager.status(handoff)["rejection"])
    decision = DirectorRejectionHandler(human.path).handle_rejection(rejection, {})

    assert decision.decision_type is DecisionType.ACCEPT_AND_DEFER
    assert events(human)["handoff.reject"] == 1
    assert human.ok("task", "show", task)["status"] == "deferred"


def test_a_handoff_may_be_named_by_the_end_of_its_id(place: Repository) -> None:
    task, handoff = held(place)
    manager, rejection = HandoffManager("."), a_record(LAZY, task, handoff)

    assert [manager.reject_handoff(handoff[-8:], "Alice", rejection) for _ in range(2)] == [False] * 2

    assert events(place)["handoff.reject.invalid"] == 1
    assert manager.status(handoff[-8:]) == manager.status(handoff)


def test_an_invalid_rejection_that_is_written_anew_counts_again(place: Repository) -> None:
    task, handoff = held(place)
    manager = HandoffManager(".")
    rejection = a_record(LAZY, task, handoff)

    assert [manager.reject_handoff(handoff, "Alice", rejection) for _ in range(3)] == [False] * 3
    assert events(place)["handoff.reject.invalid"] == 1, "the same record, sent again"

    again = a_record(LAZY, task, handoff, rejected_at="2026-11-16T09:00:00+00:00")
    assert manager.reject_handoff(handoff, "Alice", again) is False
    assert events(place)["handoff.reject.invalid"] == 2
    assert place.ok("task", "show", task)["status"] == "incoming", "the second one ends the handoff"


def test_a_valid_rejection_with_secrets_and_paths_in_it_is_known_again(place: Repository) -> None:
    task, handoff = held(place)
    told = a_rejection()
    told["reason_detail"] += f" Seen in {place.path}/mailer.py with password=hunter2hunter2."
    for _ in range(2):
        assert HandoffManager(".").reject_handoff(handoff, "Alice", a_record(told, task, handoff))

    assert events(place)["handoff.reject"] == 1


def test_another_answer_than_the_recorded_one_is_refused(place: Repository) -> None:
    task, handoff = held(place)
    manager, rejection = HandoffManager("."), a_record(a_rejection(), task, handoff)
    manager.reject_handoff(handoff, "Alice", rejection)
    other = place.add("Something else")
    for decision in (
        RejectionDecision(decision_type=DecisionType.ACCEPT, rejection=rejection),
        RejectionDecision(
            decision_type=DecisionType.ACCEPT_AND_DEFER, rejection=rejection, created_tasks=[f"task:{other}"]
        ),
    ):
        with pytest.raises(Refused) as refusal:
            manager.handle_rejection_response(handoff, decision)
        assert refusal.value.code == "nothing_to_answer"


# Who acts.


def test_roles_hold_for_the_library(near_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    place = near_machine.repository("team", config=TEAM)
    task, handoff = held(place)
    manager, rejection = ProjectManager(place.path), a_record(a_rejection(), task, handoff)
    HandoffManager(manager).reject_handoff(handoff, "Alice", rejection)
    handler = DirectorRejectionHandler(manager)

    for actor in ("Alice", "Bob"):
        monkeypatch.setenv("REMAND_ACTOR", actor)
        with pytest.raises(Refused):
            handler.handle_rejection(rejection, {})
        with pytest.raises(Refused):
            HandoffManager(manager).initiate_handoff(target_agent="Bob", task_id=place.add("Other"))
    monkeypatch.setenv("REMAND_ACTOR", "Dora")
    handler.handle_rejection(rejection, {})

    answered = [e for e in place.written().values() if e["event"] == "handoff.reject.response"]
    assert [event["meta"]["actor"] for event in answered] == ["Dora"]


def test_inside_an_agents_environment_nobody_acts_as_somebody_else(
    human: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, handoff = held(human)
    rejection = a_record(a_rejection(), task, handoff)
    manager = ProjectManager(human.path)
    monkeypatch.setenv("REMAND_TASK", task)
    monkeypatch.setenv("REMAND_ACTOR", "Bob")
    with pytest.raises(Refused) as refusal:
        HandoffManager(manager).reject_handoff(handoff, "Alice", rejection)
    assert refusal.value.code == "not_yours"
    monkeypatch.setenv("REMAND_ACTOR", "Alice")
    assert HandoffManager(manager).reject_handoff(handoff, "Alice", rejection)
    for named in ("", "user"):
        with pytest.raises(Refused):
            HandoffManager(manager).handle_rejection_response(
                handoff, RejectionDecision(decision_type="ACCEPT", rejection=rejection), director=named
            )
    assert events(human)["handoff.reject.response"] == 0


# Tasks, handoffs and the graph.


def test_tasks_and_handoffs_with_ids_of_their_own_are_made_once(place: Repository) -> None:
    manager = ProjectManager(".")
    task = manager.create_task("Mend the roof", "Tiles", "high", "house", task_id="T-own-1")
    handoffs = HandoffManager(manager)
    assert (
        task
        == manager.create_task("Mend the roof", "Tiles", "high", "house", task_id="task:T-own-1")
        == "task:T-own-1"
    )
    assert (
        handoffs.initiate_handoff(target_agent="Alice", task_id=task, handoff_id="H-own-1")
        == "handoff:H-own-1"
    )
    assert (
        handoffs.initiate_handoff(target_agent="Alice", task_id=task, handoff_id="handoff:H-own-1")
        == "handoff:H-own-1"
    )
    assert events(place) == {"node.create": 1, "handoff.initiate": 1}

    shown = place.ok("task", "show", "T-own-1")
    assert (shown["title"], shown["scope"], shown["priority"]) == ("Mend the roof", "Tiles", "high")
    with pytest.raises(Refused) as refusal:
        manager.create_task("Another", task_id="T-own-1")
    assert refusal.value.code == "taken"
    other = manager.create_task("Another")
    with pytest.raises(Refused) as refusal:
        handoffs.initiate_handoff(target_agent="Alice", task_id=other, handoff_id="H-own-1")
    assert refusal.value.code == "taken"
    for name in ("X-1", "T-", "T-ü", "T-" + "a" * 99):
        with pytest.raises(Refused) as refusal:
            manager.create_task("Bad id", task_id=name)
        assert refusal.value.code == "bad_value"
    with pytest.raises(Refused) as refusal:
        handoffs.initiate_handoff(target_agent="Alice", task_id=other, handoff_id="nonsense")
    assert refusal.value.code == "bad_value"


def test_an_agent_does_not_choose_the_ids_of_tasks(
    place: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMAND_ACTOR", "Alice")

    with pytest.raises(Refused) as refusal:
        ProjectManager(".").create_task("Mine", task_id="T-20991231-000000-00000000")

    assert refusal.value.code == "not_authorised"
    assert ProjectManager(".").create_task("Mine").startswith("task:T-")


def test_the_ledgers_graph_is_read_and_not_written(place: Repository) -> None:
    manager = ProjectManager(".")
    task = manager.create_task("Mend the roof")
    graph = manager.graph
    assert graph.get_node(task) is not None
    with pytest.raises(Refused):
        graph.add_node("task:T-9", NodeType.TASK, "x", {})
    with pytest.raises(Refused):
        graph.add_edge(task, task, "BLOCKS")
    with pytest.raises(Refused):
        graph.remove_node(task)
    rejection = a_record(a_rejection(), task.removeprefix("task:"), "H-1")
    with pytest.raises(Refused):
        log_rejection_to_got(graph, rejection, RejectionDecision(decision_type="ACCEPT", rejection=rejection))
    assert analyze_rejection_patterns(graph)["total_rejections"] == 0
    assert analyze_rejection_patterns(manager.graph)["total_rejections"] == 0


def test_a_folder_without_a_repository_is_said(tmp_path: Path) -> None:
    for make in (ProjectManager, DirectorRejectionHandler, HandoffManager):
        with pytest.raises(Exception, match="git"):
            make(tmp_path)


def test_the_files_of_a_ledger_are_closed_with_the_last_use_of_its_manager(place: Repository) -> None:
    """Also where the garbage collector seldom looks: a program with many objects ran out of files."""
    ProjectManager(place.path).create_task("One")
    before = len(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        for number in range(5):
            manager = ProjectManager(place.path)
            handoffs = HandoffManager(manager)
            manager.create_task(f"Task {number}")
            assert manager.graph
            del manager, handoffs
        assert len(os.listdir("/proc/self/fd")) <= before
    finally:
        gc.enable()
