"""From a review's webhook to feedback in a task another agent can claim, beside one plain poll of the same forge."""

from __future__ import annotations

import hmac
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from benchmarks.cli import install
from benchmarks.measure import Times
from benchmarks.report import Report, millis
from remand.domain.forge import ReviewState
from remand.domain.task import Status
from remand.wiring.ledger import open_ledger
from tests.support.forge.github import GitHubDialect
from tests.support.forge.server import ForgeServer
from tests.support.forge.state import TOKEN, ForgeState, Person

SECRET = "a secret of the benchmark"
PATIENCE = 30.0
CONFIG = """\
[gates]

[team]
members = [
  {{name = "Alice"}}, {{name = "Bob"}},
  {{name = "Lead", role = "lead", accounts = ["github:lead"]}},
  {{name = "owner", role = "user", aliases = ["user"]}},
]

[forge]
repository = "octo/demo"
api = "{api}"
interval = "1h"
"""


def run(report: Report) -> None:
    """Prints the table."""
    report.heading("From a webhook to a task that can be claimed")
    remand = os.path.join(install(os.path.join(report.folder, "webhook")), "remand")
    state = ForgeState()
    lead = state.person("lead", "write")
    with ForgeServer(GitHubDialect(state)) as server:
        place = _Place(report, remand, server.url)
        with place.listening() as address:
            woken = [
                place.round(state, lead, lambda number: _send(address, number))
                for _ in range(report.scale.calls)
            ]
        polled = [place.round(state, lead, lambda _: place.said("sync")) for _ in range(report.scale.calls)]
    times = {"webhook → claimable": Times.of(woken), "`remand sync`, a process of its own": Times.of(polled)}
    report.table(
        ("what", "p50 ms", "p99 ms"),
        [(name, millis(one.p50), millis(one.p99)) for name, one in times.items()],
    )
    report.goal(
        "webhook → feedback in a claimable task, p99 s", times["webhook → claimable"].p99, most=1, unit="s"
    )


class _Place:
    """A repository with a ledger, whose reviews are given on the fake forge."""

    def __init__(self, report: Report, remand: str, api: str) -> None:
        self._remand = remand
        self.repo = os.path.join(report.folder, "webhook-repo")
        self._environment = os.environ | {"GITHUB_TOKEN": TOKEN, "REMAND_WEBHOOK_SECRET": SECRET}
        os.makedirs(self.repo)
        self._git("init", "-q", "-b", "main")
        Path(self.repo, "remand.toml").write_text(CONFIG.format(api=api), encoding="utf-8")
        self.head = self._commit("start")

    def round(self, state: ForgeState, lead: Person, wake: Callable[[int], object]) -> float:
        """Work is handed in and rejected on the forge; the seconds until another agent could claim it."""
        task = str(self.said("task", "add", "Roof")["task_id"])
        self.said("task", "claim", task, "--agent", "Alice")
        head = self._commit(task)
        pull = state.open(lead, head=head)
        self.said("task", "submit", task, "--agent", "Alice", "--commit", head, "--pr", str(pull.number))
        state.review(pull, state.find_person("lead") or lead, ReviewState.CHANGES_REQUESTED, "BLOCKING: no")
        opened = open_ledger(self.repo)
        start = time.perf_counter()
        wake(pull.number)
        while time.perf_counter() - start < PATIENCE:
            opened.ledger.refresh()
            with opened.store.read() as view:
                found = view.tasks.get(task)
            if found is not None and found.status == Status.REJECTED and found.reviews.feedback:
                opened.store.close()
                return time.perf_counter() - start
            time.sleep(0.002)
        raise RuntimeError(f"{task} was never rejected")

    @contextmanager
    def listening(self) -> Iterator[str]:
        """The listener, in a process of its own."""
        process = subprocess.Popen(
            [self._remand, "serve", "--webhooks", "--port", "0"],
            cwd=self.repo,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            line = process.stdout.readline() if process.stdout else ""
            yield line.split()[2]
        finally:
            process.terminate()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def said(self, *words: str) -> dict[str, object]:
        """What a call answered."""
        done = subprocess.run(
            [self._remand, *words, "--json"],
            cwd=self.repo,
            env=self._environment,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stdout!r} {done.stderr!r}")
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def _commit(self, text: str) -> str:
        Path(self.repo, "work.txt").write_text(text, encoding="utf-8")
        self._git("add", "-A", ":!.got")
        self._git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "work")
        return self._git("rev-parse", "HEAD")

    def _git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.repo, check=True, capture_output=True, text=True)
        return done.stdout.strip()


def _send(address: str, number: int) -> None:
    payload = {
        "action": "submitted",
        "pull_request": {"number": number},
        "repository": {"full_name": "octo/demo"},
    }
    body = json.dumps(payload).encode()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "pull_request_review",
        "X-GitHub-Delivery": f"11111111-2222-3333-4444-{number:012}",
        "X-Hub-Signature-256": f"sha256={hmac.new(SECRET.encode(), body, sha256).hexdigest()}",
    }
    request = urllib.request.Request(address, data=body, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=10):
        return
