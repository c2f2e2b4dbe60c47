"""Done claims through a queue: a worker measures, its verdict counts once, and only a trusted signature makes it work."""

import threading
from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from remand.app.errors import EnvironmentFault
from remand.app.gates.done_claims import VERDICT_EVENTS, ClaimOutcome, DoneClaims
from remand.app.gates.jobs import GATE_RUN, JobState, JobTaken, QueuedJob, WorkerTerms
from remand.app.gates.known_results import VerdictResult
from remand.app.gates.queued_work import MAX_FETCHES, CommitSource, GateWorker, QueuedClaims, require_current
from remand.app.requests import Acceptance, Request, Rules
from remand.domain import commands as c
from remand.domain.events.tasks import TaskSubmitted
from remand.domain.events.work import GateErrored, GatePassed
from remand.domain.gate.verdict import GateStatus, Verdict
from remand.domain.refusals import Refused
from tests.support.builders import FakeLedger, a_result, a_verdict
from tests.support.job_contract import MemoryJobs

KEY = "k-1"
BASE = "b" * 40


class World:
    """A ledger with a claimed task, a queue, and a worker that works whenever a claim waits."""

    def __init__(self, *labels: str, is_good: bool = True) -> None:
        self.made = FakeLedger(rules=Rules(gates=("tests",), gates_digest="p1"))
        self.ledger = self.made.ledger
        self.task, _ = self.made.add_and_claim()
        self.sha = self.made.repository.add("work")
        self.queue = MemoryJobs()
        self.why = self.why_base = ""
        self.refreshed: list[str] = []
        self.newer: Rules | None = None
        """What the base says once it was fetched."""
        self.needed: tuple[str, ...] = ()
        """The labels that the worker's base wants."""
        self.said: list[str] = []
        self.measured = 0
        self.now = 0.0
        self.is_good = is_good
        self.labels = labels
        self.has_worker = True
        self.is_current: Callable[[QueuedJob], bool] = self.queue.is_current

    def verdict(self) -> Verdict:
        self.measured += 1
        result = a_result("tests", GateStatus.PASSED) if self.is_good else a_result("tests", excess=3.0)
        return a_verdict(result, commit=self.sha, tree="tree of work", policy="p1")

    @cached_property
    def worker(self) -> GateWorker:
        return GateWorker(
            self.ledger,
            lambda: self.made.rules,
            CommitSource(self.refresh, lambda task_id, commit: self.why),
            claims=self._worker_claims,
            labels=lambda task, commit: self.needed,
            is_current=lambda job: self.is_current(job),  # noqa: PLW0108 - tests set another
            report=self.said.append,
            own_labels=self.labels,
        )

    def refresh(self, base: str) -> str:
        self.refreshed.append(base)
        self.made.rules = self.newer or self.made.rules
        return self.why_base

    def _worker_claims(self, is_current: Callable[[], bool]) -> DoneClaims:
        def verdict(_: object) -> VerdictResult:
            judged = self.verdict()
            require_current(is_current)
            return VerdictResult(judged)

        return DoneClaims(self.ledger, terms, verdict)

    def claim(self, seconds: float = 60.0, key: str = KEY) -> ClaimOutcome | None:
        claims = QueuedClaims(
            self.ledger,
            self.queue,
            DoneClaims(self.ledger, terms, lambda _: None),
            lambda: self.made.rules,
            base=lambda: BASE,
            labels=lambda task, commit: self.labels,
            new_key=self.made.ids.hex,
            sleep=self.pass_time,
            clock=lambda: self.now,
        )
        work = c.SubmitTask(task_id=self.task, agent="Alice", commit="work")
        return claims.claim(Request(command=work, actor="Alice", key=key), self.ledger.ask, seconds)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        if self.has_worker:
            self.work()

    def work(self) -> None:
        self.queue.work(
            WorkerTerms({GATE_RUN: self.worker.run}, threading.Event(), self.labels, is_once=True)
        )

    def events(self, *kinds: type) -> list[Any]:
        return [event for event in self.made.events() if isinstance(event, kinds)]


