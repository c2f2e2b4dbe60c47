"""A repository whose agents are a small script, and `remand run` over it, for one measurement."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benchmarks.scratch import repository
from remand.adapters.coordinator import protocol
from remand.adapters.coordinator.protocol import Connection
from remand.adapters.coordinator.server import is_listening
from remand.wiring.ledger import find_place
from remand.wiring.startup import find_socket

REMAND = (sys.executable, "-m", "remand.interfaces.cli.entry")
PATIENCE = 7200.0
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
SCRIPT = """#!/bin/bash
echo "$EPOCHREALTIME $REMAND_TASK" >>'{notes}/started'
sleep {seconds}
echo "$REMAND_TASK $EPOCHREALTIME" >work.txt
git add work.txt && git commit -q -m work
"""
_PERSON = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Somebody"), ("EMAIL", "somebody@example.org"))
}


class Office:
    """The repository, its ledger and its scheduler."""

    def __init__(self, folder: str, *, agents: int, sandbox: str, seconds: float = 0.0) -> None:
        os.makedirs(os.path.join(folder, "notes"))
        self.folder = folder
        self.notes = os.path.join(folder, "notes")
        self.repo = repository(os.path.join(folder, "repo"))
        self.environment = dict(os.environ) | _PERSON | {"HOME": folder}
        path = os.path.join(folder, "agent")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SCRIPT.replace("{notes}", self.notes).replace("{seconds}", str(seconds)))
        os.chmod(path, 0o755)
        with open(os.path.join(self.repo, "remand.toml"), "w", encoding="utf-8") as file:
            file.write(self._config(path, agents, sandbox))
        for words in (("add", "-A"), ("commit", "-q", "-m", "base")):
            subprocess.run(["git", *words], cwd=self.repo, env=self.environment, check=True)
        self.pid = 0

    def _config(self, agent: str, agents: int, sandbox: str) -> str:
        command = f'role = "agent", command = ["{agent}"]'
        rows = "".join(f'  {{name = "Agent{number}", {command}}},\n' for number in range(agents))
        return f"""[gates]
[team]
members = [
{rows}  {{name = "Lead", role = "lead"}},
  {{name = "Visitor", role = "agent", skills = ["visiting"]}},
  {{name = "owner", role = "user", aliases = ["user"]}},
]
[policy]
max_waiting_reviews = 100000
[run]
network = false
read = ["{agent}"]
write = ["{self.notes}"]
environment = {json.dumps(list(_PERSON))}
sandbox = "{sandbox}"
"""

    @contextmanager
    def scheduler(self) -> Iterator[None]:
        """Runs a scheduler, and with it a coordinator."""
        with open(os.path.join(self.folder, "said"), "ab") as said:
            process = subprocess.Popen(
                [*REMAND, "run", "--plain"],
                cwd=self.repo,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.pid = process.pid
        try:
            until(lambda: is_listening(self._socket()), "the coordinator")
            yield
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _socket(self) -> str:
        return find_socket(find_place(self.repo))

    @property
    def coordinator(self) -> int:
        """The process of the coordinator beside the scheduler."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            if _parent(name) == self.pid and b"serve\0--no-http" in _content(f"/proc/{name}/cmdline"):
                return int(name)
        raise RuntimeError("there is no coordinator beside the scheduler")

    def connected(self) -> Caller:
        """A way to the coordinator."""
        return Caller(self._socket(), self.repo)

    def started(self) -> dict[str, list[float]]:
        """When agents were started, by task: the first thing that each notes."""
        found: dict[str, list[float]] = {}
        for line in _content(os.path.join(self.notes, "started")).decode().splitlines():
            moment, task = line.split()
            found.setdefault(task, []).append(float(moment.replace(",", ".")))
        return found

    def statuses(self) -> Mapping[str, int]:
        """How many tasks there are of each status."""
        counts: dict[str, int] = {}
        for row in self.connected().ok("task", "list"):
            counts[row["status"]] = counts.get(row["status"], 0) + 1
        return counts

    def close(self) -> None:
        """Takes everything away."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Caller:
    """Calls of the command line that the coordinator carries out, without a process for each."""

    def __init__(self, path: str, folder: str) -> None:
        self._connection = Connection(path)
        self._folder = folder

    def call(self, *arguments: str) -> tuple[int, bytes]:
        """The exit code and what was said."""
        frame = protocol.pack_call(self._folder, [""] * 7, ["--json", *arguments])
        code, output, _ = protocol.unpack_result(self._connection.exchange(frame))
        return code, output

    def ok(self, *arguments: str) -> Any:
        """What was answered."""
        code, output = self.call(*arguments)
        if code:
            raise RuntimeError(f"{' '.join(arguments)} → {code}: {output.decode()}")
        return json.loads(output)

    def add(self, title: str, *options: str) -> str:
        """Writes a task down."""
        return str(self.ok("task", "add", title, *options)["task_id"])

    def review(self, verdict: str, task: str, commit: str, *options: str) -> None:
        """Says what the lead thinks."""
        self.ok("--as", "Lead", "review", verdict, task, "--commit", commit, *options)


class Use:
    """What a process has used so far, and what it holds."""

    def __init__(self, process: int) -> None:
        self.process = process

    def cpu(self) -> tuple[float, float]:
        """The seconds of a core that it took itself, and that what it started and waited for took."""
        fields = _content(f"/proc/{self.process}/stat").rpartition(b")")[2].split()
        own, below = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        return own / _CLOCK_TICKS, below / _CLOCK_TICKS

    def memory(self, name: str = "Pss") -> int:
        """The bytes that are its own, shared ones by their share."""
        for line in _content(f"/proc/{self.process}/smaps_rollup").decode().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        return 0


def until(condition: Callable[[], Any], what: str, pause: float = 0.02, patience: float = PATIENCE) -> Any:
    """Waits until something is so."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {patience:.0f} s")
        time.sleep(pause)
    return found


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _parent(process: str) -> int:
    fields = _content(f"/proc/{process}/stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0
