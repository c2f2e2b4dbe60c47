"""The stop hook from start to end, installed as people install it, beside an empty Python: processor time."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

from benchmarks.cli import EMPTY, install
from benchmarks.measure import Operation, interleaved, processor_time
from benchmarks.report import Report, figure, millis
from benchmarks.scratch import coordinator

ALONE, SERVED = "hook, unchanged tree", "hook, unchanged tree, coordinator"
ELSEWHERE, OTHER = "hook, repository without a ledger", "hook, session that is not ours"
CONFIG = """\
[project]
base = "main"

[gates.lint]
command = ["sh", "-c", "echo wrong; exit 1"]
parser = "exit"
mode = "strict"

[policy]
alert_after_gates = 100000
escalate_after_gates = 100000
"""


def run(report: Report) -> None:
    """Prints the table."""
    report.heading("The stop hook, with a verdict known before")
    bin_folder = install(os.path.join(report.folder, "hook"))
    python, remand = os.path.join(bin_folder, "python"), os.path.join(bin_folder, "remand")
    alone, served = (_Place(report, remand, name) for name in ("alone", "served"))
    plain = os.path.join(report.folder, "plain")
    _git(report.folder, "init", "-q", "-b", "main", plain)
    with ExitStack() as stack:
        stack.enter_context(coordinator(served.repo, (remand,)))
        operations = {
            EMPTY: _calling([python, "-I", "-S", "-c", "pass"], {}, b"", blocks=False),
            ELSEWHERE: _calling([remand, *HOOK], {}, _payload(plain), blocks=False),
            OTHER: _calling([remand, *HOOK], {}, _payload(alone.repo), blocks=False),
            ALONE: alone.calling(),
            SERVED: served.calling(),
        }
        times = interleaved(operations, report.scale.calls, report.quiet())
    base = times[EMPTY].p50
    report.table(
        ("call", "p50 ms", "p99 ms", f"CPU / {EMPTY}"),
        [(name, millis(one.p50), millis(one.p99), figure(one.p50 / base)) for name, one in times.items()],
    )
    for name, most in ((ALONE, 6), (SERVED, 2), (ELSEWHERE, 3), (OTHER, 3)):
        report.goal(f"{name}, CPU / {EMPTY}", times[name].p50 / base, most=most)


HOOK = ("hook", "--host", "claude", "stop")


class _Place:
    """A repository with a task that was measured and rejected once."""

    def __init__(self, report: Report, remand: str, name: str) -> None:
        self._remand = remand
        self._turn = 0
        self.repo = os.path.join(report.folder, f"hook-{name}")
        os.makedirs(self.repo)
        _git(self.repo, "init", "-q", "-b", "main")
        Path(self.repo, "remand.toml").write_text(CONFIG, encoding="utf-8")
        _commit(self.repo, "start")
        self.task = self._said("task", "add", "Roof")["task_id"]
        self._said("task", "claim", self.task, "--agent", "Alice")
        _git(self.repo, "checkout", "-q", "-b", "work")
        Path(self.repo, "roof").write_text("roof\n", encoding="utf-8")
        _commit(self.repo, "roof")
        self._said("task", "submit", self.task, "--agent", "Alice", "--commit", "HEAD")

    def _said(self, *words: str) -> dict[str, str]:
        done = subprocess.run(
            [self._remand, "-C", self.repo, *words, "--json"], capture_output=True, check=False
        )
        found: dict[str, str] = json.loads(done.stdout)
        return found

    def calling(self) -> Operation:
        """A stop at the tree that was rejected before: each one counts, and is answered with the figures."""
        environment = {"REMAND_TASK": self.task, "REMAND_ACTOR": "Alice"}

        def start() -> None:
            self._turn += 1
            _call([self._remand, *HOOK], environment, _payload(self.repo, self._turn), blocks=True)

        return processor_time(start)


def _payload(folder: str, turn: int = 0) -> bytes:
    words = {"session_id": "s", "prompt_id": f"p{turn}", "cwd": folder, "hook_event_name": "Stop"}
    return json.dumps(words).encode()


def _calling(command: list[str], environment: dict[str, str], given: bytes, *, blocks: bool) -> Operation:
    return processor_time(lambda: _call(command, environment, given, blocks=blocks))


def _call(command: list[str], environment: dict[str, str], given: bytes, *, blocks: bool) -> None:
    done = subprocess.run(
        command, input=given, env=os.environ | environment, capture_output=True, check=False
    )
    if done.returncode or (b"REJECTED" in done.stdout) != blocks:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-300:]!r} {done.stderr[-300:]!r}")


def _commit(repo: str, message: str) -> None:
    _git(repo, "add", "-A", ":!.got")
    _git(repo, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", message)


def _git(folder: str, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
