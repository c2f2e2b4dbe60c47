"""Gates that cannot be measured, through the command line and a host's stop hook: the user is asked, once and with the cause."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.test_done_claims import CONFIG, Desk
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


def claim(desk: Desk) -> None:
    desk.repository.ok("task", "claim", desk.task, "--agent", "Alice")


def broken(machine: Machine, gate: str = CAUSES["no program"][0], more: str = "") -> Desk:
    """A desk whose gate could not be measured twice."""
    desk = Desk(machine, CONFIG.replace(GATE, gate) + more)
    desk.commit("good")
    assert desk.submit()["refused"] == "gate_errored"
    assert desk.repository.ok("inbox") == [], "once is no pattern"
    claim(desk)
    assert desk.submit()["refused"] == "gate_errored"
    return desk


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
    desk = broken(machine, gate)

    (item,) = desk.repository.ok("inbox")
    assert {"escalation_id", "task_id", "question", "options", "deadline", "default", "tried"} <= set(item)
    assert "`words`" in item["question"]
    assert cause in item["question"]
    assert "remand gate run" in item["question"]
    assert [one["key"] for one in item["options"]] == ["retry"]
    shown = desk.repository.ok("task", "show", desk.task)
    assert (shown["status"], shown["gate_rejection_count"], shown["lockouts"]) == ("escalated", 0, [])


def test_people_read_it_in_the_inbox_and_doctor_says_it(machine: Machine) -> None:
    desk = broken(machine)

    page = desk.repository.people("inbox").out
    assert "The gate `words` could not be measured" in page
    assert "1) Try again" in page
    checks = {one["name"]: one for one in desk.repository.call("doctor").data["checks"]}
    assert not checks["broken gate words"]["ok"]
    assert "no-such-program" in checks["broken gate words"]["detail"]


def test_after_the_answer_the_same_cause_asks_again_at_once(machine: Machine) -> None:
    desk = broken(machine)
    (item,) = desk.repository.ok("inbox")

    answered = desk.repository.ok("inbox", "answer", item["escalation_id"], "1")
    assert (answered["option"], answered["status"]) == ("retry", "needs_continuation")
    assert desk.repository.ok("inbox") == []
    claim(desk)
    desk.submit()

    (again,) = desk.repository.ok("inbox")
    assert again["escalation_id"] != item["escalation_id"]


def test_an_agent_does_not_answer(machine: Machine) -> None:
    desk = broken(machine)
    (item,) = desk.repository.ok("inbox")
    words = ("inbox", "answer", item["escalation_id"], "retry")
    assert (
        desk.repository.refused(*words, env={"REMAND_TASK": desk.task, "REMAND_ACTOR": "Alice"})
        == "user_only"
    )


def test_a_measurement_of_the_users_closes_the_question_and_an_agents_does_not(machine: Machine) -> None:
    tool = Tool(machine)
    desk = broken(machine, tool.config, more=tool.more)
    tool.install()
    words = ("gate", "run")

    desk.repository.call(*words, env={"REMAND_TASK": desk.task, "REMAND_ACTOR": "Alice"})
    assert len(desk.repository.ok("inbox")) == 1
    assert desk.repository.call(*words, "--fresh").code == 0

    assert desk.repository.ok("inbox") == []
    assert desk.status == "needs_continuation"
    claim(desk)
    assert desk.submit()["status"] == "provisional"


def test_a_done_claim_that_is_measured_closes_the_question_of_another_task(machine: Machine) -> None:
    tool = Tool(machine)
    desk = broken(machine, tool.config, more=tool.more)
    tool.install()
    other = desk.repository.add("Another", "--branch", "work")
    desk.repository.ok("task", "claim", other, "--agent", "Bob")
    desk.repository.ok("task", "submit", other, "--agent", "Bob", "--commit", desk.commit("good, too"))

    assert desk.repository.ok("inbox") == []
    assert desk.status == "needs_continuation"


def test_what_is_known_from_before_does_not_show_that_a_gate_works_now(machine: Machine) -> None:
    tool = Tool(machine)
    tool.install()
    desk = Desk(machine, CONFIG.replace(GATE, tool.config) + tool.more)
    known = desk.commit("good")
    assert desk.repository.call("gate", "run").code == 0
    tool.remove()
    desk.commit("good again")
    assert desk.submit()["refused"] == "gate_errored"
    claim(desk)
    assert desk.submit()["refused"] == "gate_errored"

    assert desk.repository.call("gate", "run", "--commit", known).data["cached"]
    assert len(desk.repository.ok("inbox")) == 1
    assert desk.repository.call("gate", "run", "--commit", known, "--fresh").code == 3
    assert len(desk.repository.ok("inbox")) == 1


def test_other_rules_on_the_base_let_the_task_go_on(machine: Machine) -> None:
    desk = broken(machine)
    desk.repository.git("checkout", "-q", "main")
    desk.repository.configure(CONFIG)
    desk.repository.git("checkout", "-q", "work")
    (item,) = desk.repository.ok("inbox")
    desk.repository.ok("inbox", "answer", item["escalation_id"], "retry")
    claim(desk)

    assert desk.submit()["status"] == "provisional"


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
