"""Done claims and evidence checks through a queue: requested on one host, done by a worker on another, and recorded once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.gates.done_claims import ClaimOutcome, DoneClaims
from remand.app.gates.jobs import (
    EVIDENCE_CHECK,
    GATE_RUN,
    JobQueue,
    JobState,
    JobTaken,
    LabelsMissing,
    QueuedJob,
    can_take,
)
from remand.app.ledger import Ledger
from remand.app.ports import CommandOutcome, CommandProbes, Keys, Pages, SharedData
from remand.app.requests import Answer, Request, Rules
from remand.app.tokens import SignatureStamp, sign_content
from remand.domain import commands as c
from remand.domain.decisions.gates import is_unmeasured
from remand.domain.instant import Instant, add_seconds
from remand.domain.preconditions import require_trusted_key
from remand.domain.record import Record
from remand.domain.refusals import ENVIRONMENT, Refused
from remand.domain.task import Task

CLAIM_SECONDS = 600.0
"""How long a done claim waits for its verdict."""
ALONE_SECONDS = 5.0
"""How long it waits if no worker can take it."""
LOOK_SECONDS = 0.2
MAX_FETCHES = 3
"""How often a worker tries to fetch a commit before the gates count as errored."""
_PURPOSE = b"remand job v1\n"
_encode = msgspec.json.Encoder(order="deterministic").encode


class SignedRequest(Record, kw_only=True):
    """A done claim in the queue, signed by whoever accepted it: workers trust nobody else."""

    request: str
    key: str
    """The id of the signer's key."""
    signature: str
    base: str = ""
    """The remote's base tip that the signer used, also signed: a worker measures by no older one."""

    @property
    def content(self) -> bytes:
        """What is signed, for the project. A request begins with a brace, which no commit id contains."""
        base = f"{self.base}\n" if self.base else ""
        return _PURPOSE + f"{base}{self.request}".encode()

    def is_trusted(self, rules: Rules, keys: Keys) -> bool:
        """True if a key that counts here signed it."""
        stamp = SignatureStamp(key=self.key, signature=self.signature)
        return stamp.covers(self.content, rules, keys)


_decode = msgspec.json.Decoder(SignedRequest).decode
_decode_request = msgspec.json.Decoder(Request).decode


class CommitSource(NamedTuple):
    """How a worker gets what a job needs. Both return why they failed."""

    refresh: Callable[[str], str]
    """Fetches the base up to a commit or beyond."""
    fetch: Callable[[str, str], str]
    """Fetches a task's commit."""


def sign_arguments(request: Request | ProbeRequest, base: str, project: str, keys: Keys) -> str:
    """The arguments of a job: a request with its signature."""
    signed = SignedRequest(request=_encode(request).decode(), key="", signature="", base=base)
    stamp = sign_content(signed.content, project, keys)
    return _encode(replace(signed, key=stamp.key, signature=stamp.signature)).decode()


