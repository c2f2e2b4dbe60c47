"""Three hosts that share no disk, and links that are cut and healed: single winners, fenced leases, nothing lost or doubled."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.cut_proxy import CutProxy
from tests.integration.http_client import RunningServer, run_server
from tests.integration.machine import HERE, PATIENCE, REMAND, Machine, Repository
from tests.integration.server_hosts import ServerHost, user_token

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


def run_through_cuts(links: Sequence[Link], tasks: int, seconds: float) -> list[dict[str, object]]:
    """Has an agent on each host work through the queue, while links are cut for a while again and again."""
    for number in range(tasks):
        assert links[0].call("task", "add", f"task {number}")[0] == 0
    agents = [link.start_agent(name) for link, name in zip(links, AGENTS, strict=True)]
    chance = random.Random(7)
    while any(agent.poll() is None for agent in agents):
        link = chance.choice(list(links))
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
    assert place.ok("task", "show", task)["agent"] == AGENTS[1]
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


@pytest.mark.more
def test_three_hosts_in_network_namespaces_share_one_ledger_through_cut_links() -> None:
    require_namespaces()
    machine = Machine()
    names = ("server", "one", "two", "three")
    hosts: list[ServerHost] = []
    try:
        place = machine.repository(config=TEAM.replace("LEASE", "20s"))
        certificate, key = make_certificate(machine.folder)
        with network(names) as namespaces:
            process = machine.start(
                place.path,
                *inside(namespaces["server"], ()),
                *(REMAND, "serve", "--json", "--no-open", "--host", f"{ADDRESS}.1", "--port", "8787"),
                *("--tls-cert", certificate, "--tls-key", key),
            )
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())
            token = user_token(place)
            links = []
            for _ in names[1:]:
                host = ServerHost(place.path, address["url"], token)
                host.machine.git(host.clone.path, "remote", "set-url", "origin", "/nowhere")
                (host.machine.folder / "ca.pem").write_text(Path(certificate).read_text())
                host.machine.environment["REMAND_CA"] = str(host.machine.folder / "ca.pem")
                hosts.append(host)
            for host, name in zip(hosts, names[1:], strict=True):
                switch = namespaces[name].rpartition("-")[0] + "-switch"
                link = Link(
                    host,
                    lambda name=name, switch=switch: ip("-n", switch, "link", "set", name, "down"),
                    lambda name=name, switch=switch: ip("-n", switch, "link", "set", name, "up"),
                )
                others = [machine.folder, *(one.machine.folder for one in hosts if one is not host)]
                link.prefix = inside(namespaces[name], others)
                links.append(link)
            check_outcome(place, run_through_cuts(links, CAMPAIGN_TASKS, 3.0), CAMPAIGN_TASKS)
            check_fence(place, *links[:2])
    finally:
        for host in hosts:
            host.close()
        machine.close()
