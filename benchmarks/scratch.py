"""Folders, repositories, ledgers and coordinators for one run, gone when it ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from remand.app.ledger import Ledger
from remand.app.requests import Acceptance, Answer, Request
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.wiring.ledger import find_place, open_ledger
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import find_socket

SCOPE = (
    "The roof leaks over the kitchen since the storm. Take off the broken tiles, look at the battens below, "
    "mend what is rotten, and lay new tiles. Leave the gutter as it is; somebody else sees to that. "
)
_BATCH = 1000
_PATIENCE = 20.0


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A folder on the real disk. The state that Remand keeps outside repositories goes there, too."""
    folder = tempfile.mkdtemp(prefix="rb-", dir=os.environ.get("REMAND_BENCH_DIR", tempfile.gettempdir()))
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        os.environ[name] = os.path.join(folder, name[4].lower())
        os.mkdir(os.environ[name], 0o700)
    os.environ["REMAND_COORDINATOR"] = "off"  # a benchmark that is about one starts it
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def repository(folder: str) -> str:
    """Makes an empty git repository."""
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    return folder


def new_ledger(folder: str) -> OpenLedger:
    """Makes a repository with an empty ledger."""
    return open_ledger(repository(folder))


def events_folder(repo: str) -> str:
    """Where a repository's event files are; made when it is missing."""
    path = os.path.join(repo, ".got", "events")
    os.makedirs(path, exist_ok=True)
    return path


@contextmanager
def coordinator(
    repo: str, remand: Sequence[str] = (sys.executable, "-m", "remand.interfaces.cli.entry")
) -> Iterator[str]:
    """Runs a coordinator for a repository's ledger; gives its socket."""
    process = subprocess.Popen(
        [*remand, "-C", repo, "serve", "--no-http"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield _socket(repo, process)
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _socket(repo: str, process: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        path = find_socket(find_place(repo))
        if path:
            return path
        time.sleep(0.02)
    said = process.communicate(timeout=5)[1] if process.poll() is not None else b""
    raise RuntimeError(f"no coordinator for {repo}: {said.decode(errors='replace')[-500:]}")


def adding(count: int) -> list[Request]:
    """Asks for tasks of a usual size, of every priority."""
    levels = ("medium", "low", "high", "medium")
    return [
        Request(
            command=c.AddTask(title=f"Mend roof {n}", scope=SCOPE, priority=levels[n % 4]),
            actor=USER,
            branch="main",
        )
        for n in range(count)
    ]


def ask_all(ledger: Ledger, requests: Sequence[Request]) -> list[Acceptance]:
    """Asks in large batches; every ask must be accepted."""
    answers: list[Answer] = []
    for start in range(0, len(requests), _BATCH):
        answers += ledger.ask_all(requests[start : start + _BATCH])
    return [accepted(answer) for answer in answers]


def accepted(answer: Answer) -> Acceptance:
    """The answer, when it is no refusal."""
    if not isinstance(answer, Acceptance):
        raise TypeError(f"refused: {answer.code}: {answer.message}")
    return answer


def locking_out(task_ids: Sequence[str], agents: Sequence[str]) -> list[Request]:
    """Asks that keep one agent away from each task, in turn."""
    return [
        Request(
            command=c.LockOut(task_id=task_id, agent=agents[n % len(agents)], reason="The roof leaks again."),
            actor=USER,
            branch="main",
        )
        for n, task_id in enumerate(task_ids)
    ]


@contextmanager
def server_address(command: Sequence[str]) -> Iterator[str]:
    """Runs a server that prints its address as JSON; gives that."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"no server: {process.communicate(timeout=20)[1].decode(errors='replace')[-500:]}"
            )
        yield json.loads(line)["url"]
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
