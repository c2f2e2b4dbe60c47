"""Workers on hosts of their own: they share a database and a git remote with who submits, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from remand.adapters.sandbox.sandboxes import best_sandbox
from remand.app.requests import Acceptance, Request
from remand.domain import commands as c
from remand.wiring.gates import make_gates
from remand.wiring.ledger import open_ledger
from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, end, wait_for
from tests.integration.test_key_lifecycle import ID, key_of
from tests.support.log_check import log_faults
from tests.support.postgres import stored_lines

GATES = """
[gates.tests]
command = ["sh", "-c", {command!r}]
{labels}
"""
VERDICTS = ("gate.pass", "gate.reject", "gate.hold", "gate.error")
SOON_DEAD = ("--dead", "3")
"""For workers that are killed; another one may be kept waiting for longer by a busy machine."""


class Team:
    """Hosts with a clone, a state folder and a key each, one database, and one bare repository."""

    def __init__(
        self, database: str, hosts: int, *, command: str = "true", labels: str = "", untrusted: int = 0
    ) -> None:
        self.database = database
        self._closing = ExitStack()
        machines = [Machine() for _ in range(hosts)]
        for made in machines:
            self._closing.callback(made.close)
            made.environment["REMAND_STORE"] = database
        keys = "".join(f'  "{key_of(made)}",\n' for made in machines[: hosts - untrusted])
        gates = GATES.format(command=command, labels=labels)
        config = f'[project]\nid = "{ID}"\n\n[keys]\ntrusted = [\n{keys}]\n{gates}'
        first = machines[0].repository("mine", config=config)
        machines[0].git(machines[0].folder, "init", "-q", "--bare", "-b", "main", "origin.git")
        self.origin = machines[0].folder / "origin.git"
        first.git("remote", "add", "origin", str(self.origin))
        first.git("push", "-q", "-u", "origin", "main")
        self.hosts = [first]
        for made in machines[1:]:
            made.git(made.folder, "clone", "-q", str(self.origin), "theirs")
            self.hosts.append(Repository(made, made.folder / "theirs"))

    def close(self) -> None:
        self._closing.close()

    def work(self, title: str = "Mend the roof", *, is_pushed: bool = True) -> tuple[str, str]:
        """A task that Alice holds on the first host, and its commit, which the remote has."""
        one = self.hosts[0]
        task = one.add(title)
        one.ok("task", "claim", task, "--agent", "Alice")
        one.git("checkout", "-q", "-B", f"work-{task}", "main")
        commit = one.commit(f"{task}.txt", title)
        if is_pushed:
            one.git("push", "-q", "origin", f"{commit}:refs/remand/submitted/{task}")
        return task, commit

    def submit(self, task: str, commit: str, *more: str) -> subprocess.Popen[str]:
        words = ("--json", "task", "submit", task, "--agent", "Alice", "--commit", commit, *more)
        one = self.hosts[0]
        return one.machine.start(one.path, REMAND, *words)

    def worker(self, host: int, *options: str) -> subprocess.Popen[str]:
        """Starts a worker, and waits until it works."""
        theirs = self.hosts[host]
        process = theirs.machine.start(theirs.path, REMAND, "worker", "--dead", "60", *options)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Worker of"), f"{line!r} {process.communicate(timeout=PATIENCE)}"
        return process

    def lines(self) -> list[bytes]:
        """The log, as the database has it."""
        return stored_lines(self.database)

    def events(self, *names: str) -> list[dict[str, Any]]:
        """The events of these names."""
        found = [json.loads(line) for line in self.lines()]
        return [event for event in found if event.get("event") in names]


@pytest.fixture
def team(database: str) -> Iterator[Callable[..., Team]]:
    with ExitStack() as closing:

        def make(hosts: int = 2, **options: Any) -> Team:
            made = Team(database, hosts, **options)
            closing.callback(made.close)
            return made

        yield make


def answer(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    out, err = process.communicate(timeout=PATIENCE)
    assert out, f"{process.returncode}: {err}"
    return process.returncode, json.loads(out)


def test_a_worker_on_another_host_measures_what_was_submitted(team: Callable[..., Team]) -> None:
    made = team()
    task, commit = made.work()
    worker = made.worker(1)

    code, said = answer(made.submit(task, commit))

    assert (code, said["status"]) == (0, "provisional"), said
    [verdict] = made.events(*VERDICTS)
    assert verdict["event"] == "gate.pass"
    assert verdict["verdict"]["commit"] == commit
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0


@pytest.mark.more  # the campaign below kills workers as well
def test_a_worker_that_is_killed_in_the_midst_is_followed_by_another(team: Callable[..., Team]) -> None:
    made = team(3, command="sleep 1")
    task, commit = made.work()
    first = made.worker(1, *SOON_DEAD)
    submitted = made.submit(task, commit)
    wait_for(lambda: jobs(made, "doing"), "a worker at work")

    first.kill()
    second = made.worker(2, "--dead", "20")

    code, said = answer(submitted)
    assert (code, said["status"]) == (0, "provisional"), said
    assert len(made.events(*VERDICTS)) == 1
    assert attempts(made) == [2]
    end(second)


@pytest.mark.more
def test_a_worker_that_is_asked_to_stop_gives_its_job_back(team: Callable[..., Team]) -> None:
    made = team(3, command="sleep 2")
    task, commit = made.work()
    first = made.worker(1, "--labels", "linux")
    submitted = made.submit(task, commit)
    wait_for(lambda: jobs(made, "doing"), "a worker at work")

    first.send_signal(signal.SIGTERM)

    assert first.wait(PATIENCE) == 0
    assert jobs(made, "todo") == 1
    second = made.worker(2, "--once")
    code, said = answer(submitted)
    assert (code, said["status"]) == (0, "provisional"), said
    assert second.wait(PATIENCE) == 0
    assert len(made.events(*VERDICTS)) == 1


def test_a_label_that_no_gate_can_name_is_a_wrong_call(near_machine: Machine) -> None:
    said = near_machine.repository().call("worker", "--once", "--labels", "Linux x64")

    assert said.code == 2
    assert "`--labels` holds 'Linux x64'" in said.data["message"]


@pytest.mark.parametrize("env", [{}, {"REMAND_SERVER": "http://127.0.0.1:9"}], ids=["alone", "with a server"])
@pytest.mark.parametrize("store", [(), ("--store", "sqlite")], ids=["none", "the file"])
def test_a_worker_without_a_database_does_not_start(
    near_machine: Machine, store: tuple[str, ...], env: dict[str, str]
) -> None:
    said = near_machine.repository().call("worker", "--once", *store, env=env)

    assert said.code == 2
    assert "REMAND_STORE" in said.data["message"]


def test_a_worker_whose_key_the_base_does_not_trust_does_not_start(team: Callable[..., Team]) -> None:
    made = team(2, untrusted=1)
    theirs = made.hosts[1]

    said = theirs.call("worker", "--once")

    assert said.code == 3
    assert said.data["refused"] == "key_not_trusted"
    assert "remand keys request" in said.data["message"]


@pytest.mark.more
def test_a_commit_that_no_worker_can_get_is_errored(team: Callable[..., Team]) -> None:
    made = team()
    task, commit = made.work(is_pushed=False)
    worker = made.worker(1)

    _, said = answer(made.submit(task, commit))

    assert said["refused"] == "gate_errored", said
    [verdict] = made.events(*VERDICTS)
    assert verdict["event"] == "gate.error"
    end(worker)


@pytest.mark.more
@pytest.mark.skipif(best_sandbox().tier == "plain", reason="nothing here confines a command")
def test_evidence_is_checked_by_a_worker_and_stays_unchecked_without_one(team: Callable[..., Team]) -> None:
    made = team(labels='[sandbox]\nprobes = [["cat"]]')
    one, records = made.hosts[0], made.hosts[0].machine.folder / "rejection.json"
    probes = [{"command": ["cat", "remand.toml"], "exit": 0}, {"command": ["cat", "none"], "exit": 0}]
    evidence = [{"type": "command", "data": "x", "probe": probe} for probe in probes]
    record = {"reason_type": "BLOCKER", "reason_summary": "mail", "evidence": evidence}
    records.write_text(json.dumps(record))

    def graded() -> list[tuple[str, str]]:
        handoff = one.ok("task", "claim", one.add("Mend it"), "--agent", "Alice")["handoff_id"]
        said = one.call("handoff", "reject", handoff, "--agent", "Alice", "--from", str(records)).data
        return [(row["grade"], row["detail"]) for row in said["evidence"]]

    assert {grade for grade, _ in graded()} == {"reported"}
    assert "remand worker" in graded()[0][1]
    worker = made.worker(1)
    assert [grade for grade, _ in graded()] == ["reproduced", "disproved"]
    assert not log_faults(made.lines())
    end(worker)


@pytest.mark.more
def test_a_commit_that_could_not_be_pushed_comes_from_the_server(team: Callable[..., Team]) -> None:
    made = team()
    task, commit = made.work(is_pushed=False)
    one, asked = made.hosts[0], list[str]()

    class Packs(BaseHTTPRequestHandler):
        """Answers as the server's route does, from the clone that has the commit."""

        def do_GET(self) -> None:
            asked.append(self.path)
            pack = subprocess.run(
                ["git", "pack-objects", "--revs", "--stdout", "-q"],
                cwd=one.path,
                input=f"{commit}\n--not\nmain\n".encode(),
                capture_output=True,
                check=True,
            ).stdout
            self.send_response(200)
            self.send_header("Content-Length", str(len(pack)))
            self.end_headers()
            self.wfile.write(pack)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Packs) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = made.hosts[1].machine.environment
        environment |= {"REMAND_SERVER": f"http://127.0.0.1:{server.server_port}", "REMAND_TOKEN": "t"}
        worker = made.worker(1)
        code, said = answer(made.submit(task, commit))
        server.shutdown()

    assert (code, said["status"]) == (0, "provisional"), said
    assert len(asked) == 1
    assert f"commit={commit}" in asked[0]
    end(worker)


