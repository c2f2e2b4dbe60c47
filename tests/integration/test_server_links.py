"""Three hosts that share no disk, and links that are cut and healed: single winners, fenced leases, nothing lost or doubled."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.integration.cut_proxy import CutProxy
from tests.integration.http_client import RunningServer, run_server
from tests.integration.machine import HERE, PATIENCE, REMAND, Machine, Repository
from tests.integration.server_hosts import ServerHost, user_token
from tests.integration.test_key_lifecycle import key_of
from tests.support.log_check import log_faults
from tests.support.postgres import stored_lines

AGENTS = ("Ann", "Bob", "Cid")
TEAM = f"""
[team]
members = [{", ".join(f'{{name = "{name}", role = "agent"}}' for name in AGENTS)}, {{name = "Lead", role = "lead"}}]
[policy]
lease = "LEASE"
[gates.tests]
command = ["sh", "-c", "! grep -q broken *.txt"]
parser = "exit"
[gates.integrity]
enabled = false
"""
CAMPAIGN_TASKS = 18


class Link:
    """The way between one host and the server."""

    def __init__(self, host: ServerHost, cut: Callable[[], None], heal: Callable[[], None]) -> None:
        self.host = host
        self.cut = cut
        self.heal = heal
        self.prefix: tuple[str, ...] = ()
        """What a command of the host is started with."""

    def call(self, *words: str, **environment: str) -> tuple[int, dict[str, object]]:
        """A call of the command line on the host."""
        done = subprocess.run(
            [*self.prefix, REMAND, "--json", *words],
            cwd=self.host.clone.path,
            env=self.host.machine.environment | environment,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, json.loads(done.stdout)

    def start_agent(self, name: str) -> subprocess.Popen[str]:
        clone = str(self.host.clone.path)
        script = str(HERE / "host_agent.py")
        return self.host.machine.start(
            self.host.clone.path, *self.prefix, sys.executable, script, name, clone, REMAND
        )


def run_through_cuts(
    links: Sequence[Link], tasks: int, seconds: float, cuts: Sequence[Link] = ()
) -> list[dict[str, object]]:
    """Has an agent on each host work through the queue, while links (`cuts`, or the hosts' own) are cut again and again."""
    for number in range(tasks):
        assert links[0].call("task", "add", f"task {number}")[0] == 0
    agents = [link.start_agent(name) for link, name in zip(links, AGENTS, strict=True)]
    chance = random.Random(7)
    while any(agent.poll() is None for agent in agents):
        link = chance.choice(list(cuts or links))
        link.cut()
        time.sleep(seconds * chance.random())
        link.heal()
        time.sleep(seconds)
    said = []
    for agent in agents:
        out, errors = agent.communicate(timeout=PATIENCE)
        assert agent.returncode == 0, errors
        said += [json.loads(line) for line in out.splitlines()]
    return said


def check_outcome(place: Repository, said: list[dict[str, object]], tasks: int) -> None:
    """Every task was worked on once and passed; the log holds all that was answered, once."""
    assert sorted(str(one["task"]) for one in said) == sorted(
        row["task_id"] for row in place.ok("task", "list", "--status", "provisional")
    )
    assert len(said) == tasks
    assert {one["code"] for one in said} == {0}, said
    for one in said:
        history = place.ok("gate", "history", str(one["task"]))
        assert [(row["agent"], row["commit"], row["status"]) for row in history] == [
            (one["agent"], one["commit"], "passed")
        ]
    assert place.verify() == []


def check_fence(place: Repository, first: Link, second: Link) -> None:
    """A host that is cut off longer than its lease has lost the task; what it submits afterwards is refused."""
    task = str(second.call("task", "add", "fenced")[1]["task_id"])
    code, claimed = first.call("task", "claim", task, "--agent", AGENTS[0])
    assert code == 0, claimed
    first.cut()
    away = first.call("task", "heartbeat", task, "--agent", AGENTS[0], REMAND_SERVER_WAIT="1")
    assert away[0] == 3
    assert "The server cannot be reached" in str(away[1]["message"])
    commit = first.host.commit("fenced", "fenced.txt")  # work goes on meanwhile

    def is_claimed() -> bool:
        return second.call("task", "claim", task, "--agent", AGENTS[1])[0] == 0

    until = time.monotonic() + PATIENCE
    while not is_claimed():
        assert time.monotonic() < until, "the lease did not end"
        time.sleep(0.3)
    first.heal()
    late = ("--agent", AGENTS[0], "--handoff", str(claimed["handoff_id"]), "--commit", commit)
    code, answer = first.call("task", "submit", task, *late)
    assert code == 1, answer
    events = place.ok("log", "tail", "-n", "1000000")
    claims = [event["agent"] for event in events if event["event"] == "task.claim"]
    assert claims[-2:] == list(AGENTS[:2])
    assert place.ok("gate", "history", task) == []


@contextmanager
def loopback_links(server: RunningServer, place: Repository) -> Iterator[list[Link]]:
    links, proxies = [], []
    port = int(server.address["url"].rpartition(":")[2])
    for _ in AGENTS:
        proxy = CutProxy(port)
        host = ServerHost(place.path, f"http://127.0.0.1:{proxy.port}", user_token(place))
        host.machine.git(host.clone.path, "remote", "set-url", "origin", "/nowhere")
        links.append(Link(host, proxy.cut, proxy.heal))
        proxies.append(proxy)
    try:
        yield links
    finally:
        for link, proxy in zip(links, proxies, strict=True):
            proxy.close()
            link.host.close()


@pytest.mark.parametrize("lease", ["30m", "3s"])
def test_hosts_work_through_links_that_are_cut_and_a_lost_lease_is_fenced(lease: str) -> None:
    machine = Machine()
    try:
        place = machine.repository(config=TEAM.replace("LEASE", lease))
        with run_server(place) as server, loopback_links(server, place) as links:
            if lease == "30m":
                check_outcome(place, run_through_cuts(links, 6, 1.0), 6)
            else:
                check_fence(place, *links[:2])
    finally:
        machine.close()


# ------------------------------------------------------------------------------------- network namespaces

ADDRESS = "10.77.0"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=PATIENCE)


