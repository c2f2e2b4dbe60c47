"""The demo, played once: what people saw, held against what the ledger says and what git has."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from remand.domain.events.tasks import TaskAdded, TaskClaimed, TaskSubmitted
from remand.interfaces.demo.environment import DemoEnvironment, EventWatcher
from remand.testing.builders import T1, Session, task_added, task_claimed
from tests.integration.machine import REMAND, Machine, Repository, Said, wait_for
from tests.support.builders import task_submitted

NOES = {
    ("reviewer", "issue #42", "Lead", "Fenster", "on to Hockney"),
    ("gate", "issue #44", "the gates", "Kobayashi", "Kobayashi fixed it"),
    ("gate", "issue #45", "the gates", "McManus", "the task was cancelled"),
    ("agent", "issue #46", "Keaton", "Keaton", "ACCEPT_AND_DECOMPOSE"),
    ("agent", "issue #47", "Keaton", "Keaton", "ACCEPT_AND_DEFER"),
    ("agent", "issue #48", "Fenster", "Fenster", "OVERRIDE"),
    ("agent", "issue #48", "Fenster", "Fenster", "OVERRIDE, on to Hockney"),
}
"""Every no but those of #43, which two agents try in whichever order."""
WORK_SECONDS = 60
WORK_STARTS = 250
"""Where processors are slow: how many starts of the command line the demo's work may come to."""
SUBTASKS = {
    "Extract a provider interface in the auth module",
    "OAuth provider",
    "OAuth button and redirect flow",
}


class Played(NamedTuple):
    """A story that was told, and what it left behind."""

    said: Said
    folder: Path
    repository: Repository
    work_seconds: float
    start_seconds: float

    @property
    def readout(self) -> Any:
        return self.repository.ok("analyze", "runs")

    def events(self, name: str) -> list[dict[str, Any]]:
        """Every event of a name, as the files have it."""
        return [event for event in self.repository.written().values() if event["event"] == name]

    def task(self, alias: str) -> dict[str, Any]:
        told: dict[str, Any] = self.repository.ok("task", "show", alias)
        return told


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    """The demo, kept."""
    machine = Machine()
    began = children_seconds()
    machine.remand(machine.home, "--version")
    before = children_seconds()
    said = machine.remand(machine.home, "demo", "--keep", "story", timeout=1200)
    after = children_seconds()
    assert said.code == 0, said
    folder = machine.home / "story"
    repository = Repository(machine, folder / "repository")
    yield Played(said, folder, repository, work_seconds=after - before, start_seconds=before - began)
    machine.close()