def terms(*_: object) -> Any:
    return SimpleNamespace(claimed_under=None)


def waiting_job(world: World) -> QueuedJob:
    """The job of a claim for which no worker was there."""
    world.has_worker = False
    assert world.claim(0.0) is None
    [job] = world.queue.unclaimed_jobs()
    return job


def test_a_worker_measures_the_claim_and_hands_it_in() -> None:
    world = World()

    found = world.claim()

    assert found is not None
    assert isinstance(found.answer, Acceptance)
    assert len(world.events(GatePassed)) == len(world.events(TaskSubmitted)) == 1
    assert world.measured == 1
    assert found.verdict is not None
    assert found.verdict.status is GateStatus.PASSED


def test_who_waited_is_told_what_the_worker_found() -> None:
    world = World(is_good=False)

    found = world.claim()

    assert found is not None
    assert isinstance(found.answer, Refused)
    assert found.answer.code == "gate_rejected"
    assert len(world.events(*VERDICT_EVENTS)) == 1
    assert world.measured == 1


@pytest.mark.parametrize("is_good", [True, False])
def test_a_verdict_counts_once_however_often_its_job_runs(is_good: bool) -> None:
    world = World(is_good=is_good)
    job = waiting_job(world)
    world.is_current = lambda _: True

    for _ in range(3):
        world.worker.run(job)

    assert len(world.events(*VERDICT_EVENTS)) == 1
    assert world.measured == 1


def test_a_run_that_another_worker_has_by_now_records_nothing() -> None:
    world = World()
    job = waiting_job(world)
    world.is_current = lambda _: False

    with pytest.raises(JobTaken):
        world.worker.run(job)

    assert world.measured == 1
    assert not world.events(*VERDICT_EVENTS)


def test_a_commit_that_cannot_be_had_is_errored_and_never_failed() -> None:
    world = World()
    world.why = "the remote is away"

    found = world.claim()

    assert found is not None
    assert isinstance(found.answer, Refused)
    assert found.answer.code == "gate_errored"
    assert len(world.events(GateErrored)) == len(world.events(*VERDICT_EVENTS)) == 1
    said = world.events(GateErrored)[0].verdict.gates[0].detail
    assert "the remote is away" in said
    assert f"Push it to refs/remand/submitted/{world.task}" in said, "it says what to do"
    assert world.measured == 0


def test_a_commit_that_comes_late_is_measured_after_all() -> None:
    world = World()
    world.why = "the remote is away"
    job = waiting_job(world)
    world.is_current = lambda _: True
    for _ in range(MAX_FETCHES - 1):
        with pytest.raises(EnvironmentFault, match="is not available"):
            world.worker.run(msgspec.structs.replace(job, epoch=50))  # begun again often, which says nothing
    world.why = ""

    world.worker.run(msgspec.structs.replace(job, epoch=51))

    assert len(world.events(GatePassed)) == 1


def test_a_worker_measures_by_no_base_that_is_older_than_the_one_it_was_queued_by() -> None:
    world = World()
    world.why_base = "the remote is a mirror that lags"
    job = waiting_job(world)
    world.is_current = lambda _: True
    with pytest.raises(EnvironmentFault, match="a mirror that lags"):
        world.worker.run(job)
    assert world.measured == 0
    world.why_base = ""

    world.worker.run(job)

    assert world.refreshed == [BASE, BASE]
    assert len(world.events(GatePassed)) == 1


def test_the_base_is_fetched_before_anybody_is_called_untrusted() -> None:
    world = World()
    job = waiting_job(world)
    world.is_current = lambda _: True
    world.newer = world.made.rules
    world.made.rules = msgspec.structs.replace(world.made.rules, has_keys=True, has_remote=True)

    world.worker.run(job)

    assert len(world.events(GatePassed)) == 1


