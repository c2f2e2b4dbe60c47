"""The environment of the demo:

a repository and its processes, its events as they are written, and the lines printed about them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, NoReturn

from remand.app.analysis.work_report import rejection_entry
from remand.app.history.activity import event_text
from remand.config import inherited_environment
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationOpened, LockoutSet, ReviewApproved, TaskReassigned
from remand.domain.events.tasks import (
    RejectionAnswered,
    TaskCancelled,
    TaskDeferred,
    TaskSettled,
    TaskSubmitted,
    TaskWoken,
)
from remand.domain.events.work import How, Purpose, RunEnded, RunStarted
from remand.domain.evolve import evolve
from remand.domain.task import Status, Task
from remand.ledger import codec
from remand.ledger.order import order_key
from remand.startup import COMMAND_LINE


class DemoFailure(Exception):  # noqa: N818 - a rule is broken, and the story ends there
    """Something happened against the rules."""


class DemoLine(NamedTuple):
    """One line of the story."""

    kind: str
    """Who rejects (`agent`, `gate`, `reviewer`), or `asked`, `done`, `cancelled`; empty for everything else."""
    title: str
    who: str
    text: str


class DemoPrinter(NamedTuple):
    """Prints lines; silent with `--json`."""

    heading: Callable[[str], None]
    say: Callable[[str], None]
    tell: Callable[[DemoLine], None]


def fail(why: str) -> NoReturn:
    """Ends the story: a rule is broken."""
    raise DemoFailure(why)


def expect(answer: dict[str, Any], key: str, value: object) -> None:
    """Checks the story against the rules."""
    if answer.get(key) != value:
        fail(f"expected {key}={value}, got {answer}")


POLL_SECONDS = 0.1


class ObservedEvent(NamedTuple):
    """An event, and its task after it."""

    event: Event
    task: Task


class EventWatcher:
    """Reads new events from the event files, which are the truth and public."""

    def __init__(self, repository: str) -> None:
        self._folder = os.path.join(repository, ".got", "events")
        self._read: dict[str, int] = {}
        self.tasks: dict[str, Task] = {}

    def news(self) -> Iterator[ObservedEvent]:
        """The events since the last call."""
        events = sorted((codec.decode_stored_line(line) for line in self._lines()), key=order_key)
        for event in events:
            name = event_task_id(event)
            task = evolve(self.tasks.get(name), event)
            if task is not None:
                self.tasks[name] = task
                yield ObservedEvent(event, task)

    def wait(self) -> None:
        """Waits a moment before the next look."""
        time.sleep(POLL_SECONDS)

    @property
    def is_over(self) -> bool:
        """True if there were tasks, all have ended, and nobody is working."""
        return bool(self.tasks) and all(task.is_terminal and not task.runs for task in self.tasks.values())

    def _lines(self) -> list[bytes]:
        found: list[bytes] = []
        for name in sorted(os.listdir(self._folder)) if os.path.isdir(self._folder) else ():
            with open(os.path.join(self._folder, name), "rb") as file:
                file.seek(self._read.get(name, 0))
                whole = file.read().rpartition(b"\n")[0]
            if whole:
                self._read[name] = self._read.get(name, 0) + len(whole) + 1
                found += whole.split(b"\n")
        return found


QUOTED = "|"
"""The prefix of a line that an agent quotes."""


class Narrator:
    """Turns events into lines. An agent's words appear when its session has ended."""

    def __init__(self, log_of: Callable[[str], str]) -> None:
        self._log_of = log_of
        self._begun: set[tuple[str, str]] = set()

    def lines(self, observed: ObservedEvent) -> Iterator[DemoLine]:
        """The lines about an event; most events have none."""
        event, task = observed.event, observed.task
        no = rejection_entry(event)
        if no is not None:
            yield DemoLine(no.kind, task.title, no.by, no.why)
        elif isinstance(event, RunStarted) and event.purpose == Purpose.WORK:
            yield DemoLine("", task.title, event.agent, self._start_text(event))
        elif isinstance(event, RunEnded):
            yield from self._end_lines(event, task.title)
        elif type(event) in _LINE_BUILDERS:
            kind, who, text = _LINE_BUILDERS[type(event)](event, task)
            yield DemoLine(kind, task.title, who, text)

    def _start_text(self, event: RunStarted) -> str:
        known = (event.task_id, event.agent) in self._begun
        self._begun.add((event.task_id, event.agent))
        return "continues with the guidance" if known else "begins"

    def _end_lines(self, event: RunEnded, title: str) -> Iterator[DemoLine]:
        if event.is_fault or event.how == How.LOST:
            why = f"failed: {event.detail}" if event.is_fault else "was lost with the scheduler"
            yield DemoLine("", title, event.agent, f"{why} (nobody is to blame; it will be retried)")
            return
        for line in self._log_of(event.run_id).splitlines():
            if line and not line.startswith("{"):
                yield DemoLine("", title, event.agent, line if line.startswith(QUOTED) else f"“{line}”")


LineParts = tuple[str, str, str]
"""A line's kind, who, and what."""


def _approval_line(event: ReviewApproved, task: Task) -> LineParts:
    looked = "; ".join(f"{finding.path}:{finding.line}: {finding.text}" for finding in event.checked[:1])
    kind = "done" if task.status == Status.DONE else ""
    return kind, event.reviewer, f"approved by {event.reviewer}: {looked}"


