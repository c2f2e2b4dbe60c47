"""A repository whose work goes to a forge: real git with a real remote, a real ledger, a fake forge over real HTTP."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from remand.adapters.system.machine import SystemClock
from remand.config.services import TOKENS
from remand.domain.forge import PullState, ReviewState
from tests.integration.forge_reviews import CONFIG, Spoken
from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, Said
from tests.support.forge.actions import RepositoryActions
from tests.support.forge.server import Dialect, Fault, ForgeServer, HttpAnswer, HttpRequest
from tests.support.forge.state import TOKEN, ForgeState, Person, StoredIssue, StoredPull

POLICY = """
remote = "{remote}"
import_label = "remand"

[policy]
open_pr = true
request_review = true
merge_on_approve = true
"""


class DeadlyServer(ForgeServer):
    """A forge that ends the process that asks it, at a chosen request, before or after it has done what was asked."""

    def __init__(self, state: ForgeState, *dialects: Dialect) -> None:
        super().__init__(*dialects)
        self._actions = RepositoryActions(state)
        self.victim = 0
        self.fatal = -1
        self.is_after = False

    def answer(self, request: HttpRequest) -> tuple[HttpAnswer, Fault | None]:
        """The answer, should anybody live to read it."""
        is_fatal = self.victim and len(self.requests) == self.fatal
        if is_fatal and not self.is_after:
            self._strike()
            return HttpAnswer(500), None
        self._actions.sync_branches()
        found = super().answer(request)
        if is_fatal:
            self._strike()
        return found

    def _strike(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.victim, signal.SIGKILL)
        self.victim = 0


class Yard(NamedTuple):
    """The repository, its remote, the forge, and who is there."""

    kind: str
    repository: Repository
    remote: Path
    server: DeadlyServer
    state: ForgeState
    lead: Person
    environment: dict[str, str]

    def report(self, title: str = "It leaks", text: str = "") -> StoredIssue:
        """The lead opens an issue that is to become a task."""
        return self.state.report(self.lead, title, text, "remand", "priority: high")

    def hand_in(
        self, task: str, agent: str = "Fenster", name: str = "roof", branch: str = "work/roof"
    ) -> str:
        """An agent claims, works on a branch and hands in; returns the commit."""
        repository = self.repository
        repository.ok("task", "claim", task, "--agent", agent)
        repository.ok("task", "prompt", task, "--agent", agent)
        is_there = repository.git("branch", "--list", branch).strip()
        repository.git("checkout", "-q", *((branch,) if is_there else ("-b", branch, "main")))
        head = repository.commit(f"{name}.txt", name)
        repository.git("checkout", "-q", "main")
        repository.ok("task", "submit", task, "--agent", agent, "--commit", head, "--branch", branch)
        return head

    def sync(self, *options: str) -> Any:
        """One round, whatever comes of it; what was given up or waits is tried again."""
        self.forget_patience()
        return self.repository.call("sync", "--again", *options).data

    def round(self) -> Said:
        """One round by a process of its own, which may be killed in it."""
        process = self.repository.machine.start(
            self.repository.path, REMAND, "sync", "--again", "--json", env=self.environment
        )
        self.server.victim = process.pid
        out, err = process.communicate(timeout=PATIENCE)
        self.server.victim = 0
        return Said(process.returncode, out, err)

    def shown(self, task: str) -> Any:
        """The task as it is."""
        return self.repository.ok("task", "show", task)

    def forget_patience(self) -> None:
        """Lets the forge be asked again at once, though it asked for patience."""
        for path in self.repository.machine.state.glob("remand/forges/*/answers/*"):
            path.unlink()

    @property
    def pull(self) -> StoredPull:
        """The one pull request there is."""
        (found,) = self.state.pulls.values()
        return found

    def approve(self, pull: StoredPull | None = None) -> None:
        """The lead approves on the forge what is there."""
        RepositoryActions(self.state).sync_branches()
        self.state.review(pull or self.pull, self.lead, ReviewState.APPROVED, "Fine.")

    def tip(self, branch: str = "work/roof") -> str:
        """Where a branch is on the remote."""
        asked = ("rev-parse", "-q", "--verify", f"refs/heads/{branch}")
        return self.repository.machine.git(self.remote, *asked, check=False).strip()

    def require_one_of_each(
        self, task: str, issue: StoredIssue, head: str, branch: str = "work/roof"
    ) -> None:
        """Fails unless there is one pull request of the branch, merged once at the head, and the issue closed once."""
        (pull,) = [one for one in self.state.pulls.values() if one.branch == branch]
        merges = [commit for number, commit in self.state.merges if number == pull.number]
        assert (pull.state, merges) == (PullState.MERGED, [head])
        assert (issue.is_open, len(issue.remarks)) == (False, 1)
        shown = self.shown(task)
        assert (shown["status"], shown["pr"], shown["waits_for_forge"]) == ("done", pull.number, None)
        outcomes = [row["act"] for row in shown["history"] if row["event"] == "forge.done"]
        assert sorted(outcomes) == sorted(["push", "open", "request", "merge", "close"])
        assert self.repository.verify() == []


@contextmanager
def yard(
    machine: Machine,
    spoken: Spoken,
    setenv: Callable[[str, str], None],
    policy: str = POLICY,
    name: str = "repo",
) -> Iterator[Yard]:
    """A repository, its remote and its forge, where times are those of now."""
    state = ForgeState()
    state.now = SystemClock().now()
    lead = state.person("lead", "write")
    remote = machine.folder / f"{name}.git"
    with DeadlyServer(state, spoken.dialect(state)) as server:
        config = CONFIG.format(kind=spoken.kind, api=server.url, report="[]") + policy.format(remote="origin")
        repository = machine.repository(name, config)
        machine.git(machine.folder, "clone", "-q", "--bare", str(repository.path), str(remote))
        repository.git("remote", "add", "origin", str(remote))
        state.settings.repository = str(remote)
        environment = {TOKENS[spoken.kind]: TOKEN}
        for variable, value in environment.items():
            setenv(variable, value)
        yield Yard(spoken.kind, repository, remote, server, state, lead, environment)
