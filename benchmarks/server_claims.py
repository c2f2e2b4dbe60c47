"""Claims through HTTP servers in front of PostgreSQL: beside peers that fetch jobs through their own libraries, by two
servers at once with the waits for locks, and beside a thousand agents that are connected.

A client has a connection that stays open and a token of its own, and waits for its claim before it asks for the next one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from urllib.parse import urlsplit

import psycopg

from benchmarks import queues as q
from benchmarks.floors import CONSTANT, ROW, fill_rows, make_tables, running_floor
from benchmarks.postgres_claims import CLIENTS, Clients, OurClients, PeerClients, peer_places
from benchmarks.report import Report, millis
from benchmarks.scratch import repository, server_address
from remand.app.tokens import create_token
from remand.domain.access.team import USER
from remand.domain.access.tokens import TokenRole
from remand.domain.instant import add_seconds
from remand.testing import postgres

AGENTS, HEARTBEAT_SECONDS, CLAIMS_PER_SECOND = 1000, 30.0, 20
_AGENTS_SECONDS = 40.0
_MEMBERS = 50
"""How many members the connected agents are: each has a task and a connection of its own."""
_SAMPLE_SECONDS = 0.01
_WAITING = """
SELECT wait_event FROM pg_stat_activity WHERE datname = 'ours' AND wait_event_type = 'Lock'
"""


class HttpClient:
    """An agent that calls a server through one connection."""

    def __init__(self, url: str, token: str, agent: str) -> None:
        self._url = urlsplit(url)
        self._headers = (
            f"host: {self._url.netloc}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"
        )
        self.agent = agent
        self.task = ""
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, values: dict[str, str]) -> dict[str, object]:
        """What a command answers; raises when it is refused."""
        if self._ends is None:
            self._ends = await asyncio.open_connection(self._url.hostname, self._url.port)
        reader, writer = self._ends
        body = json.dumps(values).encode()
        head = f"POST {path} HTTP/1.1\r\n{self._headers}content-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        found = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(found.partition("content-length:")[2].partition("\r\n")[0])
        answer = await reader.readexactly(length)
        if " 200 " not in found[:20]:
            raise RuntimeError(f"{path}: {found[:40]!r} {answer[:300]!r}")
        return json.loads(answer)  # type: ignore[no-any-return]

    async def claim(self) -> str:
        """Claims the next task; gives its id."""
        self.task = str((await self.post("/api/task/claim", {"agent": self.agent}))["task_id"])
        return self.task

    async def heartbeat(self) -> None:
        """Says that the agent is still working on its task."""
        await self.post("/api/task/heartbeat", {"id": self.task, "agent": self.agent})

    def close(self) -> None:
        """Closes the connection."""
        if self._ends is not None:
            self._ends[1].close()


class HttpClients:
    """Clients of one or several servers, as tasks of one event loop."""

    def __init__(self, fill: Callable[[int], None], urls: Sequence[str], tokens: Sequence[str]) -> None:
        self.fill = fill
        """Adds tasks in batches, past the servers."""
        self._loop = asyncio.new_event_loop()
        self.clients = [
            HttpClient(urls[number % len(urls)], token, f"agent-{number:02d}")
            for number, token in enumerate(tokens)
        ]
        self.waits: Counter[str] = Counter()
        """How often a sample found a backend that waits for a lock, by its kind; and how many samples there are."""

    def claims(self, seconds: float) -> q.Claimed:
        """Claims the next task, each client for an agent of its own."""
        until = q.Until(end=time.perf_counter() + seconds)

        async def all_of_them() -> list[q.Claimed]:
            return list(await asyncio.gather(*(_claim_until(one, until) for one in self.clients)))

        return q.merged(self._loop.run_until_complete(all_of_them()))

    def close(self) -> None:
        """Closes the connections."""
        for one in self.clients:
            one.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


async def _claim_until(client: HttpClient, until: q.Until) -> q.Claimed:
    claimed = q.Claimed()
    while not until.is_over(len(claimed.seconds)):
        start = time.perf_counter()
        until.note(claimed, start, await client.claim())
    return claimed


@contextmanager
def running_server(repo: str, url: str) -> Iterator[str]:
    """Runs a server of the ledger in a database; gives its address."""
    command = (
        sys.executable,
        "-m",
        "remand.interfaces.cli.entry",
        "-C",
        repo,
        "serve",
        "--port",
        "0",
        "--json",
    )
    with server_address((*command, "--store", url)) as address:
        yield address


def make_tokens(ours: OurClients, agents: Sequence[str]) -> list[str]:
    """Tokens of agents, a day long."""
    ledger, rules = ours.opened.ledger, ours.opened.settings.rules()
    until = add_seconds(ledger.clock.now(), 86_400)
    user = rules.team.actor(USER)
    return [
        create_token(
            ledger, rules, user, member=agent, role=TokenRole.AGENT, starts=(), expires_at=until
        ).text
        for agent in agents
    ]


@contextmanager
def sampled_waits(conninfo: str, waits: Counter[str]) -> Iterator[None]:
    """Looks at all backends again and again, and counts those that wait for a lock, by its kind."""
    is_over = threading.Event()

    def sample() -> None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            while not is_over.wait(_SAMPLE_SECONDS):
                waits["samples"] += 1
                waits.update(kind for (kind,) in connection.execute(_WAITING))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def run(report: Report) -> None:
    """Prints the tables."""
    report.heading(f"Claims through HTTP, {CLIENTS} clients (peers: job fetches through their own libraries)")
    with postgres.server() as conninfo, ExitStack() as stack:
        if not conninfo:
            print("No PostgreSQL is installed: nothing was measured.")
            return
        places, url = peer_places(conninfo)
        repo = repository(os.path.join(report.folder, "server"))
        ours = OurClients(repo, url)
        stack.callback(ours.close)
        tokens = make_tokens(ours, [f"agent-{number:02d}" for number in range(CLIENTS)])
        addresses = [stack.enter_context(running_server(repo, url)) for _ in range(2)]
        one, two = HttpClients(ours.fill, addresses[:1], tokens), HttpClients(ours.fill, addresses, tokens)
        floors = [
            stack.enter_context(running_floor("constant")),
            stack.enter_context(running_floor("row", places["floor"])),
        ]
        make_tables(places["floor"])
        clients: dict[str, Clients] = {
            "remand, one server": one,
            "remand, two servers": two,
            CONSTANT: HttpClients(lambda _: None, floors[:1], tokens),
            ROW: HttpClients(lambda number: fill_rows(places["floor"], number), floors[1:], tokens),
            q.PROCRASTINATE: PeerClients(lambda loop: q.ProcrastinateQueue(places["procrastinate"], loop)),
            q.PGQUEUER: PeerClients(lambda loop: q.PgQueuerQueue(places["pgqueuer"], loop)),
        }
        for made in clients.values():
            stack.callback(made.close)
        _compare(report, clients, two, conninfo)
        _measure_agents(report, ours, addresses[0])


def _compare(report: Report, clients: dict[str, Clients], two: HttpClients, conninfo: str) -> None:
    quiet, rng, seconds = report.quiet(), random.Random(3), max(report.scale.slice_seconds, 1.0)
    found: dict[str, list[q.Claimed]] = {name: [] for name in clients}
    for number in range(report.scale.turns + 1):
        names = list(clients)
        rng.shuffle(names)
        quiet.wait()
        for name in names:
            last = found[name][-1].names if found[name] else ()
            clients[name].fill(max(3 * len(last), 6000))
            with sampled_waits(conninfo, two.waits if clients[name] is two else Counter()):
                claimed = clients[name].claims(seconds)
            if number:
                found[name].append(claimed)
    rates = {name: [one.in_time / seconds for one in slices] for name, slices in found.items()}
    rows = []
    for name, slices in found.items():
        times = sorted(second for one in slices for second in one.seconds)
        names = [claimed for one in slices for claimed in one.names]
        waits = {kind: count for kind, count in two.waits.items() if kind != "samples"}
        shown = f"{sum(waits.values())} in {two.waits['samples']} samples {waits or ''}"
        rows.append(
            (
                name,
                f"{median(rates[name]):,.0f}",
                millis(times[len(times) // 2]),
                millis(times[int(len(times) * 0.99)]),
                len(names) - len(set(names)),
                shown if clients[name] is two else "",
            )
        )
    headers = (
        f"{CLIENTS} clients, {seconds:g} s",
        "claims/s",
        "p50 ms",
        "p99 ms",
        "doubles",
        "waits for locks",
    )
    report.table(headers, rows, quiet)
    for peer in (q.PROCRASTINATE, q.PGQUEUER):
        pairs = zip(rates["remand, one server"], rates[peer], strict=True)
        ratio = median(own / max(theirs, 1.0) for own, theirs in pairs)
        report.goal(
            f"claims/s in PostgreSQL, {CLIENTS} clients: through HTTP / {peer}'s library",
            ratio,
            quiet,
            least=1.5,
        )


def _measure_agents(report: Report, ours: OurClients, url: str) -> None:
    """Claims at a fixed rate beside agents that only say that they are still at work."""
    quiet = report.quiet()
    names = [f"idle-{number:02d}" for number in range(_MEMBERS)]
    ours.fill(AGENTS + int(2 * CLAIMS_PER_SECOND * _AGENTS_SECONDS))
    tokens = make_tokens(ours, [*names, "claiming"])
    idle = [HttpClient(url, tokens[number % _MEMBERS], names[number % _MEMBERS]) for number in range(AGENTS)]
    claiming = [HttpClient(url, tokens[-1], "claiming") for _ in range(10)]
    loop = asyncio.new_event_loop()
    seconds, beats = loop.run_until_complete(_beside(idle, claiming))
    times = sorted(seconds)
    p99 = times[int(len(times) * 0.99)]
    report.table(
        (f"{AGENTS:,} agents, a heartbeat every {HEARTBEAT_SECONDS:g} s each", "p50 ms", "p99 ms", "count"),
        [
            (f"{CLAIMS_PER_SECOND} claims a second", millis(times[len(times) // 2]), millis(p99), len(times)),
            ("heartbeats", millis(median(beats)), millis(sorted(beats)[int(len(beats) * 0.99)]), len(beats)),
        ],
        quiet,
    )
    report.goal(f"claim p99 beside {AGENTS:,} connected agents", p99 * 1000, quiet, most=100, unit="ms")
    for one in (*idle, *claiming):
        one.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


async def _beside(idle: list[HttpClient], claiming: list[HttpClient]) -> tuple[list[float], list[float]]:
    for start in range(0, len(idle), CLIENTS):
        await asyncio.gather(*(one.claim() for one in idle[start : start + CLIENTS]))
    await claiming[0].claim()
    claims: list[float] = []
    beats: list[float] = []
    end = time.perf_counter() + _AGENTS_SECONDS

    async def beat(one: HttpClient, at: float) -> None:
        while at < end:
            await asyncio.sleep(at - time.perf_counter())
            begun = time.perf_counter()
            await one.heartbeat()
            beats.append(time.perf_counter() - begun)
            at += HEARTBEAT_SECONDS

    async def claim(one: HttpClient, at: float) -> None:
        while at < end:
            await asyncio.sleep(at - time.perf_counter())
            # From when it was due: a claim that waits for the one before it waits, too.
            await one.claim()
            claims.append(time.perf_counter() - at)
            at += len(claiming) / CLAIMS_PER_SECOND

    now, rng = time.perf_counter(), random.Random(5)
    await asyncio.gather(
        *(beat(one, now + rng.random() * HEARTBEAT_SECONDS) for one in idle),
        *(claim(one, now + number / CLAIMS_PER_SECOND) for number, one in enumerate(claiming)),
    )
    return claims, beats