@pytest.mark.more
def test_a_run_for_which_no_worker_has_the_labels_is_shown_and_waits(team: Callable[..., Team]) -> None:
    made = team(labels='labels = ["node22", "linux"]')
    task, commit = made.work()
    other = made.worker(1, "--labels", "linux")

    code, said = answer(made.submit(task, commit))

    assert code == 3
    assert "remand worker --labels linux,node22" in said["message"], said
    checks = {row["name"]: row for row in made.hosts[0].call("doctor").data["checks"]}
    assert checks["workers"]["ok"] is False
    assert "linux, node22" in checks["workers"]["detail"]
    end(other)
    worker = made.worker(1, "--labels", "node22,linux,gpu", "--once")
    assert worker.wait(PATIENCE) == 0
    assert made.hosts[0].call("gate", "wait", task).data["status"] == "passed"
    assert len(made.events(*VERDICTS)) == 1


def test_every_verdict_is_recorded_once_while_workers_are_killed(
    team: Callable[..., Team], campaign: Callable[[int, int], int]
) -> None:
    """Small: 6 runs, 2 workers. Full: 500 runs, 4 workers. Every 5 seconds or more one of them is killed, and started again."""
    runs, hosts = campaign(6, 500), campaign(2, 4)
    made = team(1 + hosts, command="sleep 1")
    tasks = queue_runs(made, runs)
    workers = {host: made.worker(host, *SOON_DEAD) for host in range(1, hosts + 1)}
    wait_for(lambda: jobs(made, "doing") == hosts, "every worker at work")
    killed = 0
    while unended(made):
        host = 1 + killed % hosts
        workers[host].kill()
        workers[host].wait(PATIENCE)
        workers[host] = made.worker(host, *SOON_DEAD)
        killed += 1
        left = unended(made)
        time.sleep(5.0)
        wait_for(lambda left=left: unended(made) < max(left, 1), "the end of a run")

    counted = Counter(event["task_id"] for event in made.events(*VERDICTS))
    handed_in = Counter(event["task_id"] for event in made.events("task.submit"))
    print(f"{runs} runs, {hosts} workers, {killed} killed, {sum(attempts(made)) - runs} runs begun again")
    assert counted == handed_in == dict.fromkeys(tasks, 1)
    assert not log_faults(made.lines())