@contextmanager
def network(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """A namespace for each name, joined by a switch in one of its own; gives their namespaces by name."""
    mark = f"rmd{os.getpid()}"
    switch, made = f"{mark}-switch", []
    try:
        ip("netns", "add", switch)
        made.append(switch)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for number, name in enumerate(names, 1):
            own = f"{mark}-{name}"
            ip("netns", "add", own)
            made.append(own)
            ip("-n", own, "link", "add", "eth", "type", "veth", "peer", "name", name, "netns", switch)
            ip("-n", switch, "link", "set", name, "master", "bridge", "up")
            ip("-n", own, "addr", "add", f"{ADDRESS}.{number}/24", "dev", "eth")
            for device in ("lo", "eth"):
                ip("-n", own, "link", "set", device, "up")
        yield {name: f"{mark}-{name}" for name in names}
    finally:
        for own in made:
            subprocess.run(["ip", "netns", "del", own], check=False, capture_output=True, timeout=PATIENCE)


def require_namespaces() -> None:
    try:
        with network(()):
            pass
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"this machine does not let the test make network namespaces: {error}"
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)


def make_certificate(folder: Path) -> tuple[str, str]:
    """A certificate for the server's address, which vouches for itself, and its key."""
    certificate, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=remand", "-addext", f"subjectAltName=IP:{ADDRESS}.1"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    return certificate, key


def inside(namespace: str, hidden: Sequence[Path]) -> tuple[str, ...]:
    """What starts a command in a namespace, where folders of other machines are empty."""
    script = "".join(f"mount -t tmpfs none {folder} && " for folder in hidden) + 'exec "$@"'
    return ("ip", "netns", "exec", namespace, "sh", "-c", script, "sh")


