"""Evidence through a queue: a worker looks, signs what it saw, and nobody else's word counts for it."""

import threading
from collections.abc import Callable

import pytest

from remand.adapters.stores.shared_data import EmbeddedSharedData
from remand.app.errors import EnvironmentFault
from remand.app.gates.jobs import EVIDENCE_CHECK, WorkerTerms
from remand.app.gates.queued_work import PROBE_SECONDS, CommitSource, ProbeWorker, QueuedProbes
from remand.app.ports import CommandOutcome
from remand.app.requests import Rules
from remand.testing.fakes import FakeKeys
from tests.support.builders import FakeLedger
from tests.support.job_contract import MemoryJobs

SEEN = CommandOutcome(7, "it fails", is_cut=True)
SHA = "a" * 40


class World:
    """Two machines of one ledger: one asks, and the worker of the other works while it waits."""

    def __init__(self, other: FakeLedger | None = None) -> None:
        self.made = FakeLedger()
        self.other = other or self.made
        self.queue = MemoryJobs()
        self.values: dict[str, str] = {}
        self.shared = EmbeddedSharedData(lambda key: self.values.get(key, ""), self.values.__setitem__)
        self.now, self.why = 0.0, ""
        self.fetched: list[str] = []
        self.ran: list[object] = []
        self.work: Callable[[], None] = self.work_once
        self.probes = QueuedProbes(
            self.made.ledger,
            self.queue,
            self.shared,
            lambda: self.made.rules,
            base=lambda: "",
            new_key=self.made.ids.hex,
            sleep=self.pass_time,
            clock=lambda: self.now,
        )
        self.worker = ProbeWorker(
            self.other.ledger,
            lambda: self.other.rules,
            CommitSource(lambda _: "", self.fetch),
            self.shared,
            commands=lambda: self,
            pages=lambda: self,
        )

    def fetch(self, _: str, commit: str) -> str:
        self.fetched.append(commit)
        return self.why

    def run(self, command: tuple[str, ...], commit: str) -> CommandOutcome | None:
        self.ran.append((command, commit))
        return SEEN

    def get(self, url: str) -> CommandOutcome | None:
        self.ran.append(url)
        return None

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.work()

    def work_once(self) -> None:
        terms = WorkerTerms({EVIDENCE_CHECK: self.worker.run}, threading.Event(), is_once=True)
        self.queue.work(terms)


def test_a_worker_runs_the_command_at_its_commit_and_whoever_asked_is_told_what_it_saw() -> None:
    world = World()

    assert world.probes.run(("make", "test"), SHA) == SEEN
    assert world.probes.get("https://example.org") is None
    assert world.ran == [(("make", "test"), SHA), "https://example.org"]
    assert world.fetched == [SHA]
    assert world.values == {"shared evidence": "{}"}, "what was read is kept no longer"


def test_a_commit_that_the_worker_cannot_get_is_said_and_nothing_runs() -> None:
    world = World()
    world.why = "the remote is away"

    with pytest.raises(EnvironmentFault, match="cannot get the commit: the remote is away"):
        world.probes.run(("make", "test"), SHA)
    assert world.ran == []


def test_without_a_worker_the_evidence_stays_unchecked_and_what_nobody_waits_for_is_not_run() -> None:
    world = World()
    world.work = lambda: None

    with pytest.raises(EnvironmentFault, match="remand worker"):
        world.probes.run(("make", "test"), SHA)
    assert world.now < PROBE_SECONDS
    world.made.clock.advance(2 * PROBE_SECONDS)
    world.work_once()
    assert world.ran == []


def test_what_no_trusted_key_signed_is_neither_run_nor_believed() -> None:
    world = World(FakeLedger(keys=FakeKeys("stranger")))
    with pytest.raises(EnvironmentFault, match="reported nothing"):
        world.probes.run(("make", "test"), SHA)
    assert world.ran == []

    asker = world.made.keys.ensure_key()
    world.other.rules = Rules(gates=(), trusted=(asker,))
    with pytest.raises(EnvironmentFault, match="no trusted key"):
        world.probes.run(("make", "test"), SHA)
    assert len(world.ran) == 1

    world.made.rules = Rules(gates=(), trusted=(world.other.keys.ensure_key(),))
    assert world.probes.run(("make", "test"), SHA) == SEEN
