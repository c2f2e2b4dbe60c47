"""Gates that cannot be measured, through the command line and a host's stop hook: the user is asked, once and with the cause."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.test_done_claims import CONFIG, Workspace
from tests.acceptance.test_hooks import Session
from tests.integration.machine import Machine

GATE = """[gates.words]
command = ["grep", "-q", "good", "work.txt"]
parser = "exit"
mode = "strict"
"""
JUNIT = '[gates.words]\nparser = "junit"\ncommand = ["sh", "-c", "{}"]\n'
PREPARED = 'prepare = {{command = ["sh", "-c", "{}"]}}\n'
CAUSES: dict[str, tuple[str, str]] = {
    "no program": ('[gates.words]\ncommand = ["no-such-program"]\n', "no-such-program"),
    "no module": (
        '[gates.words]\nparser = "junit"\ncommand = ["python3", "-m", "no_such_checker", "{report}"]\n',
        "No module named no_such_checker",
    ),
    "prepare fails": (GATE + PREPARED.format("echo no certificate for $$ >&2; exit 1"), "no certificate for"),
    "out of time": ('[gates.words]\ntimeout = "1s"\ncommand = ["sleep", "100"]\n', "did not end within 1 s"),
    "no report": (JUNIT.format("date +%s%N; echo $$ $PWD; exit 1"), "report"),
    "unreadable report": (JUNIT.format("echo '<testsuites' >{report}"), "XML"),
}


def claim(workspace: Workspace) -> None:
    workspace.repository.ok("task", "claim", workspace.task, "--agent", "Alice")


def broken(machine: Machine, gate: str = CAUSES["no program"][0], more: str = "") -> Workspace:
    """A workspace whose gate could not be measured twice."""
    workspace = Workspace(machine, CONFIG.replace(GATE, gate) + more)
    workspace.commit("good")
    assert workspace.submit()["refused"] == "gate_errored"
    assert workspace.repository.ok("inbox") == [], "once is no pattern"
    claim(workspace)
    assert workspace.submit()["refused"] == "gate_errored"
    return workspace


class Tool:
    """A tool outside of the repository that the gate needs, and that can be taken away and put back."""

    def __init__(self, machine: Machine) -> None:
        folder = machine.folder / "tools"
        folder.mkdir()
        self._report = folder / "report.xml"
        self.config = f'''[gates.words]
parser = "junit"
command = ["cp", "{self._report}", "{{report}}"]
'''
        self.more = f'\n[sandbox]\nread = ["{folder}"]\n'

    def install(self) -> None:
        self._report.write_text('<testsuite><testcase classname="a" name="b"/></testsuite>')

    def remove(self) -> None:
        self._report.unlink()


@pytest.mark.parametrize(("gate", "cause"), CAUSES.values(), ids=CAUSES)
def test_the_user_is_asked_with_the_cause_whatever_keeps_a_gate_from_being_measured(
    machine: Machine, gate: str, cause: str
) -> None:
    workspace = broken(machine, gate)

    (item,) = workspace.repository.ok("inbox")
    assert {"escalation_id", "task_id", "question", "options", "deadline", "default", "tried"} <= set(item)
    assert "`words`" in item["question"]
    assert cause in item["question"]
    assert "remand gate run" in item["question"]
    assert [one["key"] for one in item["options"]] == ["retry"]
    shown = workspace.repository.ok("task", "show", workspace.task)
    assert (shown["status"], shown["gate_rejection_count"], shown["lockouts"]) == ("escalated", 0, [])


def test_people_read_it_in_the_inbox_and_doctor_says_it(machine: Machine) -> None:
    workspace = broken(machine)

    page = workspace.repository.people("inbox").out
    assert "The gate `words` could not be measured" in page
    assert "1) Try again" in page
    checks = {one["name"]: one for one in workspace.repository.call("doctor").data["checks"]}
    assert not checks["broken gate words"]["ok"]
    assert "no-such-program" in checks["broken gate words"]["detail"]


def test_after_the_answer_the_same_cause_asks_again_at_once(machine: Machine) -> None:
    workspace = broken(machine)
    (item,) = workspace.repository.ok("inbox")

    answered = workspace.repository.ok("inbox", "answer", item["escalation_id"], "1")
    assert (answered["option"], answered["status"]) == ("retry", "needs_continuation")
    assert workspace.repository.ok("inbox") == []
    claim(workspace)
    workspace.submit()

    (again,) = workspace.repository.ok("inbox")
    assert again["escalation_id"] != item["escalation_id"]


def test_an_agent_does_not_answer(machine: Machine) -> None:
    workspace = broken(machine)
    (item,) = workspace.repository.ok("inbox")
    words = ("inbox", "answer", item["escalation_id"], "retry")
    assert (
        workspace.repository.refused(*words, env={"REMAND_TASK": workspace.task, "REMAND_ACTOR": "Alice"})
        == "user_only"
    )


def test_a_measurement_of_the_users_closes_the_question_and_an_agents_does_not(machine: Machine) -> None:
    tool = Tool(machine)
    workspace = broken(machine, tool.config, more=tool.more)
    tool.install()
    words = ("gate", "run")

    workspace.repository.call(*words, env={"REMAND_TASK": workspace.task, "REMAND_ACTOR": "Alice"})
    assert len(workspace.repository.ok("inbox")) == 1
    assert workspace.repository.call(*words, "--fresh").code == 0

    assert workspace.repository.ok("inbox") == []
    assert workspace.status == "needs_continuation"
    claim(workspace)
    assert workspace.submit()["status"] == "provisional"


def test_a_done_claim_that_is_measured_closes_the_question_of_another_task(machine: Machine) -> None:
    tool = Tool(machine)
    workspace = broken(machine, tool.config, more=tool.more)
    tool.install()
    other = workspace.repository.add("Another", "--branch", "work")
    workspace.repository.ok("task", "claim", other, "--agent", "Bob")
    workspace.repository.ok(
        "task", "submit", other, "--agent", "Bob", "--commit", workspace.commit("good, too")
    )

    assert workspace.repository.ok("inbox") == []
    assert workspace.status == "needs_continuation"


def test_what_is_known_from_before_does_not_show_that_a_gate_works_now(machine: Machine) -> None:
    tool = Tool(machine)
    tool.install()
    workspace = Workspace(machine, CONFIG.replace(GATE, tool.config) + tool.more)
    known = workspace.commit("good")
    assert workspace.repository.call("gate", "run").code == 0
    tool.remove()
    workspace.commit("good again")
    assert workspace.submit()["refused"] == "gate_errored"
    claim(workspace)
    assert workspace.submit()["refused"] == "gate_errored"

    assert workspace.repository.call("gate", "run", "--commit", known).data["cached"]
    assert len(workspace.repository.ok("inbox")) == 1
    assert workspace.repository.call("gate", "run", "--commit", known, "--fresh").code == 3
    assert len(workspace.repository.ok("inbox")) == 1


def test_other_rules_on_the_base_let_the_task_go_on(machine: Machine) -> None:
    workspace = broken(machine)
    workspace.repository.git("checkout", "-q", "main")
    workspace.repository.configure(CONFIG)
    workspace.repository.git("checkout", "-q", "work")
    (item,) = workspace.repository.ok("inbox")
    workspace.repository.ok("inbox", "answer", item["escalation_id"], "retry")
    claim(workspace)

    assert workspace.submit()["status"] == "provisional"


def test_a_stop_hook_without_a_scheduler_asks_the_user_too(machine: Machine) -> None:
    session = Session(machine, CONFIG.replace('"grep"', '"no-such-program"'))
    session.commit("good")
    assert session.blocked() == "", "the agent may stop: it is not its fault"
    claim(session)
    assert session.blocked() == ""

    (item,) = session.repository.ok("inbox")
    assert "no-such-program" in item["question"]
    assert session.status == "escalated"


def mirror(machine: Machine) -> Path:
    (folder,) = machine.state.glob("remand/*/gates")
    return folder / "mirror.git"


@pytest.mark.parametrize("kind", ["task submit", "stop hook"])
def test_gates_that_cannot_even_be_started_ask_the_user(machine: Machine, kind: str) -> None:
    session = Session(machine)
    session.repository.call("gate", "run", "--commit", "main")
    path = mirror(machine)
    shutil.rmtree(path)
    path.write_text("no repository")
    session.commit("good")
    for number in range(2):
        if number:
            claim(session)
        if kind == "task submit":
            assert session.submit()["refused"] == "gate_errored"
        else:
            assert session.blocked() == ""

    (item,) = session.repository.ok("inbox")
    assert item["question"].startswith("The gates could not be measured")
    path.unlink()
    session.repository.ok("inbox", "answer", item["escalation_id"], "retry")
    claim(session)
    assert session.submit()["status"] == "provisional"
    assert session.repository.ok("inbox") == []
