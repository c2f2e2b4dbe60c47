"""The signed verdict as a required check: what the action for GitHub and the job for GitLab let through."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from remand.domain.events.event import KnownBy
from remand.interfaces.cli.context import CallOrigin
from remand.interfaces.cli.main import run
from remand.wiring.ledger import open_ledger
from tests.integration.ci_runners import Job, run_action, run_gitlab_job
from tests.integration.forged_lines import LATE, line
from tests.integration.http_client import run_server
from tests.integration.machine import REMAND, Machine, Repository
from tests.integration.test_key_lifecycle import Clone, key_of

GATES = '\n[gates.builds]\ncommand = ["true"]\nparser = "exit"\n\n[gates.integrity]\nenabled = false\n'


def config(*keys: str) -> str:
    listed = "".join(f'  "{key}",\n' for key in keys)
    return f'[project]\nid = "0123456789abcdef"\n\n[keys]\ntrusted = [\n{listed}]\n{GATES}'


class Forge:
    """A forge's repository, a member's clone of it, the clone of somebody whom the base does not trust, and a runner."""

    def __init__(self, member: Machine, stranger: Machine, runner: Machine) -> None:
        self.runner = runner
        self.server = runner.folder / "server"
        self.origin = self.server / "acme" / "roof.git"
        self.origin.parent.mkdir(parents=True)
        runner.git(runner.folder, "init", "-q", "--bare", "-b", "main", str(self.origin))
        runner.git(self.origin, "config", "uploadpack.allowAnySHA1InWant", "true")
        self.member = Clone(member, member.repository("mine", config=config(key_of(member))).path)
        self.member.git("remote", "add", "origin", str(self.origin))
        self.member.git("push", "-q", "-u", "origin", "main")
        stranger.git(stranger.folder, "clone", "-q", str(self.origin), "theirs")
        self.stranger = Clone(stranger, stranger.folder / "theirs")

    def measured(self, who: Repository, name: str, *, is_published: bool = True) -> str:
        """A branch with a commit whose gates have passed, and the log that says so; returns its task."""
        who.git("switch", "-q", "-c", name, "origin/main")
        task = str(who.call("task", "add", name).data["task_id"])
        assert who.call("task", "claim", task, "--agent", "Alice").code == 0
        commit = who.commit(f"{name}.txt")
        said = who.call("task", "submit", task, "--agent", "Alice", "--commit", commit)
        assert said.data["status"] == "provisional", said
        assert not is_published or who.call("log", "publish", "--task", task).code == 0
        return task

    def push(self, who: Repository) -> str:
        """Pushes the branch; returns the commit that a pull request of it would have as its head."""
        who.git("push", "-q", "-f", "origin", "HEAD")
        self.runner.git(self.origin, "update-ref", "refs/merge-requests/7/head", who.head())
        return who.head()

    def on_github(self, commit: str, **inputs: str) -> Job:
        """Runs the action for a pull request, in a workspace that has the pull request's own files."""
        event = {"pull_request": {"head": {"sha": commit}, "base": {"ref": "main"}}}
        workspace = self._workspace(commit)
        return run_action(self.runner, self.server, event, {"remand": REMAND} | inputs, workspace)

    def on_gitlab(self, commit: str, inputs: Mapping[str, str] | None = None, **more: str) -> Job:
        variables = {"CI_COMMIT_SHA": commit, **more}
        given = {"remand": REMAND} | dict(inputs or {})
        return run_gitlab_job(self.runner, self.server, variables, self._workspace(commit), given)

    def _workspace(self, commit: str) -> Path:
        workspace = self.runner.folder / f"workspace-{commit[:12]}"
        if not workspace.exists():
            self.runner.git(self.runner.folder, "clone", "-q", str(self.origin), str(workspace))
            self.runner.git(workspace, "checkout", "-q", commit)
        return workspace


@pytest.fixture
def forge() -> Iterator[Forge]:
    machines = [Machine(is_near=True), Machine(is_near=True), Machine()]
    yield Forge(*machines)
    for machine in machines:
        machine.close()


def test_a_verdict_that_the_base_trusts_lets_the_code_through(forge: Forge) -> None:
    forge.measured(forge.member, "roof")
    commit = forge.push(forge.member)

    job = forge.on_github(commit)
    assert (job.code, "::notice" in job.out, f"{commit[:12]} may be merged" in job.out) == (0, True, True), (
        job
    )
    job = forge.on_gitlab(commit)
    assert (job.code, f"{commit[:12]} may be merged" in job.out) == (0, True), job

    # Code that comes after it is not what was measured.
    forge.member.commit("roof.txt", "something else\n")
    later = forge.push(forge.member)
    for job in (forge.on_github(later), forge.on_gitlab(later)):
        assert (job.code, "No verdict" in job.out, later[:12] in job.out) == (1, True, True), job
    assert "::error title=Remand verdict::refused (not_measured)" in forge.on_github(later).out

    # The base counts as it is now: of a key that it no longer trusts from here on, the verdict is let through no longer.
    forge.member.git("switch", "-q", "main")
    own = forge.member.call("keys").data["own"]["id"]
    verdict = next(event for event in forge.member.written().values() if event["event"] == "gate.pass")
    stolen = f"{verdict['meta']['session']}:{verdict['meta']['seq']}"
    assert forge.member.call("keys", "revoke", own, "--from", stolen, "--write").code == 0
    forge.member.git("commit", "-qam", "revoke")
    forge.member.git("push", "-q", "origin", "main")
    for job in (forge.on_github(commit), forge.on_gitlab(commit)):
        assert (job.code, "no longer trusts the key" in job.out) == (1, True), job