@dataclass(eq=False)
class QueuedClaims:
    """Queues done claims for workers: a worker records the verdict, for which the caller waits."""

    ledger: Ledger
    queue: JobQueue
    claims: DoneClaims
    rules: Callable[[], Rules]
    base: Callable[[], str]
    labels: Callable[[Task, str], Sequence[str]]
    new_key: Callable[[], str]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def claim(
        self, request: Request, ask: Callable[[Request], Answer], seconds: float
    ) -> ClaimOutcome | None:
        """Answers a done claim once its gate run has ended; None before.

        Raises if no worker can take it, or the run left no verdict.
        """
        work: c.SubmitTask | c.CompleteHandoff = request.command
        commit = self.ledger.repository.commit(work.commit)
        request = replace(
            request,
            key=request.key or f"claim-{self.new_key()}",
            command=replace(work, commit=commit.sha) if commit else work,
        )
        known = self.claims.recorded_outcome(request) or self.claims.claim(request, ask)
        task = self.ledger.task_of(work)
        if known is not None or task is None or commit is None:
            return known
        job = QueuedJob(
            kind=GATE_RUN,
            key=f"{request.key}/verdict",
            arguments=sign_arguments(request, self.base(), self.rules().project, self.ledger.keys),
            labels=tuple(self.labels(task, commit.sha)),
            lock=task.id,
        )
        self.queue.add(job)
        if not self.wait(job.key, task.id, seconds):
            return None
        found = self.claims.recorded_outcome(request) or self.claims.claim(request, ask)
        if found is None and seconds:
            raise EnvironmentFault(self._describe_end(task.id))
        return found

    def _describe_end(self, task_id: str) -> str:
        """Why a gate run ended without a recorded verdict."""
        if self.queue.state(task_id) in (JobState.WAITING, JobState.RUNNING):
            return (
                f"A later done claim of {task_id} replaces this one. Wait for its verdict with "
                f"`remand gate wait {task_id}`, or the MCP tool `submit`."
            )
        return f"The gate run of {task_id} ended without a verdict; its worker's output says why. Submit the task again."

    def wait(self, name: str, task_id: str, seconds: float) -> bool:
        """Waits for gate runs, by their key or their task; False if one is still running after that time."""
        begun = self.clock()
        while self.queue.state(name) in (JobState.WAITING, JobState.RUNNING):
            waited = self.clock() - begun
            if waited >= seconds:
                return False
            if waited >= ALONE_SECONDS and self.queue.state(name) is JobState.WAITING:
                self._require_worker(name, task_id)
            self.sleep(LOOK_SECONDS)
        return True

    def _require_worker(self, name: str, task_id: str) -> None:
        # An earlier job of the task delays the later ones.
        names = {name, task_id}
        waiting = next((job for job in self.queue.unclaimed_jobs() if names & {job.key, job.lock}), None)
        if waiting is not None:
            raise EnvironmentFault(
                f"The gates of {task_id} wait for a worker, and no running worker can run them. Start one with "
                f"`remand worker{worker_options(waiting.labels)}`; `remand gate wait {task_id}`, or the MCP tool `submit`, then waits for the verdict."
            )


@dataclass(eq=False)
class GateWorker:
    """Measures queued done claims, and records the results under its own key."""

    ledger: Ledger
    rules: Callable[[], Rules]
    commits: CommitSource
    claims: Callable[[Callable[[], bool]], DoneClaims]
    """Measures, and checks before recording that the job is still this worker's."""
    labels: Callable[[Task, str], Sequence[str]]
    """The labels that a task's gates need by the current base."""
    is_current: Callable[[QueuedJob], bool]
    report: Callable[[str], None]
    own_labels: Sequence[str] = ()
    _failed: dict[str, int] = field(default_factory=dict)
    """How often something of a job was not available here, by its key."""

    def run(self, job: QueuedJob) -> None:
        """Measures one done claim.

        Raises Refused if the base does not trust this machine's key, and EnvironmentFault to try again later.
        """
        signed = read_arguments(job)
        why = self.commits.refresh(signed.base if signed else "")
        self._note_missing(job, why)
        own = self.ledger.keys.ensure_key()
        require_trusted_key(self.rules().untrusted_key_id(own), is_confined=True)
        request = self._read(job, signed) if signed else None
        if request is None:
            self.report(f"A gate run was skipped: {job.key} is not a done claim that a trusted key signed.")
            return
        work: c.SubmitTask | c.CompleteHandoff = request.command
        task, commit = self.ledger.task_of(work), work.commit
        if task is None:
            return
        if not why:
            why = self.commits.fetch(task.id, commit)
            self._note_missing(job, why)
        self.report(
            f"{task.id} at {commit[:12]}: {self._describe(self._measure(job, request, task, commit, why))}"
        )
        self._failed.pop(job.key, None)

    def _note_missing(self, job: QueuedJob, why: str) -> None:
        """Returns a job for which something is missing to the queue, a limited number of times; the attempts do not count."""
        if not why:
            return
        self._failed[job.key] = self._failed.get(job.key, 0) + 1
        if self._failed[job.key] < MAX_FETCHES:
            raise EnvironmentFault(f"Its commit or the base is not available: {why}")

    def _describe(self, claimed: ClaimOutcome | None) -> str:
        """A done claim's result as text. Raises if this machine could not measure it, but another one may."""
        if claimed is None:
            return "not measured"
        if claimed.verdict is not None or not isinstance(claimed.answer, Refused):
            return claimed.verdict.status if claimed.verdict else "submitted"
        if claimed.answer.code in ENVIRONMENT:
            raise claimed.answer
        if is_unmeasured(claimed.answer):
            raise EnvironmentFault(f"It could not be measured here: {claimed.answer.message}")
        return f"not measured: {claimed.answer.message}"

    def _measure(
        self, job: QueuedJob, request: Request, task: Task, commit: str, why: str
    ) -> ClaimOutcome | None:
        claims = self.claims(lambda: self.is_current(job))
        if not why:
            needed = self.labels(task, commit)
            if not can_take(self.own_labels, needed):
                raise LabelsMissing(needed)
            return claims.claim(request, self.ledger.ask)
        require_current(lambda: self.is_current(job))
        return claims.record_unmeasured(request, task, commit, _missing_text(task.id, why))

    def _read(self, job: QueuedJob, signed: SignedRequest) -> Request | None:
        """The done claim of a job; None unless signed by a key that counts here."""
        try:
            request = _decode_request(signed.request)
        except (msgspec.MsgspecError, UnicodeEncodeError):
            return None
        if f"{request.key}/verdict" != job.key:
            return None
        return request if signed.is_trusted(self.rules(), self.ledger.keys) else None


