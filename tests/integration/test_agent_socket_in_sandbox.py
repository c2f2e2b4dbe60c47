"""A real agent's place: a linked worktree in a sandbox whose only way out is the socket."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from remand.adapters.git.location import locate
from remand.adapters.git.task_worktrees import GitWorktrees
from remand.adapters.sandbox.sandboxes import find_bubblewrap
from remand.app.scheduler.ports import TaskWorktree
from remand.interfaces.cli.agent_socket.server import make_sockets
from tests.integration.agent_sockets import CONFIG
from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, Said
from tests.integration.sandboxes import sandbox_of


class Cell:
    """A worktree of a confined agent, and a socket."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        machine = repository.machine
        self.task = repository.add("Mend the roof", "--branch", "task/1")
        repository.ok("task", "claim", self.task, "--agent", "Alice")
        place = locate(str(repository.path))
        assert place is not None
        places = GitWorktrees(place, str(machine.folder / "places"), base="main")
        self.worktree: TaskWorktree = places.prepare(self.task, "task/1", repository.head(), is_confined=True)
        self.sockets = make_sockets(
            str(repository.path), import_commits=places.import_commits, inspect=places.inspect
        )
        self.agent_socket = self.sockets.open("R-1", "Alice", self.task, self.worktree)

    def run(self, *command: str, stdin: str = "") -> Said:
        """Runs a command where the agent is."""
        machine, folder, common = self.repository.machine, self.worktree.folder, self.worktree.common_dir
        view = [
            *("--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", str(machine.folder)),
            *("--bind", folder, folder, "--bind", self.worktree.private_dir, common),
            *("--ro-bind", f"{common}/objects", f"{common}/base-objects"),
            *("--bind", self.agent_socket, self.agent_socket, "--chdir", folder),
        ]
        done = subprocess.run(
            [find_bubblewrap(), *view, *command],
            input=stdin,
            env=machine.environment | {"REMAND_SOCKET": self.agent_socket},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def cell(near_machine: Machine) -> Iterator[Cell]:
    sandbox_of("bubblewrap")
    repository = near_machine.repository(config=CONFIG)
    repository.add("The first")
    repository.start_coordinator()
    made = Cell(repository)
    yield made
    made.sockets.end(5)


def test_work_is_committed_and_handed_in_from_inside(cell: Cell) -> None:
    assert cell.run(REMAND, "whoami", "--json").data["name"] == "Alice"
    committing = "echo bad > work.txt && git add work.txt && git commit -q -m work && git rev-parse HEAD"
    done = cell.run("sh", "-c", committing)
    assert done.code == 0, done
    submit = (REMAND, "task", "submit", cell.task, "--json", "--commit")
    rejected = cell.run(*submit, "HEAD").data
    assert rejected["refused"] == "gate_rejected"
    (report,) = re.findall("Full report: remand (.+)", rejected["message"])
    assert "# FAILED at " in cell.run(REMAND, *report.split()).out, "the whole report is readable there"
    assert cell.run("sh", "-c", "echo good > work.txt").code == 0
    stop = (REMAND, "hook", "--host", "claude", "stop")
    assert "work.txt" in cell.run(*stop, stdin='{"session_id": "s", "prompt_id": "1"}').out
    tip = cell.run("sh", "-c", "git commit -q -a -m good && git rev-parse HEAD").out.strip()
    assert cell.run(*submit, tip).data["status"] == "provisional"
    assert cell.repository.head("refs/heads/task/1") == tip


def test_there_is_no_way_round_the_socket(cell: Cell) -> None:
    machine = cell.repository.machine
    listing = cell.run("sh", "-c", f"find {machine.folder} -name '*.sock' -o -name '.got' -o -name 'ledger*'")
    assert listing.out.split() == [cell.agent_socket]
    bare = cell.run("env", "-u", "REMAND_SOCKET", REMAND, "task", "fail", cell.task, "--agent", "Alice")
    assert bare.code != 0
    assert cell.run(REMAND, "task", "heartbeat", cell.task, "--agent", "Bob").code == 1
    assert cell.repository.ok("task", "show", cell.task)["status"] == "claimed"