@pytest.mark.parametrize(
    ("code", "fault"), [("key_not_trusted", Refused), ("not_measured", EnvironmentFault)]
)
def test_what_this_machine_alone_cannot_do_gives_the_job_back(code: str, fault: type[Exception]) -> None:
    world = World()
    job = waiting_job(world)
    refused = ClaimOutcome(answer=Refused(code, "Not here."))
    world.worker.claims = lambda _: SimpleNamespace(claim=lambda *_: refused)  # type: ignore[assignment,return-value]

    with pytest.raises(fault, match="Not here"):
        world.worker.run(job)


def test_who_waits_is_told_that_the_run_ended_without_a_verdict() -> None:
    world = World()
    world.worker.run = world.said.append  # type: ignore[method-assign,assignment]

    with pytest.raises(EnvironmentFault, match="ended without a verdict"):
        world.claim()


def test_who_waits_is_told_that_a_later_claim_stands_for_theirs() -> None:
    world = World()
    world.has_worker = False
    asked = world.pass_time

    def claim_again(seconds: float) -> None:
        asked(seconds)
        world.pass_time = asked  # type: ignore[method-assign]
        assert world.claim(0.0, key="k-2") is None

    world.pass_time = claim_again  # type: ignore[method-assign]
    with pytest.raises(EnvironmentFault, match="A later done claim"):
        world.claim()


def test_a_worker_without_the_labels_that_the_base_wants_by_now_leaves_the_job_to_another() -> None:
    world = World()
    world.needed = ("gpu",)
    job = waiting_job(world)

    world.work()

    assert world.measured == 0
    assert [one.labels for one in world.queue.unclaimed_jobs() if one.key == job.key] == [("gpu",)]


def test_a_claim_that_nobody_trusted_signed_is_left_alone() -> None:
    world = World()
    job = waiting_job(world)
    fields = msgspec.json.decode(job.arguments)
    forged = fields["request"].replace("Alice", "Mallory")
    for arguments in (
        msgspec.json.encode(fields | {"request": forged}).decode(),
        msgspec.json.encode(fields | {"key": "0" * 16}).decode(),
        "{}",
        "",
        msgspec.json.encode(fields | {"base": "c" * 40}).decode(),
        msgspec.json.encode(fields | {"base": ""}).decode(),
    ):
        world.worker.run(msgspec.structs.replace(job, arguments=arguments))
    world.worker.run(msgspec.structs.replace(job, key="another/verdict"))

    assert len(world.said) == 7
    assert all("trusted key" in text for text in world.said)
    assert world.measured == 0
    assert not world.events(*VERDICT_EVENTS)


def test_a_worker_whose_key_the_base_does_not_trust_measures_nothing() -> None:
    world = World()
    job = waiting_job(world)
    world.made.rules = msgspec.structs.replace(world.made.rules, has_keys=True, has_remote=True)

    with pytest.raises(Refused, match="remand keys request") as refused:
        world.worker.run(job)

    assert refused.value.code == "key_not_trusted"
    assert world.measured == 0
    assert world.queue.state(job.key) is JobState.WAITING


def test_a_claim_says_that_no_worker_can_take_it() -> None:
    world = World("linux", "node22")
    world.needed = world.labels
    world.has_worker = False

    with pytest.raises(EnvironmentFault, match="remand worker --labels linux,node22"):
        world.claim()

    world.has_worker = True
    found = world.claim()
    assert found is not None
    assert isinstance(found.answer, Acceptance)


def test_a_claim_names_the_earlier_run_of_its_task_for_which_no_worker_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.has_worker = False
    earlier = QueuedJob(kind=GATE_RUN, key="earlier", labels=("gone",), lock=world.task)
    monkeypatch.setattr(world.queue, "unclaimed_jobs", lambda: (earlier,))

    with pytest.raises(EnvironmentFault, match="remand worker --labels gone"):
        world.claim()


def test_claims_without_a_key_have_one_each_and_the_later_stands_for_the_earlier() -> None:
    world = World()
    world.has_worker = False
    assert world.claim(0.0, key="") is None
    [first] = world.queue.unclaimed_jobs()
    assert world.claim(0.0, key="") is None

    [second] = world.queue.unclaimed_jobs()
    assert first.key != second.key
    world.work()
    assert len(world.events(GatePassed)) == 1
