"""Kills whoever runs a gate, at any moment: nothing of the gate lives on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remand.adapters.sandbox.sandboxes import find_bubblewrap
from tests.integration.agent_launchers import eventually
from tests.integration.sandboxes import KINDS, marked, sandbox_of

Campaign = Callable[[int, int], int]

OWNER = """
import os, sys, threading
from remand.adapters.sandbox import connections, sandboxes
from remand.app.gates.ports import Job, JobLimits as Limits

kind, mark, folder, count, gate, *program = sys.argv[1:]
if program:
    with open(program[0] + ".owner", "w") as file:
        file.write(str(os.getpid()))
if kind == "bubblewrap":
    sandbox = sandboxes.BubblewrapSandbox(program[0] if program else sandboxes.find_bubblewrap())
else:
    real = connections.launcher_command
    connections.launcher_command = lambda *ends: [*program, *real(*ends)[len(program):]]
    sandbox = sandboxes.PlainSandbox() if kind == "plain" else sandboxes.LandlockSandbox()
job = Job(
    command=("/bin/sh", "-c", gate, mark), folder=folder, environment={"MARK": mark}, limits=Limits(processes=64)
)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(count)):
    threading.Thread(target=sandbox.run, args=(job,), daemon=True).start()
threading.Event().wait()
"""

# It is deaf, says that it began, leaves a daemon behind, and does not end.
GATE = "trap '' HUP INT TERM; echo > begun.$$; setsid sleep 1000 & sleep 1000; sleep 1000"


@contextmanager
def owning(
    kind: str, folder: Path, mark: str, *program: str, count: int = 1, gate: str = GATE
) -> Iterator[subprocess.Popen[str]]:
    """A process that runs gates."""
    sandbox_of(kind)
    command = [sys.executable, "-c", OWNER, kind, mark, str(folder), str(count), gate, *program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        owner.stdin.write("go\n")
        owner.stdin.flush()
        yield owner


@pytest.mark.parametrize("kind", KINDS)
def test_no_gate_outlives_an_owner_that_is_killed_at_any_moment(
    kind: str, tmp_path: Path, campaign: Campaign
) -> None:
    for number in range(campaign(3, 150)):
        mark = os.urandom(16).hex()
        with owning(kind, tmp_path, mark, count=6) as owner:
            eventually(lambda mark=mark: marked(mark))
            time.sleep(number * 0.0137 % 0.25)
            owner.kill()
        eventually(lambda mark=mark: marked(mark) == [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_that_runs_ends_with_its_owner_and_so_does_all_it_has_started(
    kind: str, tmp_path: Path
) -> None:
    mark = os.urandom(16).hex()
    with owning(kind, tmp_path, mark) as owner:
        eventually(lambda: list(tmp_path.glob("begun.*")))
        eventually(lambda: len([line for line in marked(mark) if line.startswith("sleep")]) == 2)
        owner.kill()

    eventually(lambda: marked(mark) == [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_that_multiplies_ends_with_its_owner(kind: str, tmp_path: Path) -> None:
    mark = os.urandom(16).hex()
    bomb = "bomb() { echo > begun; bomb | bomb & }; bomb; sleep 1000"
    with owning(kind, tmp_path, mark, gate=bomb) as owner:
        eventually(lambda: list(tmp_path.glob("begun")))
        owner.kill()

    eventually(lambda: marked(mark) == [])


# Kills whoever runs the gate before what launches the gate has begun.
EARLY = """#!/bin/sh
[ "$1" = --help ] || kill -9 "$(cat "$0.owner")"
exec {program} "$@"
"""

# Kills whoever runs the gate while the inner half of bubblewrap is held at some point of its set-up.
HALFWAY = """#!{python} -IS
import os, signal, sys, time
if "--help" not in sys.argv and os.fork() == 0:
    if os.fork():
        os._exit(0)
    keeper, owner = os.getpgrp(), int(open(sys.argv[0] + ".owner").read())
    for descriptor in range(64):
        os.close(descriptor) if os.path.exists(f"/proc/self/fd/{{descriptor}}") else None
    os.setsid()
    inner = ""
    while not inner and os.path.exists(f"/proc/{{keeper}}"):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if f"NSpid:\\t{{name}}\\t1\\n" in open(f"/proc/{{name}}/status").read():
                    line = open(f"/proc/{{name}}/cmdline").read()
                    inner = name if {mark!r} in line else inner
            except OSError:
                pass
    os.kill(int(inner), signal.SIGSTOP)
    os.kill(owner, signal.SIGKILL)
    while os.path.exists(f"/proc/{{owner}}/exe"):
        time.sleep(0.01)
    os.kill(int(inner), signal.SIGCONT)
    os._exit(0)
os.execv({program!r}, [{program!r}, *sys.argv[1:]])
"""


def program_of(tmp_path: Path, text: str) -> str:
    """A program that does what it is to, and is the real one then."""
    program = tmp_path / "program"
    program.write_text(text)
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_does_not_begin_whose_owner_died_before_it_was_bound_to_it(kind: str, tmp_path: Path) -> None:
    mark = os.urandom(16).hex()
    real = find_bubblewrap() if kind == "bubblewrap" else sys.executable
    program = program_of(tmp_path, EARLY.format(program=real))

    with owning(kind, tmp_path, mark, program) as owner:
        assert owner.wait() == -9

    eventually(lambda: marked(mark) == [])
    assert not list(tmp_path.glob("begun.*"))


def test_a_gate_does_not_begin_whose_owner_died_while_its_sandbox_was_made(tmp_path: Path) -> None:
    mark = os.urandom(16).hex()
    text = HALFWAY.format(python=sys.executable, mark=mark, program=find_bubblewrap())

    with owning("bubblewrap", tmp_path, mark, program_of(tmp_path, text)) as owner:
        assert owner.wait() == -9

    eventually(lambda: marked(mark) == [])
