"""Runs the commands of evidence again in the real sandbox, at real commits of a real repository."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.sandbox.sandboxes import best_sandbox
from tests.integration.machine import Machine, Repository

CONFIG = """
[gates]
[sandbox]
probes = [["git", "grep"], ["cat"], ["sh", "-c"]]
"""
pytestmark = pytest.mark.skipif(
    best_sandbox().tier == "plain",
    reason="nothing here confines a command: bubblewrap or Landlock is missing",
)


@pytest.fixture(scope="module")
def repository() -> Iterator[Repository]:
    machine = Machine()
    made = machine.repository(config=CONFIG)
    made.commit("src/mail.py", "import smtplib\nraise SystemExit(3)\n")
    yield made
    machine.close()


def graded(repository: Repository, *probes: dict[str, Any]) -> list[tuple[str, str]]:
    """How a rejection with such evidence fares, through the command line."""
    task = repository.add("Send the report by mail", "--scope", "src/mail.py")
    handoff = repository.ok("task", "claim", task, "--agent", "Alice")["handoff_id"]
    record = {
        "reason_type": "BLOCKER",
        "reason_summary": "mail",
        "evidence": [{"type": "command", "data": "x", "probe": probe} for probe in probes],
    }
    path = Path(repository.machine.folder, "rejection.json")
    path.write_text(json.dumps(record))
    answer = repository.call("handoff", "reject", handoff, "--agent", "Alice", "--from", str(path)).data
    return [(row["grade"], row["detail"]) for row in answer["evidence"]]


def test_what_holds_at_the_base_is_reproduced_and_what_does_not_disproved(repository: Repository) -> None:
    found = graded(
        repository,
        {"command": ["cat", "src/mail.py"], "exit": 0, "text": "import smtplib"},
        {"command": ["cat", "src/none.py"], "exit": 0},
        {"command": ["sh", "-c", "exit 7"], "exit": 7},
    )

    assert [grade for grade, _ in found] == ["reproduced", "disproved", "reproduced"]


def test_a_command_of_evidence_sees_no_ledger_no_network_and_leaves_nothing_behind(
    repository: Repository,
) -> None:
    got = repository.path / ".got"
    left = Path(repository.machine.folder, "left-behind")
    found = graded(
        repository,
        {"command": ["sh", "-c", f"ls {got}/events/*.jsonl"], "exit": 0},
        {"command": ["sh", "-c", f"echo x > {left} || exit 9"], "exit": 0},
        {"command": ["sh", "-c", "echo x > src/mail.py && cat src/mail.py"], "text": "smtplib"},
    )

    assert not left.exists()
    assert [grade for grade, _ in found][::2] == ["reported", "disproved"]
    assert (repository.path / "src/mail.py").read_text().startswith("import smtplib")


def test_what_is_not_listed_is_not_run(repository: Repository) -> None:
    canary = Path(repository.machine.folder, "canary")

    found = graded(
        repository,
        {"command": ["touch", str(canary)], "exit": 0},
        {"command": ["/bin/cat", "src/mail.py"], "exit": 0},
        {"command": ["git", "push"], "exit": 0},
    )

    assert {grade for grade, _ in found} == {"reported"}
    assert all("not allowed" in detail for _, detail in found)
    assert not canary.exists()


def test_without_a_list_nothing_is_run(machine: Machine) -> None:
    plain = machine.repository()
    plain.commit("src/mail.py", "import smtplib\n")

    ((grade, detail),) = graded(plain, {"command": ["cat", "src/mail.py"], "exit": 0})

    assert grade == "reported"
    assert "nothing here can run" in detail
