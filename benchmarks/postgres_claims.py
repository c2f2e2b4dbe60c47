"""Durable claims in PostgreSQL by many clients at once: the store called directly, beside peers on the same server.

A client waits for its claim before it asks for the next one. Ours are threads of one process, as in a server, whose
requests are decided and committed in groups; those of the peers are tasks of one event loop, each with a connection of
its own, which fetch jobs through the peers' own libraries.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Protocol

import psycopg

from benchmarks import queues as q
from benchmarks.floors import GROUPS, GroupClients
from benchmarks.report import Report, millis
from benchmarks.scratch import accepted, adding, ask_all, repository
from remand.app.group_commit import GroupCommit
from remand.app.requests import Request
from remand.domain import commands as c
from remand.testing import postgres
from remand.wiring.ledger import find_place, open_at

CLIENTS = 32
OURS = "remand, store called directly"
_PEERS = ("procrastinate", "pgqueuer", "floor")
_AHEAD = 3.0
"""So many times the claims of the last turn are queued before the next."""


class Clients(Protocol):
    """Clients of one queue."""

    def fill(self, count: int) -> None:
        """Queues so many tasks."""

    def claims(self, seconds: float) -> q.Claimed:
        """Lets all of them claim for a while."""

    def close(self) -> None:
        """Lets go of the queue."""


class OurClients:
    """Threads that share a ledger in PostgreSQL, as those of a server do."""

    def __init__(self, repo: str, url: str) -> None:
        self.opened = open_at(find_place(repo), "", url)
        self._group = GroupCommit(self.opened.ledger)

    def fill(self, count: int) -> None:
        """Adds tasks in batches."""
        ask_all(self.opened.ledger, adding(count))

    def claims(self, seconds: float) -> q.Claimed:
        """Claims the next task, each thread for an agent of its own."""
        agents = [f"agent-{number:02d}" for number in range(CLIENTS)]
        requests = [Request(command=c.ClaimTask(agent=one), actor=one, branch="main") for one in agents]
        return q.thread_claims(
            CLIENTS, seconds, lambda number: accepted(self._group.ask(requests[number])).task.id
        )

    def close(self) -> None:
        """Closes the connections."""
        self.opened.store.close()


class PeerClients:
    """Tasks of one event loop, each with a connection of its own."""

    def __init__(self, make: Callable[[asyncio.AbstractEventLoop], q.AsyncQueue]) -> None:
        self._loop = asyncio.new_event_loop()
        self._queues = [make(self._loop) for _ in range(CLIENTS)]

    def fill(self, count: int) -> None:
        """Queues jobs in batches."""
        self._queues[0].fill(count)

    def claims(self, seconds: float) -> q.Claimed:
        """Fetches jobs."""
        until = q.Until(end=time.perf_counter() + seconds)

        async def all_of_them() -> list[q.Claimed]:
            return list(await asyncio.gather(*(queue.claim_until(until) for queue in self._queues)))

        return q.merged(self._loop.run_until_complete(all_of_them()))

    def close(self) -> None:
        """Closes the connections."""
        for queue in self._queues:
            queue.run(queue.shut())
        self._loop.close()


def peer_places(conninfo: str) -> tuple[dict[str, str], str]:
    """Makes a database for each queue: how the peers connect to theirs, and the address of ours."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for name in ("ours", *_PEERS):
            connection.execute(f"CREATE DATABASE {name}".encode())
    places = {name: conninfo.replace("dbname=postgres", f"dbname={name}") for name in _PEERS}
    return places, f"postgresql://postgres@/ours?host={conninfo.split(maxsplit=1)[0].removeprefix('host=')}"


def run(report: Report) -> None:
    """Prints the table."""
    scale = report.scale
    report.heading(f"Claims in PostgreSQL, {CLIENTS} clients (peers: no lockouts, no rejected-first, no log)")
    with postgres.server() as conninfo:
        if not conninfo:
            print("No PostgreSQL is installed: nothing was measured.")
            return
        places, url = peer_places(conninfo)
        repo = repository(os.path.join(report.folder, "postgres"))
        clients: dict[str, Clients] = {
            OURS: OurClients(repo, url),
            GROUPS: GroupClients(places["floor"], CLIENTS),
            q.PROCRASTINATE: PeerClients(lambda loop: q.ProcrastinateQueue(places["procrastinate"], loop)),
            q.PGQUEUER: PeerClients(lambda loop: q.PgQueuerQueue(places["pgqueuer"], loop)),
        }
        try:
            _compare(report, clients, scale.turns, max(scale.slice_seconds, 1.0))
        finally:
            for one in clients.values():
                one.close()


def _compare(report: Report, clients: dict[str, Clients], turns: int, seconds: float) -> None:
    quiet = report.quiet()
    rng = random.Random(3)
    found: dict[str, list[q.Claimed]] = {name: [] for name in clients}
    queued = dict.fromkeys(clients, 8000)
    for number in range(turns + 1):
        names = list(clients)
        rng.shuffle(names)
        quiet.wait()
        for name in names:
            clients[name].fill(queued[name])
            claimed = clients[name].claims(seconds)
            queued[name] = max(int(_AHEAD * len(claimed.names)), 500)
            if number:
                found[name].append(claimed)
    rates = {name: [one.in_time / seconds for one in slices] for name, slices in found.items()}
    rows = []
    for name, slices in found.items():
        times = sorted(second for one in slices for second in one.seconds)
        names = [claimed for one in slices for claimed in one.names]
        rows.append(
            (
                name,
                f"{median(rates[name]):,.0f}",
                f"{min(rates[name]):,.0f}–{max(rates[name]):,.0f}",
                millis(times[len(times) // 2]),
                millis(times[int(len(times) * 0.99)]),
                len(names) - len(set(names)),
                sum(one.failures for one in slices),
            )
        )
    report.table(
        (f"{CLIENTS} clients, {seconds:g} s", "claims/s", "from–to", "p50 ms", "p99 ms", "doubles", "failed"),
        rows,
        quiet,
    )
    for peer in (q.PROCRASTINATE, q.PGQUEUER):
        pairs = zip(rates[OURS], rates[peer], strict=True)
        ratio = median(ours / max(theirs, 1.0) for ours, theirs in pairs)
        report.goal(
            f"claims/s in PostgreSQL, {CLIENTS} clients: store called directly / {peer}",
            ratio,
            quiet,
            least=3,
        )
