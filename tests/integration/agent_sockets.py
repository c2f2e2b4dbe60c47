"""A repository with a coordinator and agent sockets, and agents that work there, each in a worktree and through a socket of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from remand.app.scheduler.ports import CannotRun, TaskWorktree, WorktreeState
from remand.interfaces.cli.agent_socket.server import make_sockets
from remand.wiring.startup import forward_call
from tests.integration.machine import Machine, Said

CONFIG = """
[project]
base = "main"

[gates.words]
command = ["sh", "-c", "grep -q slow work.txt && sleep 2; grep -q endless work.txt && sleep 600; grep -q good work.txt"]
parser = "exit"
mode = "strict"

[team]
members = [
  {name = "Alice", role = "agent"},
  {name = "Bob", role = "agent"},
  {name = "Lead", role = "lead"},
  {name = "owner", role = "user", aliases = ["user"]},
]

[policy]
alert_after_gates = 100
escalate_after_gates = 100
"""


class Yard:
    """The outside: what a scheduler has in its hands."""

    def __init__(self, machine: Machine, *, has_coordinator: bool = True) -> None:
        self.machine = machine
        self.repository = machine.repository(config=CONFIG)
        self._has_coordinator = has_coordinator
        if has_coordinator:
            self.repository.add("The first")
            self.repository.start_coordinator()
        self.sockets = make_sockets(
            str(self.repository.path), import_commits=self._import_commits, inspect=self._inspect
        )
        self.count = 0
        self.fault = ""

    def agent(self, name: str = "Alice", task: str = "") -> Agent:
        """An agent with a task of its own, a git folder of its own to work in, and a socket."""
        self.count += 1
        branch = f"task/{self.count}"
        if not task:
            alias = f"#{1000 + self.count}"
            added = self.user("task", "add", f"Task {self.count}", "--branch", branch, "--alias", alias)
            task = str(added["task_id"])
            self.user("task", "claim", task, "--agent", name)
        folder = self.machine.folder / f"worktree-{self.count}"
        self.machine.git(
            self.machine.folder, "clone", "-q", "--shared", str(self.repository.path), str(folder)
        )
        self.machine.git(folder, "checkout", "-q", "-b", branch)
        worktree = TaskWorktree(
            task_id=task,
            folder=str(folder),
            branch=branch,
            common_dir=str(self.repository.path / ".git"),
            private_dir=str(folder / ".git"),
        )
        run_id = f"R-{self.count}"
        agent_socket = self.sockets.open(run_id, name, task, worktree)
        return Agent(self, name, task, folder=folder, run_id=run_id, agent_socket=agent_socket)

    def user(self, *arguments: str) -> Any:
        """What the user is answered, by the coordinator where there is one."""
        path = self.repository.socket()
        if not path or not self._has_coordinator:
            return self.repository.ok(*arguments)
        code, out, err = forward_call(path, str(self.repository.path), [""] * 7, ["--json", *arguments])
        assert code == 0, f"remand {' '.join(arguments)} → {code}: {out!r} {err!r}"
        return json.loads(out)

    def _import_commits(self, worktree: TaskWorktree) -> str:
        """Takes an agent's commits over as simply as can be."""
        if self.fault:
            raise CannotRun("git", self.fault)
        branch = worktree.branch
        self.repository.git("fetch", "-q", worktree.private_dir, f"+{branch}:refs/heads/{branch}")
        return self.repository.head(f"refs/heads/{branch}")

    def _inspect(self, worktree: TaskWorktree) -> WorktreeState:
        rows = self.machine.git(
            self.machine.folder,
            f"--git-dir={worktree.private_dir}",
            f"--work-tree={worktree.folder}",
            *("status", "--porcelain"),
        ).splitlines()
        return WorktreeState(head="", uncommitted=tuple(row[3:] for row in rows))

    def close(self) -> None:
        """Ends it all."""
        self.sockets.end(5)


class Agent:
    """The inside: a folder, and a socket."""

    def __init__(
        self, yard: Yard, name: str, task: str, *, folder: Path, run_id: str, agent_socket: str
    ) -> None:
        self.yard = yard
        self.name = name
        self.task = task
        self.folder = folder
        self.run_id = run_id
        self.agent_socket = agent_socket

    def remand(self, *arguments: str, env: dict[str, str] | None = None, **options: Any) -> Said:
        """Calls the command line as the agent does, in a process of its own."""
        around = {"REMAND_SOCKET": self.agent_socket} | (env or {})
        return self.yard.machine.remand(self.folder, *arguments, env=around, **options)

    def says(
        self, *arguments: str, given: bytes = b"", settings: tuple[str, ...] = (), folder: str = "/"
    ) -> Said:
        """Speaks through the socket without the command line, as an agent with other plans does."""
        around = [*settings, *("" for _ in range(7 - len(settings)))]
        code, out, err = forward_call(self.agent_socket, folder, around, [*arguments], given=given)
        return Said(code, out.decode(), err.decode())

    def refused(self, *arguments: str, **options: Any) -> str:
        """The code a call was refused with."""
        said = self.says("--json", *arguments, **options)
        assert said.code == 1, f"{arguments} → {said}"
        return str(said.data["refused"])

    def commit(self, text: str, name: str = "work.txt") -> str:
        """Commits a file like no other agent's, in the agent's own git folder."""
        git = self.yard.machine.git
        (self.folder / name).write_text(f"{text} {self.task}")
        git(self.folder, "add", name)
        git(self.folder, "commit", "-q", "-m", text[:40])
        return git(self.folder, "rev-parse", "HEAD").strip()

    @property
    def story(self) -> dict[str, Any]:
        """The task, as the user sees it."""
        found: dict[str, Any] = self.yard.user("task", "show", self.task)
        return found

    @property
    def handoff(self) -> str:
        """The handoff under which the task is held."""
        return str(self.story["handoffs"][-1]["handoff_id"])


def put_in_the_way(folder: Path, canary: Path) -> None:
    """Plants what a careless process of ours would run or read: modules, a git folder, a ledger, events."""
    evil = f"import os\nopen({str(canary)!r}, 'a').write(__name__ + os.linesep)\n"
    for name in ("msgspec", "apsw", "json", "argparse", "sitecustomize"):
        (folder / f"{name}.py").write_text(evil)
    package = folder / "remand" / "interfaces" / "cli"
    package.mkdir(parents=True)
    for path in (folder / "remand", folder / "remand" / "interfaces", package):
        (path / "__init__.py").write_text(evil)
    (package / "outside.py").write_text(evil)
    (folder / ".got" / "events").mkdir(parents=True)
    (folder / ".got" / "ledger.id").write_text("x")
    line = '{"event":"task.fail","task_id":"T-1","meta":{"id":"x","session":"s","seq":1,"actor":"Bob"}}\n'
    (folder / ".got" / "events" / "20260101-000000-aaaaaaaa.jsonl").write_text(line)
    os.rename(folder / ".git", folder / "moved")
    (folder / ".git").mkdir()
    hook = folder / ".git" / "hook"
    hook.write_text(f"#!/bin/sh\necho ran >> {canary}\n")
    hook.chmod(0o755)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "config").write_text(
        f"[core]\n\tfsmonitor = {hook}\n\thooksPath = {folder / '.git'}\n"
    )
    for name in ("objects", "refs"):
        (folder / ".git" / name).mkdir()
