"""`remand run` on several hosts: one queue on the server, and each host starts its own members."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from remand.app.scheduler.host_calls import HostMethod, HostQuestion
from remand.domain.commands import AssignTask
from tests.integration.http_client import RunningServer, run_server
from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, end, wait_for
from tests.integration.scripted_agents import IDENTITY
from tests.integration.server_hosts import ServerHost
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

WORK = "cat >/dev/null; echo $REMAND_ACTOR >$REMAND_TASK.txt; git add -A; git commit -q -m work"
STOP = '{\\"session_id\\": \\"s\\", \\"hook_event_name\\": \\"Stop\\"}'
SCRIPTS = {
    "Ann": WORK,
    "Bob": f"{WORK}; {REMAND} --json task submit $REMAND_TASK --commit HEAD >../bob.json",
    "Cid": f"{WORK}; echo '{STOP}' | {REMAND} hook --host claude Stop >../cid.json",
}
"""One leaves it to the scheduler, one submits through its socket, and the hook of one does."""
MEMBERS = ", ".join(
    f'{{name = "{name}", role = "agent", command = ["sh", "-c", "{script}"]}}'
    for name, script in SCRIPTS.items()
)
TEAM = f"""
[team]
members = [{MEMBERS}, {{name = "Lead", role = "lead"}}]
[policy]
max_waiting_reviews = 50
[run]
sandbox = "off"
environment = {IDENTITY}
[gates.tests]
command = ["sh", "-c", "ls *.txt"]
parser = "exit"
[gates.integrity]
enabled = false
"""


@pytest.fixture
def place() -> Iterator[Repository]:
    machine = Machine()
    yield machine.repository(config=TEAM)
    machine.close()


@pytest.fixture
def server(place: Repository) -> Iterator[RunningServer]:
    with run_server(place) as started:
        yield started


def host_for(server: RunningServer, place: Repository, name: str, *members: str) -> ServerHost:
    made = place.ok("token", "create", "--member", name, "--role", "host", "--starts", *members)
    return ServerHost(place.path, server.address["url"], made["token"])


def test_two_hosts_share_one_queue_and_each_starts_its_own_members(
    server: RunningServer, place: Repository
) -> None:
    tasks = {place.add(f"task {number}") for number in range(3)}
    hosts = [host_for(server, place, *names) for names in (("one", "Ann"), ("two", "Bob", "Cid"))]
    for host in hosts:
        host.machine.git(host.clone.path, "remote", "set-url", "origin", "/nowhere")
    try:
        running = [host.machine.start(host.clone.path, REMAND, "run", "--once", "--json") for host in hosts]
        said = [one.communicate(timeout=PATIENCE) for one in running]
        assert [one.returncode for one in running] == [0, 0], said
        assert all(json.loads(out)["stopped"] for out, _ in said)
        shown = {task: place.ok("task", "show", task) for task in tasks}
        assert {one["status"] for one in shown.values()} == {"provisional"}, said
        workers = {
            event["agent"]
            for task in tasks
            for event in shown[task]["history"]
            if event["event"] == "run.start"
        }
        assert workers == set(SCRIPTS)
        told = hosts[1].machine.folder.rglob("bob.json"), hosts[1].machine.folder.rglob("cid.json")
        submitted, stopped = (next(found).read_text() for found in told)
        assert json.loads(submitted)["status"] == "provisional"
        assert '"block"' not in stopped
        assert place.verify() == []
    finally:
        for host in hosts:
            host.close()


FILES = {
    "record": json.dumps(a_rejection("BLOCKER")),
    "work.sh": f"""cat >../prompt
if grep -q ladder ../prompt; then echo good >work.txt; git add work.txt; git commit -q -m work
else {REMAND} handoff reject "$REMAND_HANDOFF" --from - <record; fi
""",
    "review.sh": """run=$(grep -o 'RUN-[0-9a-f-]*' | head -n 1)
cat <<END
\\`\\`\\`json
{"run": "$run", "verdict": "approve", "findings": [],
 "checked": [{"path": "work.txt", "line": 1, "text": "The word says that the work is good, as asked"}]}
\\`\\`\\`
END
""",
    "direct.sh": """run=$(grep -o 'RUN-[0-9a-f-]*' | head -n 1)
cat <<END
\\`\\`\\`json
{"run": "$run", "decision_type": "OVERRIDE", "rationale": "The roof can be reached by the ladder in the barn.",
 "message": "Take the ladder in the barn.", "reassign_to": "", "created_tasks": []}
\\`\\`\\`
END
""",
}
JUDGES = {
    "Ann": ("agent", "work.sh"),
    "Rea": ("lead", "review.sh"),
    "Rex": ("lead", "review.sh"),
    "Dora": ("director", "direct.sh"),
}


@pytest.fixture
def judged() -> Iterator[Repository]:
    """A place whose members review and direct as well."""
    members = ", ".join(
        f'{{name = "{name}", role = "{role}", command = ["sh", "{script}"]}}'
        for name, (role, script) in JUDGES.items()
    )
    rest = TEAM.partition("[policy]")[2]
    machine = Machine()
    found = machine.repository(config=f'[team]\nmembers = [{members}]\n[policy]\ndirector = "human"{rest}')
    for name, text in FILES.items():
        found.commit(name, text)
    yield found
    machine.close()


@pytest.mark.more
def test_members_that_review_and_direct_are_started_by_the_host_that_has_them(judged: Repository) -> None:
    task = judged.add(TITLE, "--scope", SCOPE)
    with run_server(judged) as server, ExitStack() as closing:
        hosts = [
            host_for(server, judged, *names) for names in (("one", "Ann", "Rea"), ("two", "Rex", "Dora"))
        ]
        running = []
        for host in hosts:
            closing.callback(host.close)
            host.machine.git(host.clone.path, "remote", "set-url", "origin", "/nowhere")
            running.append(host.machine.start(host.clone.path, REMAND, "run", "--json"))
            closing.callback(end, running[-1])
        wait_for(lambda: judged.ok("task", "show", task)["status"] == "done", "a review")
        history = judged.ok("task", "show", task)["history"]
        starts = [one for one in history if one["event"] == "run.start"]
        by = {
            purpose: [one["agent"] for one in starts if one.get("purpose", "work") == purpose]
            for purpose in ("work", "direct", "review")
        }
        assert (by["work"], by["direct"], len(by["review"])) == (["Ann", "Ann"], ["Dora"], 1), starts
        assert judged.verify() == []


def test_a_host_runs_nobody_else(server: RunningServer, place: Repository) -> None:
    host = host_for(server, place, "one", "Ann")
    try:
        task = place.add()
        command = AssignTask(agent="Bob", run_id="RUN-20260101-000000-abcdef01", task_id=task)
        body = msgspec.json.encode(HostQuestion(method=HostMethod.ASK, command=command))
        headers = {"authorization": f"Bearer {host.machine.environment['REMAND_TOKEN']}"}
        reply = server.request("POST", "/api/scheduler", body, headers)
        assert (reply.status, reply.data["code"]) == (403, "not_yours"), reply
        assert place.ok("task", "show", task)["status"] == "incoming"
    finally:
        host.close()