def read_arguments(job: QueuedJob) -> SignedRequest | None:
    """The arguments with which a job was added; anyone may have added it."""
    try:
        signed = _decode(job.arguments)
        (signed.base + signed.request).encode()
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None
    return signed


def _missing_text(task_id: str, why: str) -> str:
    """The message about a commit that no worker can fetch."""
    end = "" if why.endswith(".") else "."
    return (
        f"The worker cannot get the commit: {why}{end} Push it to refs/remand/submitted/{task_id} on the project's "
        f"remote, or see to it that the worker reaches that, and submit again; the work itself was not judged."
    )


def worker_options(labels: Sequence[str]) -> str:
    """The command line options that start a worker with these labels."""
    return f" --labels {','.join(labels)}" if labels else ""


def require_current(is_current: Callable[[], bool]) -> None:
    """Raises JobTaken if another worker has the job by now."""
    if not is_current():
        raise JobTaken


PROBE_SECONDS = 30.0
"""How long a rejection waits for all its commands, and then for its addresses."""
KEPT_SECONDS = 600.0
RESULTS = "evidence"
"""The kind under which results are stored until the caller has read them."""


class ProbeRequest(Record, kw_only=True):
    """A command at a commit, or an address, to check before a deadline."""

    key: str
    until: Instant
    command: tuple[str, ...] = ()
    commit: str = ""
    url: str = ""


class ProbeResult(Record, kw_only=True):
    """A worker's signed result: write access to the database is not enough to forge it."""

    outcome: CommandOutcome | None = None
    """None if it is not permitted, or failed to run."""
    why: str = ""
    """Why the worker did not try."""
    stamp: SignatureStamp | None = None

    def content(self, key: str) -> bytes:
        """What is signed, with the job that it answers."""
        return b"remand evidence v1\n" + key.encode() + b"\n" + _encode(replace(self, stamp=None))


_decode_probe = msgspec.json.Decoder(ProbeRequest).decode
_decode_result = msgspec.json.Decoder(ProbeResult).decode