def test_a_pull_request_does_not_say_whom_to_trust(forge: Forge) -> None:
    """Its branch has a configuration that trusts its author's key, no gates, and a ledger that says all is well."""
    stranger = forge.stranger
    forge.measured(stranger, "roof")
    commit = forge.push(stranger)
    for job in (forge.on_github(commit), forge.on_gitlab(commit)):
        assert (job.code, "does not trust the key" in job.out) == (1, True), job

    (stranger.path / "remand.toml").write_text(config(key_of(stranger.machine)))
    (stranger.path / "sitecustomize.py").write_text("raise SystemExit(0)\n")
    stranger.git("add", "-f", "remand.toml", "sitecustomize.py", ".got")
    stranger.git("commit", "-q", "-m", "trust me")
    task = str(stranger.call("task", "add", "again").data["task_id"])
    assert stranger.call("task", "claim", task, "--agent", "Alice").code == 0
    stranger.call("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
    stranger.call("log", "publish")
    commit = forge.push(stranger)
    for job in (forge.on_github(commit), forge.on_gitlab(commit)):
        assert (job.code, "No verdict" in job.out) == (1, True), job


def test_whoever_starts_a_pipeline_does_not_say_what_it_runs(forge: Forge) -> None:
    """A variable of the pipeline counts more than the job's own of the same name."""
    forge.measured(forge.member, "roof", is_published=False)
    commit = forge.push(forge.member)
    job = forge.on_gitlab(
        commit, REMAND="/bin/true", REMAND_PACKAGE="/nowhere", REMAND_SERVER="http://127.0.0.1:1"
    )

    assert (job.code, "No verdict" in job.out) == (1, True), job


def test_a_verdict_that_nobody_signed_lets_nothing_through(forge: Forge) -> None:
    task = forge.measured(forge.member, "roof")
    forge.member.git("switch", "-q", "-c", "other")
    commit = forge.member.commit("other.txt")
    passed = next(
        event
        for event in forge.member.written().values()
        if event["event"] == "gate.pass" and event["task_id"] == task
    )
    with patch.dict(os.environ, forge.member.machine.environment, clear=True):
        tree = json.loads(_gate_run_tree(forge.member, commit))
    verdict: dict[str, Any] = passed["verdict"] | {"commit": commit, "tree": tree}
    fields = {name: value for name, value in passed.items() if name not in ("event", "ts", "meta", "verdict")}
    forged = line("gate.pass", ts=LATE, verdict=verdict, **fields)
    (forge.member.events / "forged.jsonl").write_bytes(forged + b"\n")
    forge.member.git("add", "-f", ".got/events/forged.jsonl")
    forge.member.git("commit", "-q", "-m", "forged")

    job = forge.on_github(forge.push(forge.member))

    assert (job.code, "no key has signed it" in job.out) == (1, True), job


def _gate_run_tree(repository: Repository, commit: str) -> str:
    return json.dumps(repository.call("gate", "run", "--commit", commit).data["tree"])


def test_a_branch_that_changes_the_ledgers_own_files_is_not_let_through(forge: Forge) -> None:
    """The code tree is without `.got`: such a change alone makes no verdict stale."""
    forge.measured(forge.member, "roof")
    (forge.member.path / ".got" / "note.txt").write_text("::stop-commands::all\n")
    forge.member.git("add", "-f", ".got/note.txt")
    forge.member.git("commit", "-q", "-m", "note")

    job = forge.on_github(forge.push(forge.member))

    assert (job.code, "refused (control_changed)" in job.out, ".got/note.txt" in job.out) == (
        1,
        True,
        True,
    ), job
    assert [row for row in job.out.splitlines() if row.startswith("::error")], job


def test_a_server_answers_from_its_own_log_for_the_base_as_it_is_now(forge: Forge) -> None:
    task = forge.measured(forge.member, "roof", is_published=False)

    def ask(base: str) -> tuple[int, Any]:
        with patch.dict(os.environ, forge.member.machine.environment, clear=True):
            opened = open_ledger(str(forge.member.path))
            out, folder = io.StringIO(), str(forge.member.path)
            origin = CallOrigin(folder, {}, out, io.StringIO(), opened=opened, known_by=KnownBy.TOKEN)
            code = run(["--json", "gate", "check", "roof", "--base", base], origin)
            opened.store.close()
            opened.ledger.close()
        return code, json.loads(out.getvalue())

    code, said = ask("origin/main")
    assert (code, said.get("task_id")) == (0, task), said
    code, said = ask("roof")
    assert (code, said["refused"]) == (1, "bad_value"), said


def test_the_action_and_the_job_ask_a_server_by_a_workers_token(forge: Forge) -> None:
    forge.measured(forge.member, "roof", is_published=False)
    commit = forge.push(forge.member)
    unmeasured = forge.member.commit("other.txt")
    forge.push(forge.member)
    token = forge.member.call("token", "create", "--member", "ci", "--role", "worker").data["token"]
    with run_server(Repository(forge.member.machine, forge.member.path)) as server:
        asked = {"server": server.address["url"], "server-token": token}
        job = forge.on_github(commit, **asked)
        assert (job.code, "may be merged" in job.out) == (0, True), job
        assert token not in job.out
        assert forge.on_github(unmeasured, **asked).code == 1
        assert forge.on_github(commit, **(asked | {"server-token": token[:-1] + "x"})).code == 1
        job = forge.on_gitlab(unmeasured, {"server": server.address["url"]}, REMAND_TOKEN=token)
        assert (job.code, "No verdict" in job.out) == (1, True), job


@pytest.mark.more
def test_the_action_installs_itself_from_the_commit_it_is_pinned_to(forge: Forge) -> None:
    forge.measured(forge.member, "roof")

    job = forge.on_github(forge.push(forge.member), remand="")

    assert (job.code, "may be merged" in job.out) == (0, True), job