class NamespacedTeam:
    """A server, hosts of agents and perhaps a worker, each in a namespace of its own and without the disks of the others."""

    def __init__(self, namespaces: Mapping[str, str], config: str, hosts: Sequence[str]) -> None:
        self._namespaces, self._names = namespaces, hosts
        self._worker = Machine()
        self.machine = Machine()
        self._machines = [self.machine, self._worker]
        keys = ", ".join(f'"{key_of(one)}"' for one in self._machines)
        trusted = f'[project]\nid = "0123456789abcdef"\n[keys]\ntrusted = [{keys}]\n'
        self.place = self.machine.repository(config=trusted + config)

    def serve(self) -> None:
        """Starts the server on the ledger that the environment of its machine names."""
        certificate, key = make_certificate(self.machine.folder)
        process = self.machine.start(
            self.place.path,
            *inside(self._namespaces["server"], ()),
            *(REMAND, "serve", "--json", "--no-open", "--host", f"{ADDRESS}.1", "--port", "8787"),
            *("--tls-cert", certificate, "--tls-key", key),
        )
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())
        token = user_token(self.place)
        hosts = [ServerHost(self.place.path, address["url"], token) for _ in self._names]
        self._machines += [host.machine for host in hosts]
        self.links = []
        for host, name in zip(hosts, self._names, strict=True):
            host.machine.git(host.clone.path, "remote", "set-url", "origin", "/nowhere")
            (host.machine.folder / "ca.pem").write_text(Path(certificate).read_text())
            host.machine.environment["REMAND_CA"] = str(host.machine.folder / "ca.pem")
            link = Link(host, partial(self.switch, name, "down"), partial(self.switch, name, "up"))
            link.prefix = self._inside(name, host.machine)
            self.links.append(link)

    def start_worker(self, url: str) -> None:
        """Starts the worker on its host, and waits until it works."""
        made = self._worker
        made.git(made.folder, "clone", "-q", str(self.place.path), "clone")
        made.git(made.folder / "clone", "remote", "set-url", "origin", "/nowhere")
        command = (*self._inside("worker", made), REMAND, "worker", "--dead", "60")
        process = made.start(made.folder / "clone", *command, env={"REMAND_STORE": url})
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Worker of"), f"{line!r} {process.communicate(timeout=PATIENCE)}"

    def _inside(self, name: str, own: Machine) -> tuple[str, ...]:
        return inside(self._namespaces[name], [one.folder for one in self._machines if one is not own])

    def switch(self, name: str, state: str) -> None:
        """Cuts the link of a host (`down`), or heals it (`up`)."""
        switch = self._namespaces[name].rpartition("-")[0] + "-switch"
        ip("-n", switch, "link", "set", name, state)

    def close(self) -> None:
        for machine in self._machines:
            machine.close()


@pytest.mark.more
def test_three_hosts_in_network_namespaces_share_one_ledger_through_cut_links() -> None:
    require_namespaces()
    names = ("server", "one", "two", "three", "worker")
    with network(names) as namespaces:
        team = NamespacedTeam(namespaces, TEAM.replace("LEASE", "20s"), names[1:4])
        try:
            team.serve()
            check_outcome(team.place, run_through_cuts(team.links, CAMPAIGN_TASKS, 3.0), CAMPAIGN_TASKS)
            check_fence(team.place, *team.links[:2])
        finally:
            team.close()


@pytest.mark.more
def test_verdicts_of_a_worker_in_a_namespace_travel_to_the_hosts_through_cut_links(database: str) -> None:
    """The server has PostgreSQL, which the worker reaches over its own link; that one is cut as well."""
    require_namespaces()
    names = ("server", "one", "two", "three", "worker")
    with network(names) as namespaces:
        team = NamespacedTeam(namespaces, TEAM.replace("LEASE", "60s"), names[1:4])
        try:
            socket = f"{parse_qs(urlsplit(database).query)['host'][0]}/.s.PGSQL.5432"
            command = (sys.executable, str(HERE / "relay.py"), f"{ADDRESS}.1", "5432", socket)
            relay = team.machine.start(team.machine.folder, *inside(namespaces["server"], ()), *command)
            assert relay.stdout is not None
            assert relay.stdout.readline() == "listening\n"
            team.machine.environment["REMAND_STORE"] = database
            team.serve()
            url = f"postgresql://postgres@{ADDRESS}.1:5432{urlsplit(database).path}"
            team.start_worker(url)
            cuts = [
                *team.links,
                Link(team.links[0].host, *(partial(team.switch, "worker", to) for to in ("down", "up"))),
            ]
            said = run_through_cuts(team.links, CAMPAIGN_TASKS, 3.0, cuts)
            check_outcome(team.place, said, CAMPAIGN_TASKS)
            check_fence(team.place, *team.links[:2])
            check_verdict_after_cut(team)
            assert log_faults(stored_lines(database), config=str(team.place.path / "remand.toml")) == []
        finally:
            team.close()


def check_verdict_after_cut(team: NamespacedTeam) -> None:
    """While the worker is cut off a submission waits; once the link is healed its verdict is there, once."""
    link = team.links[2]
    task = str(link.call("task", "add", "waits")[1]["task_id"])
    assert link.call("task", "claim", task, "--agent", AGENTS[2])[0] == 0
    commit = link.host.commit("waits", "waits.txt")
    team.switch("worker", "down")
    code, answer = link.call("task", "submit", task, "--agent", AGENTS[2], "--commit", commit)
    assert code == 3, answer
    team.switch("worker", "up")
    code, answer = link.call("gate", "wait", task)
    assert (code, answer["status"]) == (0, "passed"), answer
    assert [row["status"] for row in team.place.ok("gate", "history", task)] == ["passed"]
    assert team.place.ok("task", "show", task)["status"] == "provisional"