@dataclass(eq=False)
class QueuedProbes:
    """Lets workers run one rejection's commands, or fetch its addresses. Raises EnvironmentFault if none did in time."""

    ledger: Ledger
    queue: JobQueue
    shared: SharedData
    rules: Callable[[], Rules]
    base: Callable[[], str]
    new_key: Callable[[], str]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _left: float = PROBE_SECONDS

    def run(self, command: tuple[str, ...], commit: str) -> CommandOutcome | None:
        return self._ask(ProbeRequest(key="", until="", command=command, commit=commit))

    def get(self, url: str) -> CommandOutcome | None:
        return self._ask(ProbeRequest(key="", until="", url=url))

    def _ask(self, probe: ProbeRequest) -> CommandOutcome | None:
        key, now = f"evidence-{self.new_key()}{self.new_key()}", self.ledger.clock.now()
        request = replace(probe, key=key, until=add_seconds(now, self._left))
        arguments = sign_arguments(request, self.base(), self.rules().project, self.ledger.keys)
        self.queue.add(QueuedJob(kind=EVIDENCE_CHECK, key=key, arguments=arguments))
        begun = self.clock()
        try:
            self._wait(key, begun)
        finally:
            self._left -= self.clock() - begun
        return self._result(key)

    def _wait(self, key: str, begun: float) -> None:
        while self.queue.state(key) in (JobState.WAITING, JobState.RUNNING):
            waited = self.clock() - begun
            is_alone = waited >= ALONE_SECONDS and any(job.key == key for job in self.queue.unclaimed_jobs())
            if is_alone or waited >= self._left:
                self._left = 0.0 if is_alone else self._left
                raise EnvironmentFault(
                    "no worker is running that could do it; start one with `remand worker`"
                    if is_alone
                    else "no worker finished it in time"
                )
            self.sleep(LOOK_SECONDS)

    def _result(self, key: str) -> CommandOutcome | None:
        """The worker's outcome, if a key that counts here signed it; else None."""
        kept = self.shared.get(RESULTS, key, self.ledger.clock.now())
        self.shared.drop(RESULTS, key)
        try:
            found = _decode_result(kept or b"")
        except msgspec.MsgspecError:
            raise EnvironmentFault("its worker reported nothing; see its output") from None
        if found.stamp is None or not found.stamp.covers(found.content(key), self.rules(), self.ledger.keys):
            raise EnvironmentFault("no trusted key signed the worker's result")
        if found.why:
            raise EnvironmentFault(found.why)
        return found.outcome


@dataclass(eq=False)
class ProbeWorker:
    """Runs commands and fetches addresses of evidence, by the policy of this machine's base."""

    ledger: Ledger
    rules: Callable[[], Rules]
    commits: CommitSource
    shared: SharedData
    commands: Callable[[], CommandProbes]
    pages: Callable[[], Pages]

    def run(self, job: QueuedJob) -> None:
        """Checks one piece of evidence. Raises Refused if the base does not trust this machine's key."""
        signed = read_arguments(job)
        why = self.commits.refresh(signed.base if signed else "")
        require_trusted_key(self.rules().untrusted_key_id(self.ledger.keys.ensure_key()), is_confined=True)
        request = self._read(job, signed) if signed else None
        now = self.ledger.clock.now()
        if request is None or now >= request.until:
            return  # Nobody is waiting for it any more, or the request came from nobody who counts.
        try:
            result = ProbeResult(why=why) if why else self._check(request)
        except EnvironmentFault as fault:
            result = ProbeResult(why=str(fault))
        stamp = sign_content(result.content(job.key), self.rules().project, self.ledger.keys)
        until = add_seconds(now, KEPT_SECONDS)
        data = _encode(replace(result, stamp=stamp))
        self.shared.put(RESULTS, job.key, data, owner=job.key, until=until, now=now, most=1)

    def _check(self, request: ProbeRequest) -> ProbeResult:
        if request.url:
            return ProbeResult(outcome=self.pages().get(request.url))
        why = self.commits.fetch("", request.commit)
        if why:
            return ProbeResult(why=f"the worker cannot get the commit: {why}")
        return ProbeResult(outcome=self.commands().run(request.command, request.commit))

    def _read(self, job: QueuedJob, signed: SignedRequest) -> ProbeRequest | None:
        try:
            request = _decode_probe(signed.request)
        except msgspec.MsgspecError:
            return None
        is_signed = signed.is_trusted(self.rules(), self.ledger.keys)
        return request if is_signed and request.key == job.key else None
