"""A repository whose team is scripts, and `remand run` over it in a process of its own.

Every agent is a bash script that keeps its own account of what it saw in a folder that it may write: which run this is,
what it was told, where it was. One that works holds a lock of its task for as long as any of its processes lives, so that
two at once on one task give themselves away.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.integration.machine import PATIENCE, REMAND, Machine, end

PAUSE = 0.03
Event = dict[str, Any]
IDENTITY = '["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"]'
GOOD_WORK = """
[gates.words]
command = ["grep", "-q", "good", "work.txt"]
parser = "exit"
mode = "strict"
"""
"""A gate that is quick, and lets through what says that it is good."""
NO_GATES = "[gates]\n"
HEARS = "Scheduler of "
"""How a scheduler begins that can be asked to end; one that is only starting is ended by any signal."""
PERSON = ""
"""The script of somebody who is not started."""
PREAMBLE = """#!/bin/bash
NOTES='{notes}' T=$REMAND_TASK A=$REMAND_ACTOR
if [ -n "$REMAND_HANDOFF" ]; then
  exec 9>>"$NOTES/lock.$T"
  flock -n 9 || echo "$A" >>"$NOTES/twice"
fi
echo >>"$NOTES/runs.$T.$A"
N=$(wc -l <"$NOTES/runs.$T.$A")
cat >"$NOTES/prompt.$T.$A.$N"
pwd >"$NOTES/folder.$T.$A.$N"
note() {{ echo "${{2-}}" >"$NOTES/$1.$T.$A"; }}
commit() {{ echo "$1 by $A, $N, on $T" >work.txt; git add -A; git commit -q -m "$1"; }}
hang() {{ note hangs "$$"; exec sleep 1000; }}
until_let() {{ note waits; while [ ! -e "$NOTES/go" ]; do sleep 0.02; done; }}
"""


class Member(NamedTuple):
    """One of the team: a script that is started, or a person."""

    script: str = PERSON
    role: str = "agent"
    more: str = ""
    """What else `remand.toml` says of it, such as `capacity = 2`."""


class Office:
    """A repository, a team of scripts, and what they have noted."""

    def __init__(
        self,
        machine: Machine,
        team: Mapping[str, Member | str],
        *,
        gates: str = NO_GATES,
        policy: str = "",
        run: str = "",
        sandbox: str = "off",
        more: str = "",
    ) -> None:
        self.machine = machine
        self.notes = machine.folder / "notes"
        self.scripts = machine.folder / "scripts"
        for folder in (self.notes, self.scripts):
            folder.mkdir()
        members = {name: Member(one) if isinstance(one, str) else one for name, one in team.items()}
        people = {"Lead": Member(role="lead"), "owner": Member(role="user", more='aliases = ["user"]')}
        rows = ",\n  ".join(self._row(name, one) for name, one in (people | members).items())
        config = f'''[project]
base = "main"
[team]
members = [
  {rows},
]
[policy]
{policy}
[run]
network = false
read = ["{self.scripts}"]
write = ["{self.notes}"]
environment = {IDENTITY}
sandbox = "{sandbox}"
{run}
{gates}
{more}'''
        self.repository = machine.repository(config=config)

    def _row(self, name: str, member: Member) -> str:
        words = [f'name = "{name}"', f'role = "{member.role}"', *filter(None, [member.more])]
        if member.script:
            words.append(f'command = ["{self.write(name, member.script)}"]')
        return f"{{{', '.join(words)}}}"

    def write(self, name: str, script: str) -> Path:
        """Writes an agent's script; gives its path."""
        path = self.scripts / name
        fresh = path.with_suffix(".new")
        fresh.write_text(PREAMBLE.format(notes=self.notes) + script)
        fresh.chmod(0o755)
        fresh.replace(path)
        return path

    # What has happened.

    def events(self, name: str = "", task: str = "") -> list[Event]:
        """What the log tells, read without any of the product's own code."""
        found = list(read_log(self.repository.events))
        if name:
            found = [one for one in found if one["event"] == name]
        return [one for one in found if one.get("task_id") == task] if task else found

    def wait(self, name: str, task: str = "", count: int = 1) -> Event:
        """Waits until something has happened so often; gives the last one."""
        what = f"{count} × {name} {task}"
        found: list[Event] = self.until(
            lambda: found if len(found := self.events(name, task)) >= count else [], what
        )
        return found[-1]

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Waits as long as a busy machine may take; what happened instead is told."""
        deadline = time.monotonic() + PATIENCE
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come\n{self.told()}")
            time.sleep(PAUSE)
        return found

    def told(self) -> str:
        """What happened and what the schedulers said, for whoever looks for a fault."""
        short = [
            {key: value for key, value in one.items() if key not in ("meta", "verdict")}
            for one in self.events()
        ]
        said = [path.read_text(errors="replace")[-3000:] for path in self.machine.folder.glob("said.*")]
        notes = {path.name: path.read_text(errors="replace")[-300:] for path in self.notes.iterdir()}
        return "\n".join([*map(str, short[-40:]), *said, str(notes)])

    def noted(self, name: str) -> str:
        """What agents have noted under a name; empty when nothing."""
        path = self.notes / name
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for_note(self, name: str) -> str:
        """Waits until an agent has noted something; gives it."""
        self.until(lambda: self.noted(name).endswith("\n"), f"the note {name}")
        return self.noted(name).strip()

    def let_go(self) -> None:
        """Lets those agents go on that wait until they are let."""
        (self.notes / "go").touch()

    # What people do.

    def add(self, title: str = "Mend the roof", *options: str) -> str:
        """Writes a task down."""
        return self.repository.add(title, *options)

    def approve(self, task: str, count: int = 1) -> None:
        """Waits until work was handed in so often, and has the lead approve the last."""
        handed_in = self.wait("task.submit", task, count)
        self.repository.ok("review", "approve", task, "--as", "Lead", "--commit", handed_in["commit"])

    def reject(self, task: str, finding: str, count: int = 1) -> Event:
        """Waits until work was handed in so often, and has the lead reject the last."""
        handed_in = self.wait("task.submit", task, count)
        words = ("review", "reject", task, "--as", "Lead", "--commit", handed_in["commit"])
        self.repository.ok(*words, "--finding", finding)
        return handed_in

    def shown(self, task: str) -> dict[str, Any]:
        """A task as it is now."""
        shown: dict[str, Any] = self.repository.ok("task", "show", task)
        return shown

    # What must hold, whatever happens.

    def check(self) -> None:
        """Holds that nobody was ever at work twice on a task, and that the ledger is sound."""
        assert not self.noted("twice"), self.told()
        assert self.repository.verify() == []
        self.repository.check_log()

    def check_worktrees(self, *tasks: str) -> None:
        """Waits until just these tasks have a worktree, of which git knows and which is there."""
        self.until(lambda: self._worktrees() == (set(tasks), set(tasks)), f"worktrees of {tasks} alone")

    def _worktrees(self) -> tuple[set[str], set[str]]:
        """The tasks that git knows a worktree of, and those whose folder is there."""
        known = {os.path.basename(path) for path in self.repository.worktrees()}
        (folder,) = self.machine.state.glob("remand/*/worktrees")
        return known, {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def read_log(folder: Path) -> Iterator[Event]:
    """Every event in the files of a folder, in the order they were written in; a line being written is not there yet."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            if line and not line.startswith(b'{"event":"log.sign"'):
                yield json.loads(line)


