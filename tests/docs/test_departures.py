"""Holds the page of departures: every row names a test that exists. Some of those tests are here."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from remand import (
    DecisionType,
    DirectorRejectionHandler,
    HandoffManager,
    RejectionDecision,
    RejectionReason,
    RejectionValidator,
    TaskRejection,
    ThoughtGraph,
)
from remand.domain import ids
from remand.interfaces.cli.main import command_parser
from remand.interfaces.cli.registry import COMMANDS
from tests.support.rejection_records import LAZY, OAUTH, OAUTH_TASK, SCOPE, TITLE, a_rejection

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "departures.md").read_text(encoding="utf-8")
HEADING = ["the document", "here", "why", "test"]


def rows(page: str) -> list[list[str]]:
    """The rows of the tables, without headings and rules."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in page.splitlines()
        if line[:1] == "|"
    ]
    return [
        [cell.strip("| ") for cell in row]
        for row in cells
        if row[0] != HEADING[0] and not row[0].startswith("---")
    ]


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def fault(row: list[str]) -> str:
    """What is wrong with a row; empty when nothing is."""
    if len(row) != len(HEADING) or not all(row):
        return "it has an empty cell, or not four of them"
    named = re.fullmatch(r"`([a-z_/]+\.py)::(test_\w+)`", row[-1])
    if named is None:
        return "it names no test"
    return "" if named[2] in functions(TESTS / named[1]) else f"there is no test {named[0]}"


def test_every_departure_is_held_by_a_test_that_exists() -> None:
    assert [(row[0], fault(row)) for row in rows(PAGE) if fault(row)] == []


def test_every_document_has_its_departures() -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]

    assert {section[:3] for section in sections} == {"000", "001", "002", "003", "004"}
    assert all(rows(section) for section in sections)


def test_no_departure_is_listed_twice() -> None:
    told = [tuple(row[:2]) for row in rows(PAGE)]

    assert len(set(told)) == len(told)


@pytest.mark.parametrize(
    "row",
    [
        "| a | b | c | |",
        "| a | b | c |",
        "| a | b | c | see the tests |",
        "| a | b | c | `docs/test_departures.py::test_that_is_gone` |",
        "| a | b | c | `docs/test_gone.py::test_every_departure_is_held_by_a_test_that_exists` |",
    ],
)
def test_a_row_without_a_test_is_a_fault(row: str) -> None:
    assert fault(rows(row)[0])


# What the rows say and no other test shows.

TASK = {"id": "task:T-1", "title": TITLE, "scope": SCOPE, "priority": "medium", "category": "report"}


class Manager:
    """A manager of a program's own, which remembers what it was told."""

    def __init__(self) -> None:
        self.graph = ThoughtGraph()
        self.created: list[dict[str, Any]] = []

    def create_task(self, **told: Any) -> str:
        self.created.append(told)
        return f"task:T-new-{len(self.created)}"

    def update_task(self, task_id: str, **told: Any) -> None:
        pass


def handled(record: dict[str, Any], task: dict[str, Any] | None = None) -> tuple[Manager, RejectionDecision]:
    manager = Manager()
    own = {"task_id": "task:T-1", "handoff_id": "H-1", "agent_id": "Alice"}
    rejection = TaskRejection.from_dict({**record, **own})
    return manager, DirectorRejectionHandler(manager).handle_rejection(rejection, task or TASK)


def test_a_rejection_is_made_by_field_names() -> None:
    with pytest.raises(TypeError):
        TaskRejection("task:T-1", "H-1", "Alice", RejectionReason.BLOCKER)


def test_a_decision_needs_no_rationale() -> None:
    rejection = TaskRejection(reason_type=RejectionReason.BLOCKER)

    assert RejectionDecision(decision_type=DecisionType.ACCEPT, rejection=rejection).rationale == ""


def test_the_methods_of_the_sample_code_are_no_part_of_the_interface() -> None:
    for kind, public in (
        (RejectionValidator, {"validate", "assess"}),
        (DirectorRejectionHandler, {"handle_rejection"}),
    ):
        assert {name for name in vars(kind) if not name.startswith("_")} == public
        assert not [name for name in vars(kind) if name.startswith(("_validate_", "_handle_"))]


@pytest.mark.parametrize("reason", ["MISSING_DEPENDENCY", "UNCLEAR_REQUIREMENTS", "BLOCKER", "OBSOLETE"])
def test_a_missing_dependency_and_unclear_requirements_need_evidence(reason: str) -> None:
    without = TaskRejection.from_dict({**a_rejection(reason), "evidence": []})
    _, issues = RejectionValidator().validate(without, TASK)

    assert [issue.code for issue in issues] == ["evidence_missing"]