_LINE_BUILDERS: dict[type[Event], Callable[[Any, Task], LineParts]] = {
    TaskSubmitted: lambda event, task: (
        "",
        event.agent,
        f"submitted {event.commit[:8]}: {'there are no gates' if task.gates.tier in ('', 'none') else 'the gates pass it'}",
    ),
    LockoutSet: lambda event, _: ("", event.agent, "is locked out of it"),
    TaskReassigned: lambda event, _: ("", event.target, f"takes over: {event.reason}"),
    RejectionAnswered: lambda event, _: (
        "",
        "director",
        f"{event.decision.decision_type}: {event.decision.rationale}",
    ),
    TaskDeferred: lambda event, _: ("", "", event_text(event)),
    TaskWoken: lambda event, _: ("", "", event_text(event)),
    EscalationOpened: lambda event, _: ("asked", "", event.reason),
    ReviewApproved: _approval_line,
    TaskSettled: lambda *_: ("done", "", "all of its sub-tasks are"),
    TaskCancelled: lambda event, _: ("cancelled", "", event.reason),
}
"""How to describe an event in one line, for the events that have one."""


END_SECONDS = 20.0
OWNER = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "owner"), ("EMAIL", "owner@demo"))
}


class DemoDashboard(NamedTuple):
    """A running server, and its address."""

    process: subprocess.Popen[str]
    url: str
    login_url: str
    """Logs the user in, once."""


class DemoEnvironment:
    """A folder with a repository. Everything that runs there has its home and all its folders in it."""

    def __init__(self, folder: str, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.repository = os.path.join(folder, "repository")
        self._say = say
        # A socket's path is short, so its folder is not where the repository may be kept.
        self._sockets = tempfile.mkdtemp(prefix="remand-demo-run-")
        own = {name: os.path.join(folder, name) for name in ("home", "state", "tmp")}
        for path in (self.repository, *own.values()):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self._environment = inherited_environment("REMAND_", "GIT_", "XDG_", "CLAUDE") | {
            "HOME": own["home"],
            "TMPDIR": own["tmp"],
            "XDG_STATE_HOME": own["state"],
            "XDG_RUNTIME_DIR": self._sockets,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "REMAND_COORDINATOR": "off",  # nothing outlives the demo
            **OWNER,
        }
        self._scheduler: subprocess.Popen[str] | None = None

    def git(self, *arguments: str, folder: str = "") -> str:
        process = subprocess.run(
            ["git", *arguments],
            cwd=folder or self.repository,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return process.stdout.strip()

    def remand(self, *arguments: str, folder: str = "", is_quiet: bool = False) -> Any:
        """Runs the command line, prints the call, and returns its answer."""
        if not is_quiet:
            words = (f'"{word}"' if " " in word or "#" in word else word for word in arguments)
            self._say("$ remand " + " ".join(words))
        process = subprocess.run(
            [*COMMAND_LINE, *arguments, "--json"],
            cwd=folder or self.repository,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if not process.stdout:
            fail(f"remand {' '.join(arguments)} says nothing but {process.stderr}")
        return json.loads(process.stdout)

    def write(self, files: dict[str, str]) -> None:
        """Writes files of the repository, and stages them in git."""
        for name, text in files.items():
            path = os.path.join(self.repository, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self.git("add", "--", *files)

    def read(self, name: str) -> str:
        """The content of a file of the repository."""
        with open(os.path.join(self.repository, name), encoding="utf-8") as file:
            return file.read()

    def log_of(self, run_id: str) -> str:
        """An agent's output in a run."""
        state = os.path.join(self.folder, "state", "remand")
        for ledger in os.listdir(state):
            with (
                suppress(OSError),
                open(os.path.join(state, ledger, "logs", f"{run_id}.log"), encoding="utf-8") as log,
            ):
                return log.read()
        return ""

    def start_scheduler(self) -> None:
        self._say("$ remand run")
        with open(os.path.join(self.folder, "scheduler.log"), "a", encoding="utf-8") as log:
            self._scheduler = subprocess.Popen(
                [*COMMAND_LINE, "run", "--json"],
                cwd=self.repository,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def kill_scheduler(self) -> None:
        if self._scheduler is not None:
            self._say(f"$ kill -9 {self._scheduler.pid}")
            self._scheduler.send_signal(signal.SIGKILL)
            self._scheduler.wait()

    def stop_scheduler(self) -> None:
        """Asks it to stop, and kills it if it does not."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is None or scheduler.poll() is not None:
            return
        scheduler.terminate()
        try:
            scheduler.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            scheduler.kill()
            scheduler.wait()

    @property
    def scheduler_failure(self) -> str:
        """Why the scheduler has ended; empty while it runs."""
        if self._scheduler is None or self._scheduler.poll() is None:
            return ""
        with open(os.path.join(self.folder, "scheduler.log"), encoding="utf-8") as log:
            return f"the scheduler ended with {self._scheduler.returncode}: {log.read()[-500:]}"

    def ask_the_user(self) -> None:
        """Leaves a question in the inbox, so that there is one to answer on the dashboard."""
        added = self.remand("task", "add", "Choose the payment provider", is_quiet=True)
        reason = "Two providers fit the order API. Which one do we use?"
        self.remand("escalate", added["task_id"], "--reason", reason, is_quiet=True)

    @contextmanager
    def dashboard(self) -> Iterator[DemoDashboard]:
        """A server of the repository's pages, for as long as it is used."""
        with subprocess.Popen(
            [*COMMAND_LINE, "serve", "--port", "0", "--no-open", "--json"],
            cwd=self.repository,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as server:
            try:
                line = server.stdout.readline() if server.stdout else ""
                if not line:
                    fail("the dashboard does not start")
                address = json.loads(line)
                yield DemoDashboard(server, address["url"], address["login_url"])
            finally:
                server.terminate()

    def close(self) -> None:
        """Ends everything that is still running."""
        self.stop_scheduler()
        shutil.rmtree(self._sockets, ignore_errors=True)
