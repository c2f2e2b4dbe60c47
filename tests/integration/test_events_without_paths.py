"""What happens on one machine is recorded so that it holds on others: no event names a folder of the machine."""

from __future__ import annotations

import json
import os
import pwd
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import near_machine
from tests.integration.machine import Machine, Repository
from tests.integration.scripted_agents import Office, Scheduler
from tests.support.rejection_records import a_rejection

__all__ = ["near_machine"]

TESTS = "import pathlib\n\n\ndef test_place():\n    raise AssertionError(pathlib.Path(__file__).resolve())\n"


def config(machine: Machine) -> str:
    """A gate whose tool tells where it runs, and one whose program is nowhere."""
    return f"""
[gates.tests]
command = ["{sys.executable}", "-m", "pytest", "-q", "--disable-plugin-autoload", "-p", "no:cacheprovider", "--junitxml={{report}}"]
parser = "junit"

[gates.lint]
command = ["{machine.home}/.venv/bin/ruff", "check"]
parser = "exit"
required = false
"""


def named(repository: Repository) -> dict[str, list[str]]:
    """The folders of the machine that events name, each with what stands around it."""
    machine = repository.machine
    text = b"\n".join(repository.lines()).decode()
    roots = [machine.folder, machine.home, machine.state, repository.path, sys.prefix, "/tmp"]
    found = {}
    for root in map(str, roots):
        places = [at for at in range(len(text)) if text.startswith(f"{root}/", at)]
        if places:
            found[root] = [text[max(0, at - 80) : at + 120] for at in places[:3]]
    return found


def test_what_people_agents_and_gates_say_is_recorded_without_them(near_machine: Machine) -> None:
    place = near_machine.repository(config=config(near_machine))
    about = f"Look at {place.path}/src/a.py, {near_machine.home}/notes and {near_machine.folder}/other."
    task = place.add("Find the place", "--scope", about, "--branch", "work")
    claim = place.ok("task", "claim", task, "--agent", "Fenster")
    place.git("switch", "-q", "-c", "work")
    place.commit("test_place.py", TESTS)
    said = place.call("task", "submit", task, "--agent", "Fenster", "--commit", "HEAD").data

    assert said["refused"] == "gate_rejected"
    assert Path(said["verdict"]["report"]).is_file()
    rejection = a_rejection(agent_id="Fenster", task_id=task)
    text = json.dumps(rejection).replace("src/", f"{place.path}/src/")
    place.call("handoff", "reject", claim["handoff_id"], "--agent", "Fenster", "--from", "-", stdin=text)
    place.call("escalate", task, "--reason", f"see {near_machine.state}/remand/x")
    assert named(place) == {}
    shown = place.ok("task", "show", task)
    assert shown["scope"] == "Look at src/a.py, ~/notes and $TMP/" + str(near_machine.folder)[5:] + "/other."


def test_the_accounts_own_home_is_not_named_where_the_environment_has_another(near_machine: Machine) -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir
    place = near_machine.repository()

    task = place.add(
        "Find the place", "--scope", f"{home}/.cargo/bin has no linter, {near_machine.home}/x neither."
    )

    assert home != str(near_machine.home)
    assert place.ok("task", "show", task)["scope"] == "~/.cargo/bin has no linter, ~/x neither."


def test_a_report_is_named_in_events_and_read_on_the_machine_that_has_it(near_machine: Machine) -> None:
    place = near_machine.repository(config=config(near_machine))
    task = place.add("Find the place", "--branch", "work")
    place.ok("task", "claim", task, "--agent", "Fenster")
    place.git("switch", "-q", "-c", "work")
    place.commit("test_place.py", TESTS)
    place.call("task", "submit", task, "--agent", "Fenster", "--commit", "HEAD")
    (verdict,) = [event["verdict"] for event in place.written().values() if event["event"] == "gate.reject"]

    assert "/" not in verdict["report"]
    told = place.people("gate", "wait", task).out
    assert f"Full report: remand gate report {verdict['report']}" in told
    assert "test_place" in place.people("gate", "report", verdict["report"]).out
    clone = near_machine.clone(place, "colleague")
    assert "no report" in clone.call("gate", "report", verdict["report"]).data["message"]
    assert place.call("gate", "report", "../../../../etc/passwd").code == 3


@pytest.mark.timeout(600)
def test_a_run_of_the_scheduler_is_recorded_without_them(machine: Machine) -> None:
    script = (
        'echo "at $PWD and $HOME"; if [ $N = 1 ]; then echo "$PWD/x is broken" >&2; exit 3; fi; commit bad\n'
    )
    office = Office(machine, team={"Fenster": script}, gates=config(machine), sandbox="off")
    task = office.add("Find the place")
    scheduler = Scheduler(office, "--once")
    try:
        scheduler.wait()
    finally:
        scheduler.close()

    assert office.events("run.end", task)
    assert named(office.repository) == {}