def test_created_tasks_are_described_with_the_alternative_or_the_estimate() -> None:
    record = a_rejection("BLOCKER")
    (created,) = handled(record)[0].created

    assert created["description"] == f"{record['reason_detail']}\n\n{record['suggested_alternative']}"
    first = handled(OAUTH, OAUTH_TASK)[0].created[0]
    told = OAUTH["alternative_tasks"][0]
    assert first["description"] == f"{told['scope']}\n\nEstimate: {told['estimate']}"


def test_the_rationale_of_an_override_lists_codes_and_its_message_the_texts() -> None:
    _, decision = handled(LAZY)
    _, issues = RejectionValidator().validate(decision.rejection, TASK)

    assert decision.rationale == f"Rejection validation failed: {', '.join(issue.code for issue in issues)}."
    assert all(f"- {issue}" in decision.override_message for issue in issues)


@pytest.mark.parametrize("reason", ["INFEASIBLE", "UNCLEAR_REQUIREMENTS", "BLOCKER"])
def test_rationales_name_the_created_task(reason: str) -> None:
    _, decision = handled(a_rejection(reason))

    assert f"{decision.created_tasks[0]}." in decision.rationale


def test_a_handoff_manager_is_asked_for_the_status_and_given_the_context() -> None:
    class Log:
        def log(self, event: str, /, **fields: Any) -> None:
            pass

    seen: list[str] = []
    manager = HandoffManager(Log(), task_context=lambda task: seen.append(task) or OAUTH_TASK)  # type: ignore[func-returns-value]  # it notes the call
    manager.reject_handoff("H-1", "Alice", TaskRejection.from_dict({**OAUTH, "task_id": "task:T-1"}))

    assert seen == ["task:T-1"]
    assert manager.status("H-1")["status"] == "rejected"


def test_new_ids_have_eight_digits_and_old_ones_are_read() -> None:
    assert ids.make_id("T", "2025-12-20T15:30:45.000000Z", "0123abcd") == "T-20251220-153045-0123abcd"
    assert ids.parse_task_id("task:T-20251220-153045-a1b2") == "T-20251220-153045-a1b2"
    assert ids.parse_handoff_id("handoff:H-20251220-153100-c3d4") == "H-20251220-153100-c3d4"


REJECT = [
    *("handoff", "reject", "H-1", "--agent", "sub-agent-1", "--reason", "SCOPE_CREEP"),
    *("--summary", "Task scope grew 5x during investigation", "--detail", "@rejection_detail.md"),
    *("--attempted", "Analyzed codebase", "Ran tests", "Checked docs"),
    *("--blocker", "Requires auth system redesign", "--alternative", "@alternative_plan.md"),
    *("--scope-growth", "5.0"),
]


@pytest.mark.parametrize(
    "call",
    [
        REJECT,
        ["handoff", "status", "H-1"],
        ["analyze", "rejections", "--since", "2025-12-01"],
        [
            *("handoff", "rejection-response", "H-1", "--decision", "ACCEPT_AND_DECOMPOSE"),
            *("--created-tasks", "task:T-xxx", "task:T-yyy", "task:T-zzz"),
        ],
    ],
    ids=lambda call: " ".join(call[:2]),
)
def test_the_commands_of_the_documents_are_commands_of_remand(call: list[str]) -> None:
    name = " ".join(call[:2])

    assert name in COMMANDS
    assert command_parser(name)[1].parse_args(call[2:])


def test_the_command_line_example_lacks_what_the_document_demands() -> None:
    record = TaskRejection(
        reason_type=RejectionReason.SCOPE_CREEP,
        reason_summary="Task scope grew 5x during investigation",
        reason_detail="The task was a button. The auth system has to be designed anew, in 47 files.",
        what_attempted=["Analyzed codebase", "Ran tests", "Checked docs"],
        blocking_factor="Requires auth system redesign",
        suggested_alternative="Refactor the auth module first (8 h), then add the button (2 h).",
        scope_growth_factor=5.0,
    )
    _, issues = RejectionValidator().validate(record, {"title": "Add a login button"})

    assert {"decomposition_too_few", "scope_original_missing", "effort_vague"} <= {
        issue.code for issue in issues
    }
    options = {
        word for word in command_parser("handoff reject")[1].format_help().split() if word.startswith("--")
    }
    assert {"--alt-task", "--original-scope", "--evidence", "--from"} <= {
        word.strip("[],") for word in options
    }