def queue_runs(made: Team, count: int) -> list[str]:
    """So many tasks with a commit each, which the remote has, and a gate run of each in the queue."""
    one = made.hosts[0]
    with patch.dict(os.environ, one.machine.environment, clear=True):
        opened = open_ledger(str(one.path))
        gates, ask, tasks, refs = make_gates(opened), opened.ledger.ask, list[str](), list[str]()
        for number in range(count):
            added = ask(Request(command=c.AddTask(title=f"Task {number}"), actor="user"))
            assert isinstance(added, Acceptance)
            tasks.append(added.task.id)
            claimed = ask(Request(command=c.ClaimTask(agent="Alice", task_id=tasks[-1]), actor="Alice"))
            assert isinstance(claimed, Acceptance), claimed
            one.git("checkout", "-q", "-B", f"work-{number}", "main")
            commit = one.commit(f"{number}.txt", f"{number}\n")
            refs.append(f"{commit}:refs/remand/submitted/{tasks[-1]}")
            work = c.SubmitTask(task_id=tasks[-1], agent="Alice", commit=commit)
            assert gates.claim_known(Request(command=work, actor="Alice", key=f"run-{number}"), ask) is None
        one.git("push", "-q", "origin", *refs)
        opened.store.close()
    return tasks


def jobs(made: Team, status: str) -> int:
    """How many gate runs have a status in the queue."""
    with psycopg.connect(made.database) as connection:
        row = connection.execute(
            "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'gates' AND status::text = %s",
            (status,),
        ).fetchone()
    return int(row[0]) if row else 0


def unended(made: Team) -> int:
    return jobs(made, "todo") + jobs(made, "doing")


def attempts(made: Team) -> list[int]:
    with psycopg.connect(made.database) as connection:
        return [
            row[0]
            for row in connection.execute("SELECT attempts FROM procrastinate_jobs WHERE task_name = 'gates'")
        ]