class Scheduler:
    """`remand run` in a process of its own."""

    def __init__(self, office: Office, *options: str) -> None:
        self._office = office
        count = len(list(office.machine.folder.glob("said.*")))
        self._said = office.machine.folder / f"said.{count}"
        self._process = office.machine.start(
            office.repository.path,
            *("/bin/sh", "-c", 'log=$1; shift; exec "$0" run --plain "$@" >"$log" 2>&1'),
            *(REMAND, str(self._said), *options),
        )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def said(self) -> str:
        """What it has said so far."""
        return self._said.read_text(errors="replace") if self._said.exists() else ""

    def wait(self) -> int:
        """Waits for its end; gives the exit code."""
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the scheduler does not end\n{self._office.told()}") from None

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Asks it to end once it hears, and holds that it ends in order."""
        self._office.until(lambda: HEARS in self.said or self._process.poll() is not None, "the scheduler")
        self._process.send_signal(number)
        code = self.wait()
        assert code == 0, f"exit {code}\n{self.said}\n{self._office.told()}"
        assert "Traceback" not in self.said, self.said

    def kill(self) -> None:
        """Kills it alone, as a crash would."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends it with all it started, however it is."""
        end(self._process)

    def status(self) -> dict[str, Any]:
        """What it says of itself to whoever looks on; nothing before it has said something."""
        shown = self._office.repository.ok("top")
        found: dict[str, Any] = shown["scheduler"] or {}
        return found