def children_seconds() -> float:
    """How long the processors have worked for the processes that this one started and saw end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


pytestmark = pytest.mark.timeout(1800)


def test_every_task_ends_and_nobody_is_left_at_work(played: Played) -> None:
    tasks = played.repository.ok("task", "list")

    assert Counter(task["status"] for task in tasks) == {"done": 11, "cancelled": 1}
    assert {task["title"] for task in tasks} >= SUBTASKS
    assert played.task("#45")["status"] == "cancelled"
    begun, ended = (
        sorted(one["run_id"] for one in played.events(f"run.{name}")) for name in ("start", "end")
    )
    assert begun == ended
    wait_for(lambda: not [name for name in running() if str(played.folder) in name], "nobody at work")


def test_no_event_names_a_folder_of_the_machine(played: Played) -> None:
    lines = b"\n".join(played.repository.lines())

    assert b"gate.reject" in lines
    assert not [root for root in ("/tmp/", str(played.folder), sys.prefix) if root.encode() in lines]


def test_the_three_kinds_of_no_happen_and_are_answered(played: Played) -> None:
    told = {
        (no["kind"], no["label"], no["by"], no["of"], no["outcome"])
        for no in played.readout["noes"]
        if no["label"] != "issue #43"
    }

    assert told == NOES
    orders = [no for no in played.readout["noes"] if no["label"] == "issue #43"]
    assert {no["of"] for no in orders} == {"McManus", "Kobayashi"}
    assert [no["outcome"] for no in orders] == [f"on to {orders[1]['of']}", "the user was asked"]


def test_the_gates_reject_with_the_figures_of_pytest_and_ruff_and_hold_a_deleted_test(played: Played) -> None:
    whys = {no["label"]: no["why"] for no in played.readout["noes"] if no["kind"] == "gate"}

    assert whys["issue #44"] == "Tests: 1 failure (requires 100% pass); Lint: 2 errors (requires 0)"
    assert "tests/test_price.py: test_deleted" in whys["issue #45"]
    for line in (
        "| REJECTED: Quality gates failed",
        "F401: `os` imported but unused",
        "assert 178.5 == 59.5",
    ):
        assert line in played.said.out


def test_the_rejected_author_is_refused_and_a_colleague_finishes_on_the_same_branch(played: Played) -> None:
    button = played.task("#42")

    assert "Fenster may no longer work on task" in played.said.out
    assert "Fenster was locked out for issue #42 after Lead rejected commit" in played.said.out
    authors = played.repository.git("log", "--format=%an", f"main..{button['branch']}").split()
    assert authors == ["Hockney", "Fenster"]
    assert "accessibility expertise" in played.said.out


def test_the_user_is_asked_once_and_answers_with_one_command(played: Played) -> None:
    (question,) = played.readout["questions"]

    assert (question["label"], question["answer"]) == ("issue #43", "unlock:McManus")
    assert '$ remand inbox answer "#43" unlock:McManus --guidance' in played.said.out
    assert played.task("#43")["status"] == "done"


def test_a_deferred_task_wakes_and_sub_tasks_end_what_they_were_cut_from(played: Played) -> None:
    assert [event["task_id"] for event in played.events("task.wake")] == [played.task("#47")["task_id"]]
    assert [event["task_id"] for event in played.events("task.settle")] == [played.task("#46")["task_id"]]


def test_what_dies_dies_without_blame(played: Played) -> None:
    ends = played.events("run.end")

    assert [(end["agent"], end["how"]) for end in ends if end["how"] != "exited"] == [("Hockney", "lost")]
    assert [end["agent"] for end in ends if end.get("is_fault")] == ["Verbal"]
    assert "My earlier work is still here, uncommitted." in played.said.out
    assert {event["agent"] for event in played.events("lockout.set")} == {"Fenster", "McManus", "Kobayashi"}


def test_the_agents_speak_through_sockets_and_one_is_refused_there(played: Played) -> None:
    assert "Agents may not call `remand gate accept`" in played.said.out
    (tier,) = {event["tier"] for event in played.events("run.start")}
    assert {"bubblewrap": "(tier 1)", "plain": "(tier 0)"}[tier] in played.said.out


def test_every_review_says_what_was_looked_at(played: Played) -> None:
    approvals = played.events("review.approve")

    assert {event["reviewer"] for event in approvals} == {"Lead"}
    assert all(event["checked"] for event in approvals)


def test_the_read_out_adds_up_with_the_ledger(played: Played) -> None:
    ends, found = played.events("run.end"), played.readout

    for figure in ("seconds", "turns", "tokens", "cost"):
        in_all = sum(end.get(figure, 0) for end in ends)
        assert found["total"][figure] == pytest.approx(in_all)
        assert sum(agent[figure] for agent in found["agents"]) == pytest.approx(in_all)
        assert sum(task["bill"][figure] for task in found["tasks"]) == pytest.approx(in_all)
    assert found["total"]["runs"] == len(ends)
    assert {agent["name"]: agent["runs"] for agent in found["agents"]} == Counter(
        end["agent"] for end in ends
    )
    assert found["total"]["cost"] > 0
    assert len(found["noes"]) == sum(
        len(played.events(name))
        for name in ("handoff.reject", "handoff.reject.invalid", "gate.reject", "gate.hold", "review.reject")
    )
    assert f"{len(ends)} runs" in played.said.out


def test_people_read_it_as_it_happens_and_at_the_end(played: Played) -> None:
    marks = ("✗", "AGENT NO"), ("✗", "GATE NO"), ("✗", "REVIEWER NO"), ("?", "YOUR DECISION"), ("✓", "DONE")
    lines = played.said.out.splitlines()
    for mark, tag in marks:
        assert any(line.lstrip().startswith(mark) and tag in line for line in lines), tag
    for part in ("Rejections", "Questions to the user", "Cost", "Tasks"):
        assert lines.index(part) > lines.index("● The report: remand analyze runs")
    assert "Turns, tokens and cost are scripted" in played.said.out
    assert lines[-5].startswith("  cd story/repository && remand task show")
    again = played.repository.people("analyze", "runs").out
    assert again.splitlines()[0] in lines


def test_the_recording_shows_what_is_told(played: Played) -> None:
    picture = (Path(__file__).parents[2] / "docs" / "images" / "demo.svg").read_text(encoding="utf-8")
    lines = [unescape(line) for line in re.findall(r'class="(?:head|no)">([^<]*)</text>', picture)]

    shown = [line.partition("…")[0][:60] for line in lines]  # further on, ports and ids differ
    assert len(shown) > 10
    assert [line for line in shown if line not in played.said.out] == []


def test_the_log_is_sound_and_a_clone_knows_the_same(played: Played) -> None:
    clone = Repository(played.repository.machine, played.folder / "clone")

    assert (played.repository.verify(), clone.verify()) == ([], [])
    assert clone.digest() == played.repository.digest()


def test_nothing_is_left_elsewhere_and_it_is_quick(played: Played) -> None:
    machine = played.repository.machine

    assert os.listdir(machine.home) == ["story"]
    assert sorted(os.listdir(played.folder)) == [
        "clone",
        "home",
        "repository",
        "scheduler.log",
        "state",
        "tmp",
    ]
    assert os.listdir(played.folder / "home") == []
    most = max(WORK_SECONDS, WORK_STARTS * played.start_seconds)
    assert played.work_seconds < most, "of work, whatever else the machine does"


def running() -> list[str]:
    """The command lines of every process."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        try:
            found.append(Path("/proc", name, "cmdline").read_text(errors="replace").replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_program_gets_the_read_out_as_one_document_without_a_sandbox_too(
    campaign: Callable[[int, int], int], machine: Machine
) -> None:
    for _ in range(campaign(0, 1)):
        hidden = machine.folder / "none"
        hidden.touch()
        sandbox = shutil.which("bwrap") or ""
        hiding = [sandbox, "--dev-bind", "/", "/", "--bind", str(hidden), sandbox] if sandbox else []
        process = machine.start(machine.home, *hiding, REMAND, "demo", "--json")
        out, err = process.communicate(timeout=1200)

        told = Said(process.returncode, out, err).data
        assert (told["tier"], told["statuses"]) == ("plain", {"done": 11, "cancelled": 1})
        assert os.listdir(machine.home) == []


def test_whole_lines_are_read_once_and_tasks_folded_from_them(machine: Machine) -> None:
    repository = machine.folder / "repository"
    events = repository / ".got" / "events"
    watching = EventWatcher(str(repository))
    assert (list(watching.news()), watching.is_over) == ([], False)

    session = Session()
    for event in (task_added(), task_claimed(), task_submitted()):
        session.write(event)
    events.mkdir(parents=True)
    whole = b"".join(line + b"\n" for line in session.lines)
    (events / "one.jsonl").write_bytes(whole[:-10])
    assert [type(seen.event) for seen in watching.news()] == [TaskAdded, TaskClaimed]
    assert list(watching.news()) == []

    (events / "one.jsonl").write_bytes(whole)
    assert [type(seen.event) for seen in watching.news()] == [TaskSubmitted]
    assert (watching.tasks[T1].title, watching.is_over) == ("Mend the roof", False)


def test_the_dashboard_has_the_question_that_the_demo_leaves(tmp_path: Path) -> None:
    stage = DemoEnvironment(str(tmp_path), lambda _: None)
    try:
        stage.git("init", "-q", "-b", "main")
        stage.write({"README.md": "A shop\n"})
        stage.git("commit", "-q", "-m", "A shop")
        stage.remand("init", "--no-trial")
        stage.ask_the_user()
        with stage.dashboard() as dashboard:
            link, line = urlsplit(dashboard.login_url), HTTPConnection(urlsplit(dashboard.url).netloc)
            line.request("GET", f"{link.path}?{link.query}", headers={"host": link.netloc})
            cookie = (line.getresponse().getheader("set-cookie") or "").partition(";")[0]
            line.close()
            line.request("GET", "/", headers={"host": link.netloc, "cookie": cookie})
            text = line.getresponse().read().decode()
            line.close()
    finally:
        stage.close()

    assert "Choose the payment provider" in text
    assert dashboard.process.poll() is not None
