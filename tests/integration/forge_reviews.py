"""A repository whose reviews are given on a forge: real git, a real ledger, a fake forge over real HTTP."""

from __future__ import annotations

import hmac
import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.error import HTTPError

from remand.adapters.system.machine import SystemClock
from remand.app.forge.poll import PollResult
from remand.config.services import TOKENS
from remand.wiring.forges import forge_sync
from remand.wiring.ledger import open_ledger
from tests.integration.machine import PATIENCE, Machine, Repository
from tests.support.forge.gitea import GiteaDialect
from tests.support.forge.github import GitHubDialect
from tests.support.forge.gitlab import GitLabDialect
from tests.support.forge.server import Dialect, ForgeServer
from tests.support.forge.state import TOKEN, ForgeState, Person, StoredPull

CONFIG = """\
[gates]

[team]
members = [
  {{name = "Fenster", skills = ["frontend"]}},
  {{name = "Hockney", skills = ["frontend"]}},
  {{name = "Verbal", skills = ["frontend"]}},
  {{name = "Lead", role = "lead", accounts = ["{kind}:lead"]}},
  {{name = "owner", role = "user", aliases = ["user"], accounts = ["{kind}:owner"]}},
]

[forge]
kind = "{kind}"
repository = "octo/demo"
api = "{api}"
report = {report}
interval = "1h"
"""
"""No poll comes by itself while a test is under way."""
HOOK_SECRET = "what only the forge and we know"


class Spoken(NamedTuple):
    """A kind of forge, and a way to speak to it."""

    kind: str
    dialect: Callable[[ForgeState], Dialect]


DIALECTS = {
    "github": Spoken("github", GitHubDialect),
    "gitea": Spoken("gitea", GiteaDialect),
    "gitlab": Spoken("gitlab", GitLabDialect),
}


class Scene(NamedTuple):
    """The repository, the forge, and who is there."""

    kind: str
    repository: Repository
    server: ForgeServer
    state: ForgeState
    lead: Person
    owner: Person
    bot: Person

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to ask the forge."""
        return {TOKENS[self.kind]: TOKEN}

    def handed_in(
        self, title: str = "Component", agent: str = "Fenster", by: Person | None = None
    ) -> tuple[str, StoredPull]:
        """A task whose work waits for review as a pull request."""
        repository, branch = self.repository, f"work/{title.lower()}"
        task = repository.add(title, "--branch", branch)
        repository.ok("task", "claim", task, "--agent", agent)
        repository.git("checkout", "-q", "-B", branch, "main")
        head = repository.commit(f"{title}.txt", title)
        repository.git("checkout", "-q", "main")
        pull = self.state.open(by or self.bot, head=head, branch=branch)
        repository.ok("task", "submit", task, "--agent", agent, "--commit", head, "--pr", str(pull.number))
        return task, pull

    def poll(self) -> PollResult:
        """One poll, by a process that begins anew."""
        opened = open_ledger(str(self.repository.path))
        try:
            return forge_sync(opened, self.environment).poll()
        finally:
            opened.store.close()
            opened.ledger.close()

    def shown(self, task: str) -> Any:
        """The task as it is."""
        return self.repository.ok("task", "show", task)

    def rejections(self, task: str) -> list[dict[str, Any]]:
        """The rejections of reviewers on record."""
        return [row for row in self.shown(task)["history"] if row["event"] == "review.reject"]

    def prompt(self, task: str, agent: str = "Hockney") -> str:
        """What the next agent is told."""
        self.repository.ok("task", "claim", task, "--agent", agent)
        return str(self.repository.ok("task", "prompt", task, "--agent", agent)["prompt"])

    def forget_patience(self) -> None:
        """Lets a poll ask again at once, though the forge asked for patience: another machine would."""
        for path in self.repository.machine.state.glob("remand/forges/*/answers/*"):
            path.unlink()


@contextmanager
def forge_scene(machine: Machine, spoken: Spoken, report: tuple[str, ...] = ()) -> Iterator[Scene]:
    """A repository and its forge, where times are those of now."""
    state = ForgeState()
    state.now = SystemClock().now()
    people = [state.person(name, "write") for name in ("lead", "owner", "bot")]
    with ForgeServer(spoken.dialect(state)) as server:
        config = CONFIG.format(kind=spoken.kind, api=server.url, report=json.dumps(report))
        repository = machine.repository(config=config)
        yield Scene(spoken.kind, repository, server, state, *people)


def payload(kind: str, number: int, **fields: object) -> bytes:
    """What a forge delivers when a review was given."""
    about: dict[str, object] = {
        "action": "submitted",
        "pull_request": {"number": number},
        "repository": {"full_name": "octo/demo"},
    }
    if kind == "gitlab":
        about = {
            "object_kind": "note",
            "merge_request": {"iid": number},
            "project": {"path_with_namespace": "octo/demo"},
        }
    return json.dumps({**about, **fields}).encode()


def delivery(kind: str, body: bytes, name: str = "1", secret: str = HOOK_SECRET) -> dict[str, str]:
    """The headers a forge sends along."""
    signature = hmac.new(secret.encode(), body, sha256).hexdigest()
    told = {
        "github": {"X-GitHub-Delivery": name, "X-Hub-Signature-256": f"sha256={signature}"},
        "gitea": {"X-Gitea-Delivery": name, "X-Gitea-Signature": signature},
        "gitlab": {"X-Gitlab-Event-UUID": name, "X-Gitlab-Token": secret},
    }
    return {"Content-Type": "application/json", **told[kind]}


def send(address: str, body: bytes, headers: dict[str, str]) -> int:
    """Delivers; returns the status."""
    request = urllib.request.Request(address, data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
